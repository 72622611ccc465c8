"""Where the parts of a data set lie: files of a folder, or objects under an address that pyarrow can open.

Also how much memory there is, and whether they fit into it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import cache_folder
from rankloop.data.letor.file import PACKED_SUFFIXES, SIDE_SUFFIXES

LETOR = (".txt", ".letor", ".dat", ".svm", ".libsvm")
TABLES = (".csv", ".parquet", ".pq")
ENDS_BYTES = 1 << 16  # so much of a part's beginning and end is looked at, to know it again
SCHEME = "://"
DATASET_COPIES = 6  # bytes of memory per byte of text while folds are trained
SCHEMA_COPIES = {"batch": 30, "online": 15}  # the same of a log that is learned from by a schema
PACKED_RATIO = 6  # how many times larger text is than its packed file, as a rule
PACKED_TABLES = (".parquet", ".pq")
MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class PartSource(NamedTuple):
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


def sources_in(address: str) -> list[PartSource]:
    """The LETOR files, CSV and Parquet tables in a folder or under an address, by name; or the one file that it is."""
    files, folders = entries_in(address)
    if not files and len(folders) == 1:
        return sources_in(f"{address.rstrip('/')}/{folders[0]}")
    found = [source for name, source in files.items() if is_part(name)] if is_folder(address) else list(files.values())
    if not found:
        raise NotFound(
            f"{address!r} holds no parts: LETOR files ({', '.join(LETOR)}, also packed), CSV or Parquet tables"
        )
    kinds = {source.is_table for source in found}
    if len(kinds) > 1:
        raise InvalidInput(f"{address!r} holds LETOR files and tables, {found[0].name} …: keep each in its own folder")
    return found


def entries_in(address: str) -> tuple[dict[str, PartSource], list[str]]:
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


def read_text(source: PartSource) -> str:
    """A small file as text."""
    filesystem, path = _opened(source.address)
    with filesystem.open_input_stream(path) as file:
        content: bytes = file.read()
    return content.decode("utf-8")


def is_folder(address: str) -> bool:
    """Whether an address is one of a folder."""
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


def is_part(name: str) -> bool:
    """Return true if a file is a part, by its name."""
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


def _found(address: str) -> PartSource | None:
    if SCHEME not in address:
        try:
            status = os.stat(address)
        except OSError:
            return None
        return PartSource(address, status.st_size, status.st_mtime_ns)
    from pyarrow import fs

    filesystem, path = _opened(address)
    there = filesystem.get_file_info(path)
    return None if there.type == fs.FileType.NotFound else _source(address, there)


def _source(address: str, entry: Any) -> PartSource:
    if SCHEME not in address:
        found = _found(address)
        if found is None:
            raise NotFound(f"the part {address!r} is missing")
        return found
    return PartSource(address, int(entry.size or 0), int(entry.mtime_ns or 0))


def _fetched(source: PartSource, folder: Path) -> Path:
    filesystem, path = _opened(source.address)
    copy = folder / source.name
    try:
        with filesystem.open_input_stream(path, compression=None) as there, copy.open("wb") as here:
            shutil.copyfileobj(there, here, 8 << 20)
    except OSError as error:
        raise InvalidInput(f"the part {source.address!r} cannot be fetched: {error}") from None
    return copy


def available_memory() -> int:
    """Bytes that can be taken without harm: what the system says, and at most what a container may use."""
    return min([_free_memory(), *(int(text) for text in map(_content, MEMORY_LIMITS) if text.isdigit())])


def fit_memory(sources: Sequence[PartSource]) -> bool:
    """Whether training on these files in memory, with folds, should work; text takes about as much as its numbers."""
    needed = sum(source.size * (PACKED_RATIO if source.name.endswith(PACKED_SUFFIXES) else 1) for source in sources)
    return DATASET_COPIES * needed <= available_memory()


def check_memory(log: Path, solver: str) -> None:
    """Refuse a log in values by name, all of whose lists are held in memory, before it is read."""
    n_bytes = log.stat().st_size * (PACKED_RATIO if log.name.endswith((*PACKED_SUFFIXES, *PACKED_TABLES)) else 1)
    copies, available = SCHEMA_COPIES[solver], available_memory()
    if copies * n_bytes > available:
        other = f", --solver online ({SCHEMA_COPIES['online']} for one)" if solver == "batch" else ""
        raise InvalidInput(
            f"{log.name} is too large to train on with a schema: its {n_bytes:,} bytes of text need about "
            f"{copies * n_bytes:,} bytes of memory ({copies} for one), and there are {available:,}. At most "
            f"{available // copies:,} fit here: take fewer lists{other}, a machine with more memory, or numbers "
            "instead of a schema, which are streamed from a folder of parts"
        )


def _free_memory() -> int:
    for line in _content("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _content(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
