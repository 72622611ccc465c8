"""Where the parts of a data set lie: files of a folder, or objects under an address that pyarrow can open."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import cache_folder
from rankloop.data.readers.letor.queries import PACKED_SUFFIXES, SIDE_SUFFIXES

LETOR = (".txt", ".letor", ".dat", ".svm", ".libsvm")
TABLES = (".csv", ".parquet", ".pq")
ENDS_BYTES = 1 << 16  # so much of a part's beginning and end is looked at, to know it again
SCHEME = "://"


class Source(NamedTuple):
    """A part, as it was when the parts were listed."""

    address: str  # a path, or with s3://, gs://, file:// …
    size: int
    modified: int  # nanoseconds

    @property
    def name(self) -> str:
        return self.address.rstrip("/").rsplit("/", 1)[-1]

    @property
    def is_table(self) -> bool:
        return _plain_suffix(self.name) in TABLES

    @property
    def is_local(self) -> bool:
        return SCHEME not in self.address

    def check(self) -> None:
        """The part is still the one that was listed; looked up at every pass where that costs next to nothing."""
        now = _found(self.address)
        if now is None:
            raise NotFound(f"the part {self.address!r} is missing: was it moved while its data were in use?")
        if now != self:
            raise InvalidInput(
                f"the part {self.address!r} changed during training ({self.size:,} bytes then, {now.size:,} now): "
                "train again when nobody writes to it"
            )

    @contextmanager
    def local(self) -> Iterator[Path]:
        """A path to read the part from; a remote one is fetched for as long as the block lasts."""
        self.check()
        if self.is_local:
            yield Path(self.address)
        else:
            folder = scratch_folder()
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetched-") as room:
                yield _fetched(self, Path(room))
        self.check()

    def fingerprint(self) -> str:
        """Address, size, time and both ends of the content: what a copy in the cache is known by."""
        self.check()
        digest = xxhash.xxh3_128(repr(tuple(self)).encode())
        filesystem, path = _opened(self.address)
        with filesystem.open_input_file(path) as file:
            digest.update(file.read(ENDS_BYTES))
            file.seek(max(0, self.size - ENDS_BYTES))
            digest.update(file.read(ENDS_BYTES))
        return digest.hexdigest()


def sources_in(address: str) -> list[Source]:
    """The LETOR files, CSV and Parquet tables in a folder or under an address, by name; or the one file that it is."""
    files, _ = entries_in(address)
    found = (
        [source for name, source in files.items() if _is_part(name)] if _is_folder(address) else list(files.values())
    )
    if not found:
        raise NotFound(
            f"{address!r} holds no parts: LETOR files ({', '.join(LETOR)}, also packed), CSV or Parquet tables"
        )
    kinds = {source.is_table for source in found}
    if len(kinds) > 1:
        raise InvalidInput(f"{address!r} holds LETOR files and tables, {found[0].name} …: keep each in its own folder")
    return found


def entries_in(address: str) -> tuple[dict[str, Source], list[str]]:
    """The files by name and the names of the folders, both in order; a file has itself in it."""
    from pyarrow import fs

    filesystem, path = _opened(address)
    there = filesystem.get_file_info(path)
    if there.type == fs.FileType.NotFound:
        raise NotFound(f"there is nothing at {address!r}")
    if there.type == fs.FileType.File:
        return {there.base_name: _source(address, there)}, []
    entries = sorted(filesystem.get_file_info(fs.FileSelector(path)), key=lambda entry: entry.base_name)
    files = [entry for entry in entries if entry.type == fs.FileType.File]
    folders = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
    return {entry.base_name: _source(f"{address.rstrip('/')}/{entry.base_name}", entry) for entry in files}, folders


def read_text(source: Source) -> str:
    """A small file as text."""
    filesystem, path = _opened(source.address)
    with filesystem.open_input_stream(path) as file:
        content: bytes = file.read()
    return content.decode("utf-8")


def _is_folder(address: str) -> bool:
    from pyarrow import fs

    filesystem, path = _opened(address)
    return bool(filesystem.get_file_info(path).type == fs.FileType.Directory)


def scratch_folder() -> Path:
    """Where parts are kept for streaming; on a disk with as much room as the data take as numbers."""
    folder = cache_folder() / "parts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the cache {str(folder)!r} cannot be made: {error}; set RANKLOOP_CACHE") from None
    return folder


def _is_part(name: str) -> bool:
    hidden = name.startswith((".", "_"))
    return not hidden and not name.endswith(SIDE_SUFFIXES) and _plain_suffix(name) in (*LETOR, *TABLES)


def _plain_suffix(name: str) -> str:
    """The ending below that of a packer."""
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED_SUFFIXES else path.suffix


def _opened(address: str) -> tuple[Any, str]:
    from pyarrow import ArrowException, fs

    if SCHEME not in address:
        return fs.LocalFileSystem(), os.path.abspath(address)
    try:
        filesystem, path = fs.FileSystem.from_uri(address)
    except (ArrowException, OSError, ImportError) as error:
        raise InvalidInput(f"{address!r} cannot be opened: {error}") from None
    return filesystem, path


def _found(address: str) -> Source | None:
    if SCHEME not in address:
        try:
            status = os.stat(address)
        except OSError:
            return None
        return Source(address, status.st_size, status.st_mtime_ns)
    from pyarrow import fs

    filesystem, path = _opened(address)
    there = filesystem.get_file_info(path)
    return None if there.type == fs.FileType.NotFound else _source(address, there)


def _source(address: str, entry: Any) -> Source:
    if SCHEME not in address:
        found = _found(address)
        if found is None:
            raise NotFound(f"the part {address!r} is missing")
        return found
    return Source(address, int(entry.size or 0), int(entry.mtime_ns or 0))


def _fetched(source: Source, folder: Path) -> Path:
    filesystem, path = _opened(source.address)
    copy = folder / source.name
    try:
        with filesystem.open_input_stream(path, compression=None) as there, copy.open("wb") as here:
            shutil.copyfileobj(there, here, 8 << 20)
    except OSError as error:
        raise InvalidInput(f"the part {source.address!r} cannot be fetched: {error}") from None
    return copy
