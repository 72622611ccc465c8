"""The parts of a data set, in a folder or under an address that pyarrow can open, and if they fit into memory."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.extras import import_extra
from rankloop.core.files import cache_folder
from rankloop.data.letor.file import PACKED_SUFFIXES, SIDE_SUFFIXES

LETOR_SUFFIXES = (".txt", ".letor", ".dat", ".svm", ".libsvm")
TABLE_SUFFIXES = (".csv", ".parquet", ".pq")
URL_SCHEME_MARK = "://"
DATASET_COPIES = 6  # bytes of memory per byte of text while folds are trained
SCHEMA_COPIES = {"batch": 30, "online": 15}  # bytes of memory per byte of text of a log with a schema
PACKED_RATIO = 6  # how many times larger text is than its packed file, as a rule
PACKED_TABLES = (".parquet", ".pq")
MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class PartSource(NamedTuple):
    """A part at the time when the parts were listed."""

    address: str  # a path, or with s3://, gs://, file:// …
    size: int
    modified: int  # nanoseconds

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.address.rstrip("/").rsplit("/", 1)[-1]

    @property
    def is_table(self) -> bool:
        """True for CSV and Parquet, by the name."""
        return _plain_suffix(self.name) in TABLE_SUFFIXES

    @property
    def is_local(self) -> bool:
        """True for a path, false for a URL."""
        return URL_SCHEME_MARK not in self.address

    def check(self) -> None:
        """Raise if the part was changed or removed since it was listed."""
        filesystem, path = _open_filesystem(self.address)
        entry = filesystem.get_file_info(path)
        if entry.type == import_extra("pyarrow.fs").FileType.NotFound:
            raise NotFound(f"the part {self.address!r} is missing: was it moved while its data were in use?")
        now = _source(self.address, entry)
        if now != self:
            fault = f"the part {self.address!r} changed during training ({self.size:,} bytes then, {now.size:,} now)"
            raise InvalidInput(f"{fault}: train again when no process writes to it")

    @contextmanager
    def local(self) -> Iterator[Path]:
        """Yield a path to read the part from; a remote part is fetched while the block lasts."""
        self.check()
        if self.is_local:
            yield Path(self.address)
        else:
            with tempfile.TemporaryDirectory(dir=scratch_folder(), prefix="fetched-") as folder:
                filesystem, path = _open_filesystem(self.address)
                copy = Path(folder) / self.name
                try:
                    import_extra("pyarrow.fs").copy_files(path, str(copy), source_filesystem=filesystem)
                except OSError as error:
                    raise InvalidInput(f"the part {self.address!r} cannot be fetched: {error}") from None
                yield copy
        self.check()


def sources_in(address: str) -> list[PartSource]:
    """Return the LETOR files, CSV and Parquet tables in a folder or under an address, by name; or the file itself."""
    files, folders = entries_in(address)
    if not files and len(folders) == 1:
        return sources_in(f"{address.rstrip('/')}/{folders[0]}")
    parts = [source for name, source in files.items() if _is_part(name) or source.address == address]
    if not parts:
        letor_files = f"LETOR files ({', '.join(LETOR_SUFFIXES)}, also compressed)"
        raise NotFound(f"{address!r} holds no parts: {letor_files}, CSV or Parquet tables")
    if len({source.is_table for source in parts}) > 1:
        raise InvalidInput(f"{address!r} holds LETOR files and tables, {parts[0].name} …: keep each in its own folder")
    return parts


def entries_in(address: str) -> tuple[dict[str, PartSource], list[str]]:
    """Return the files by name and the names of the folders, both in order; of a file, the file itself."""
    fs = import_extra("pyarrow.fs")
    filesystem, path = _open_filesystem(address)
    entry = filesystem.get_file_info(path)
    if entry.type == fs.FileType.NotFound:
        raise NotFound(f"there is nothing at {address!r}")
    if entry.type == fs.FileType.File:
        return {entry.base_name: _source(address, entry)}, []
    entries = sorted(filesystem.get_file_info(fs.FileSelector(path)), key=lambda entry: entry.base_name)
    files = [entry for entry in entries if entry.type == fs.FileType.File]
    names = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
    folders = [name for name in names if not name.startswith((".", "_"))]
    return {entry.base_name: _source(f"{address.rstrip('/')}/{entry.base_name}", entry) for entry in files}, folders


def read_text(source: PartSource) -> str:
    """Return a small file as text."""
    filesystem, path = _open_filesystem(source.address)
    with filesystem.open_input_stream(path) as file:
        content: bytes = file.read()
    return content.decode("utf-8")


def scratch_folder() -> Path:
    """Return the folder of the copies of parts, which need 8 bytes for every number."""
    folder = cache_folder() / "parts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the cache {str(folder)!r} cannot be made: {error}; set RANKLOOP_CACHE") from None
    return folder


def _is_part(name: str) -> bool:
    hidden = name.startswith((".", "_"))
    return not hidden and not name.endswith(SIDE_SUFFIXES) and _plain_suffix(name) in (*LETOR_SUFFIXES, *TABLE_SUFFIXES)


def _plain_suffix(name: str) -> str:
    """Return the ending without that of a compression."""
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED_SUFFIXES else path.suffix


def _open_filesystem(address: str) -> tuple[Any, str]:
    fs, arrow_error = import_extra("pyarrow.fs"), import_extra("pyarrow").ArrowException
    if URL_SCHEME_MARK not in address:
        return fs.LocalFileSystem(), os.path.abspath(address)
    try:
        filesystem, path = fs.FileSystem.from_uri(address)
    except (arrow_error, OSError, ImportError) as error:
        raise InvalidInput(f"{address!r} cannot be opened: {error}") from None
    return filesystem, path


def _source(address: str, entry: Any) -> PartSource:
    return PartSource(address, int(entry.size or 0), int(entry.mtime_ns or 0))


def fit_memory(sources: Sequence[PartSource]) -> bool:
    """Return true if training with folds on these files should fit into memory."""
    n_bytes = sum(source.size * (PACKED_RATIO if source.name.endswith(PACKED_SUFFIXES) else 1) for source in sources)
    return DATASET_COPIES * n_bytes <= _available_memory()


def check_memory(log: Path, solver: str) -> None:
    """Raise if a log with a schema, whose lists are all held in memory, is too large.

    Args:
      log: The file.
      solver: "batch" or "online".
    """
    n_bytes = log.stat().st_size * (PACKED_RATIO if log.name.endswith((*PACKED_SUFFIXES, *PACKED_TABLES)) else 1)
    copies, available = SCHEMA_COPIES[solver], _available_memory()
    if copies * n_bytes > available:
        other = f", --solver online ({SCHEMA_COPIES['online']} per byte)" if solver == "batch" else ""
        needed = f"its {n_bytes:,} bytes of text need about {copies * n_bytes:,} bytes of memory ({copies} per byte)"
        advice = f"At most {available // copies:,} fit here: take fewer lists{other}, or a machine with more memory"
        fault = f"{log.name} is too large to train on with a schema: {needed}, and there are {available:,}"
        raise InvalidInput(f"{fault}. {advice}")


def _available_memory() -> int:
    """Return the bytes of memory that the system has available and the container may use."""
    info, *limits = (_content(path) for path in ("/proc/meminfo", *MEMORY_LIMITS))
    free = re.search(r"^MemAvailable:\s*(\d+)", info, re.MULTILINE)
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return min([int(free[1]) * 1024 if free else half, *(int(text) for text in limits if text.isdigit())])


def _content(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
