"""A folder of files as documents."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import Document
from rankloop.search.markup import MAX_BODY, MAX_TITLE, READERS, Read, read_email, read_plain

MAX_FILE = 500 * 1024**2  # bytes
MAX_PATH = 240  # characters of an id
LEFT_OUT = {"__pycache__", "node_modules"}  # besides everything whose name begins with a dot
MAILDIR = ("cur", "new")
ATTEMPTS = 3  # at a file that changes while it is read


class FolderSource:
    """Every file below a folder that can be read as text; ids are paths within it. Links that lead out are refused."""

    def __init__(self, folder: Path, without: Path | None = None) -> None:
        if not folder.is_dir():
            raise NotFound(f"there is no folder {str(folder)!r}")
        self.folder = folder.resolve()
        self.without = None if without is None else without.resolve()
        self.skipped: dict[str, str] = {}

    def documents(self, known: Mapping[str, str]) -> Iterator[tuple[str, str, Document | None]]:
        self.skipped = {}
        for path in self._paths():
            id = path.relative_to(self.folder).as_posix()
            try:
                yield self._read(path, id, known.get(id))
            except (InvalidInput, OSError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.skipped[_printable(id)] = reason

    def _paths(self) -> Iterator[Path]:
        for here, folders, files in os.walk(self.folder):
            inside = [name for name in sorted(folders) if name[0] != "." and name not in LEFT_OUT]
            folders[:] = [name for name in inside if Path(here, name).resolve() != self.without]
            for name in folders:
                if Path(here, name).is_symlink():  # os.walk does not follow it
                    self.skipped[_printable(Path(here, name).relative_to(self.folder).as_posix())] = (
                        "a link to a folder"
                    )
            yield from (Path(here, name) for name in sorted(files) if name[0] != ".")

    def _read(self, path: Path, id: str, stamp: str | None) -> tuple[str, str, Document | None]:
        if not path.resolve().is_relative_to(self.folder):
            raise InvalidInput("it leads outside the folder")
        if len(id) > MAX_PATH or not id.isprintable() or _printable(id) != id:
            raise InvalidInput(f"its path is longer than {MAX_PATH} characters, or holds strange ones")
        for _ in range(ATTEMPTS):
            before = path.stat()
            now = f"{before.st_mtime_ns} {before.st_size}"
            if now == stamp:
                return id, now, None
            if before.st_size > MAX_FILE:
                raise InvalidInput(f"it is larger than {MAX_FILE // 1024**2} MB")
            if not path.is_file():
                raise InvalidInput("it is no plain file")
            read = _text_of(path, path.read_bytes())
            if path.stat().st_mtime_ns == before.st_mtime_ns:
                break
        if not read.body.strip():
            raise InvalidInput("there is no text in it")
        if len(read.body) > MAX_BODY:
            self.skipped[id] = f"only its first {MAX_BODY:,} characters are indexed"
        title = (read.title or path.stem.replace("_", " ").replace("-", " "))[:MAX_TITLE]
        return id, now, Document(id, title, read.body[:MAX_BODY], read.at or before.st_mtime)


def _text_of(path: Path, data: bytes) -> Read:
    reader = READERS.get(path.suffix.lower())
    if reader is None and path.parent.name in MAILDIR:
        reader = read_email
    if reader is None:
        if b"\0" in data[:8_000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InvalidInput("it is not a text")
        reader = read_plain
    return reader(data)


def _printable(id: str) -> str:
    """A name with half characters, as some file systems have them, as text that can be written."""
    return id.encode("utf-8", errors="backslashreplace").decode()
