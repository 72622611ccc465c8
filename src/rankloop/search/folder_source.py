"""A folder of files as documents."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search.engine import Document
from rankloop.search.formats.file_text import FileText, read_plain
from rankloop.search.formats.html_text import read_html
from rankloop.search.formats.light_markup import read_markdown, read_restructured
from rankloop.search.formats.mail import is_mailbox, messages_of, read_email
from rankloop.search.source import MAX_BODY, MAX_ID, MAX_TITLE, Found, Skipped

MAX_READ = 20 * 1024**2  # bytes of a file that are looked at
MAX_MAILBOX = 4 * 1024**3
LEFT_OUT = {"__pycache__", "node_modules"}  # besides everything whose name begins with a dot
WITHIN = "//"  # between a file and a message in it; no path has it
MAILDIR = {"cur", "new"}
MESSAGE = re.compile(r"\d+\.\S")  # how files of a maildir begin
ATTEMPTS = 3  # at a file that changes while it is read
CHANGES = "it changes while it is read; what was read before stays"
UNFOLLOWED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
READERS: dict[str, Callable[[bytes], FileText]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".rst": read_restructured,
    ".rest": read_restructured,
    ".eml": read_email,
}


class FolderSource:
    """Every file below a folder that is a text; ids are paths within it, those of messages in a mailbox `path//name`.

    Links are not followed, so nothing outside the folder is read; neither are hidden files and `without`, the folder in
    which the index itself may be.
    """

    def __init__(self, folder: Path, without: Path | None = None) -> None:
        if not folder.is_dir():
            raise NotFound(f"there is no folder {str(folder)!r}")
        self.folder = folder.resolve()
        self.without = None if without is None else without.resolve()
        self.name = str(folder)
        self.skipped = Skipped()

    def documents(self, known: Mapping[str, str]) -> Iterator[Found]:
        self.skipped = Skipped()
        messages = dict[str, list[str]]()
        for id in known:
            messages.setdefault(id.partition(WITHIN)[0], []).append(id)
        for path in self._paths():
            id = self._id(path)
            before = {one: known[one] for one in messages.get(id, ())}
            try:
                yield from self._file(path, id, before)
            except (InvalidInput, OSError) as error:
                self.skipped.add(id, getattr(error, "strerror", None) or str(error))

    def _id(self, path: Path) -> str:
        """The path within the folder; half characters, as some file systems have them, are written out."""
        return path.relative_to(self.folder).as_posix().encode(errors="backslashreplace").decode()

    def _paths(self) -> Iterator[Path]:
        def skip(error: OSError) -> None:
            self.skipped.add(self._id(Path(error.filename)), error.strerror or str(error))

        for here, folders, files in os.walk(self.folder, onerror=skip):
            inside = sorted(name for name in folders if name[0] != "." and name not in LEFT_OUT)
            links = [name for name in inside if os.path.islink(os.path.join(here, name))]  # never walked into
            folders[:] = [name for name in inside if name not in links and Path(here, name) != self.without]
            yield from (Path(here, name) for name in sorted([*files, *links]) if name[0] != ".")

    def _file(self, path: Path, id: str, before: Mapping[str, str]) -> Iterator[Found]:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise InvalidInput("it is a link, which is not followed")
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput("it is no plain file")
        if len(id) > MAX_ID or not id.isprintable():
            raise InvalidInput(f"its path is longer than {MAX_ID} characters, or has unprintable ones in it")
        if before and set(before.values()) == {_stamp(status)}:
            yield from (Found(known, stamp, None) for known, stamp in before.items())
            return
        with os.fdopen(os.open(path, UNFOLLOWED), "rb") as file:
            if is_mailbox(file.peek(1_000)):
                yield from self._messages(file, id, before)
            else:
                yield self._document(file, path, id, before.get(id))

    def _document(self, file: BinaryIO, path: Path, id: str, known: str | None) -> Found:
        for _ in range(ATTEMPTS):
            file.seek(0)
            status = os.fstat(file.fileno())
            data = file.read(MAX_READ)
            if _is_as(file, status):
                break
        else:
            if known is None:
                raise InvalidInput(CHANGES)
            self.skipped.add(id, CHANGES)
            return Found(id, known, None)
        read = _reader(path)(data)
        title = read.title or path.stem.replace("_", " ").replace("-", " ")
        document = self._cut(Document(id, title, read.body, read.at or status.st_mtime), status.st_size > MAX_READ)
        return Found(id, _stamp(status), document)

    def _messages(self, file: BinaryIO, id: str, before: Mapping[str, str]) -> Iterator[Found]:
        status, there = os.fstat(file.fileno()), set[str]()
        if status.st_size > MAX_MAILBOX:
            raise InvalidInput(f"it is a mailbox larger than {MAX_MAILBOX // 1024**3} GB")
        for name, data in messages_of(file):
            one = f"{id}{WITHIN}{name}"[:MAX_ID]
            if not _is_as(file, status):  # this message and those after it stay as they were
                self.skipped.add(id, CHANGES)
                yield from (Found(old, before[old], None) for old in before.keys() - there)
                return
            there.add(one)
            try:
                read = read_email(data)
                title = read.title or one
                yield Found(one, _stamp(status), self._cut(Document(one, title, read.body, read.at or status.st_mtime)))
            except InvalidInput as error:
                self.skipped.add(one, str(error))

    def _cut(self, document: Document, is_cut: bool = False) -> Document:
        if not document.body.strip():
            raise InvalidInput("there is no text in it")
        if is_cut or len(document.body) > MAX_BODY:
            limit = f"{MAX_READ // 1024**2} MB" if is_cut else f"{MAX_BODY:,} characters"
            self.skipped.add(document.id, f"only its first {limit} are indexed")
        return document._replace(title=document.title[:MAX_TITLE], body=document.body[:MAX_BODY])


def _reader(path: Path) -> Callable[[bytes], FileText]:
    if path.parent.name in MAILDIR and MESSAGE.match(path.name):
        return read_email
    return READERS.get(path.suffix.lower(), read_plain)


def _is_as(file: BinaryIO, status: os.stat_result) -> bool:
    return _stamp(os.fstat(file.fileno())) == _stamp(status)


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns} {status.st_size}"
