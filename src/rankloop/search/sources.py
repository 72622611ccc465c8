"""Sources of documents: the files of a folder, the rows of a table, or any other `DocumentSource`."""

import csv
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TextIO

import xxhash

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.search import file_formats
from rankloop.search.engine import TextDocument
from rankloop.search.office_formats import OFFICE_READERS, OfficeReader

MAX_BODY = 5_000_000  # characters of a text that are indexed
MAX_TITLE = 300
MAX_ID = 240
MAX_NAMED = 1_000  # of what is skipped


class SourceDocument(NamedTuple):
    """A document of a source. Its stamp says how it looked; None stands for one that looks as it did before."""

    id: str
    stamp: str
    document: TextDocument | None


class Skipped(dict[str, str]):
    """Reasons why parts of a source were not read in full, by name; of very many the first ones."""

    def add(self, name: str, reason: str) -> None:
        """Note why a part was skipped."""
        if len(self) < MAX_NAMED:
            self[name] = reason


class DocumentSource(Protocol):
    """Documents that may change between one reading and the next."""

    name: str  # for messages
    skipped: Skipped

    def documents(self, stamps: Mapping[str, str]) -> Iterator[SourceDocument]:
        """Yield all documents; `stamps` has the stamps of those that were read earlier, by id."""


PARQUET_BATCH_ROWS = 1_024  # rows of a Parquet file that are read at once
MAX_LINE = 2 * MAX_BODY  # characters
MAX_VALUE = 200  # characters of a field
Skip = Callable[[str, str], None]


class TableSource:
    """Documents from the columns `id`, `title` and `body` of a file, whose suffix says what it is.

    `fields` names further columns, whose values a document keeps. A row without an id, or without any text, is skipped.
    """

    def __init__(
        self, path: Path, *, id: str = "id", title: str = "title", body: str = "body", fields: Sequence[str] = ()
    ) -> None:
        if not path.is_file():
            raise NotFound(f"there is no file {str(path)!r}")
        if path.suffix.lower() not in ROWS:
            raise InvalidInput(f"{path.name}: a folder, or a file that ends in {', '.join(ROWS)}, can be searched")
        self.path, self.name = path, str(path)
        self.id, self.title, self.body, self.fields = id, title, body, tuple(fields)
        self.skipped = Skipped()

    def documents(self, stamps: Mapping[str, str]) -> Iterator[SourceDocument]:
        """Yield all documents; `stamps` has the stamps of those that were read earlier, by id."""
        self.skipped = Skipped()
        for number, row in enumerate(ROWS[self.path.suffix.lower()](self.path, self.skipped.add), 1):
            try:
                document = self._document(row, number)
            except (InvalidInput, RecursionError) as error:  # the second of lists in lists
                self.skipped.add(f"row {number}", str(error))
                continue
            parts = document.title, document.body, *map("=".join, document.fields.items())
            stamp = xxhash.xxh3_64_hexdigest("\x1f".join(parts).encode())
            yield SourceDocument(document.id, stamp, None if stamps.get(document.id) == stamp else document)

    def _document(self, row: Any, number: int) -> TextDocument:
        if not isinstance(row, Mapping):
            raise InvalidInput("it is not a table of values by name")
        id = _text(row.get(self.id))
        if not id or len(id) > MAX_ID:
            columns = ", ".join(map(str, row))
            raise InvalidInput(f"it has no {self.id!r} of 1 to {MAX_ID} characters; it has {columns:.100}")
        title, body = _text(row.get(self.title)), _text(row.get(self.body))
        if not title and not body:
            raise InvalidInput(f"neither {self.title!r} nor {self.body!r} has a text")
        if len(body) > MAX_BODY:
            self.skipped.add(f"row {number}", f"only the first {MAX_BODY:,} characters of it are indexed")
        fields = {name: value for name in self.fields if (value := _text(row.get(name))[:MAX_VALUE])}
        return TextDocument(id, title[:MAX_TITLE], body[:MAX_BODY], fields=fields)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return file_formats.CONTROL_CHARACTER.sub(" ", value.encode(errors="replace").decode()).strip()
    if isinstance(value, bool | int | float | date):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(filter(None, map(_text, value)))
    raise InvalidInput(f"{value!r:.60} is no text")


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        try:
            encoding = file_formats.encoding_of(file.read(file_formats.SAMPLE_SIZE))
        except InvalidInput as error:
            raise InvalidInput(f"{path.name}: {error}") from None
    return path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, errors="replace", newline="")


def _json_lines(path: Path, skip: Skip) -> Iterator[Any]:
    with _opened(path) as file:
        number, is_rest = 1, False
        while line := file.readline(MAX_LINE):
            is_whole = line.endswith("\n") or len(line) < MAX_LINE
            if not is_whole and not is_rest:
                skip(f"line {number}", f"it is longer than {MAX_LINE:,} characters")
            elif is_whole and not is_rest and line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    skip(f"line {number}", f"it is no JSON ({error})")
            is_rest = not is_whole
            number += is_whole


def _short_lines(file: TextIO) -> Iterator[str]:
    """Yield lines; one that is too long is not read into memory."""
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith("\n"):
            raise csv.Error(f"it is longer than {MAX_LINE:,} characters")
        yield line


def _csv(path: Path, skip: Skip) -> Iterator[Any]:
    with _opened(path) as file:
        rows = csv.DictReader(_short_lines(file), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        while True:
            limit = csv.field_size_limit(MAX_LINE)  # It holds for the process, so it is put back.
            try:
                row = next(rows, None)
            except csv.Error as error:
                skip(f"line {rows.line_num + 1}", f"{error}; what follows is not read")
                return
            finally:
                csv.field_size_limit(limit)
            if row is None:
                return
            yield row


def _parquet(path: Path, skip: Skip) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(PARQUET_BATCH_ROWS):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(f"{path.name} is not a Parquet file: {error}") from None


ROWS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet}
MAX_READ = 20 * 1024**2  # bytes of a file that are looked at
MAX_MAILBOX = 4 * 1024**3
LEFT_OUT = {"__pycache__", "node_modules"}  # besides everything whose name begins with a dot
MESSAGE_SEPARATOR = "//"  # between a file and a message in it; no path has it
MAILDIR_FOLDERS = {"cur", "new"}
MAILDIR_FILE_NAME = re.compile(r"\d+\.\S")  # how files of a maildir begin
MAX_READ_ATTEMPTS = 3  # at a file that changes while it is read
READ_LATER = "it is read later: other files take long"
CHANGES = "it changes while it is read; what was read before stays"
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
READERS = {".eml": file_formats.read_email, ".svg": file_formats.read_svg}
READERS |= dict.fromkeys((".md", ".markdown"), file_formats.read_markdown)
READERS |= dict.fromkeys((".html", ".htm", ".xhtml"), file_formats.read_html)
READERS |= dict.fromkeys((".rst", ".rest"), file_formats.read_restructured)


class FolderSource:
    """Every file below a folder that is a text; ids are paths within it, those of messages in a mailbox `path//name`.

    Links are not followed, so nothing outside the folder is read; neither are hidden files and `without`, the folder in
    which the index itself may be.

    After `max_office_seconds` of reading office files, the others are left for the next reading. Those that cannot be
    read are not tried again until they change.
    """

    max_office_seconds = math.inf

    def __init__(self, folder: Path, without: Path | None = None) -> None:
        if not folder.is_dir():
            raise NotFound(f"there is no folder {str(folder)!r}")
        self.folder = folder.resolve()
        self.without = None if without is None else without.resolve()
        self.name = str(folder)
        self.skipped = Skipped()
        self.office = OfficeReader()
        self._unreadable = dict[str, tuple[str, str]]()  # stamps of office files by id, and reasons

    def documents(self, stamps: Mapping[str, str]) -> Iterator[SourceDocument]:
        """Yield all documents; `stamps` has the stamps of those that were read earlier, by id."""
        self.skipped, stamps_by_path = Skipped(), dict[str, dict[str, str]]()
        self.office.seconds_spent = 0.0
        for id, old_stamp in stamps.items():
            stamps_by_path.setdefault(id.partition(MESSAGE_SEPARATOR)[0], {})[id] = old_stamp
        try:
            for path in self._paths():
                id = self._id(path)
                try:
                    yield from self._file(path, id, stamps_by_path.get(id, {}))
                except (InvalidInput, OSError) as error:
                    self.skipped.add(id, getattr(error, "strerror", None) or str(error))
        finally:
            self.office.close()

    def _id(self, path: Path) -> str:
        """Return the path within the folder; half characters, as some file systems have them, are written out."""
        return path.relative_to(self.folder).as_posix().encode(errors="backslashreplace").decode()

    def _paths(self) -> Iterator[Path]:
        def skip(error: OSError) -> None:
            self.skipped.add(self._id(Path(error.filename)), error.strerror or str(error))

        for here, folders, files in os.walk(self.folder, onerror=skip):
            inside = sorted(name for name in folders if name[0] != "." and name not in LEFT_OUT)
            links = [name for name in inside if os.path.islink(os.path.join(here, name))]  # never walked into
            folders[:] = [name for name in inside if name not in links and Path(here, name) != self.without]
            yield from (Path(here, name) for name in sorted([*files, *links]) if name[0] != ".")

    def _file(self, path: Path, id: str, old_stamps: Mapping[str, str]) -> Iterator[SourceDocument]:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise InvalidInput("it is a link, which is not followed")
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput("it is not a plain file")
        if len(id) > MAX_ID or not id.isprintable():
            raise InvalidInput(f"its path is longer than {MAX_ID} characters, or has unprintable ones in it")
        if old_stamps and set(old_stamps.values()) == {_stamp(status)}:
            yield from (SourceDocument(name, stamp, None) for name, stamp in old_stamps.items())
            return
        stamp, reason = self._unreadable.get(id, ("", ""))
        if stamp == _stamp(status):
            raise InvalidInput(reason)
        if self.office.seconds_spent >= self.max_office_seconds and path.suffix.lower() in OFFICE_READERS:
            raise InvalidInput(READ_LATER)
        with os.fdopen(os.open(path, OPEN_FLAGS), "rb") as file:
            if file_formats.MAILBOX_START.match(file.peek(1_000)):
                yield from self._messages(file, id, old_stamps)
            else:
                yield self._document(file, path, id, old_stamps.get(id))

    def _document(self, file: BinaryIO, path: Path, id: str, old_stamp: str | None) -> SourceDocument:
        for _ in range(MAX_READ_ATTEMPTS):
            file.seek(0)
            status = os.fstat(file.fileno())
            data = file.read(MAX_READ)
            if _stamp(os.fstat(file.fileno())) == _stamp(status):
                break
        else:
            if old_stamp is None:
                raise InvalidInput(CHANGES)
            self.skipped.add(id, CHANGES)
            return SourceDocument(id, old_stamp, None)
        suffix, is_in_maildir = path.suffix.lower(), path.parent.name in MAILDIR_FOLDERS
        if suffix in OFFICE_READERS:
            try:
                read = self.office.read(suffix, data)
            except InvalidInput as error:
                self._unreadable[id] = _stamp(status), str(error)
                raise
        elif is_in_maildir and MAILDIR_FILE_NAME.match(path.name):
            read = file_formats.read_email(data)
        else:
            read = READERS.get(suffix, file_formats.read_plain)(data)
        title = read.title or path.stem.replace("_", " ").replace("-", " ")
        fields = dict(read.fields) | {"type": path.suffix.lstrip(".").lower() or "text"}
        if "/" in id:
            fields["folder"] = id.rpartition("/")[0]
        document = TextDocument(id, title, read.body, read.at or status.st_mtime, fields)
        return SourceDocument(id, _stamp(status), self._cut(document, status.st_size > MAX_READ))

    def _messages(self, file: BinaryIO, id: str, old_stamps: Mapping[str, str]) -> Iterator[SourceDocument]:
        status, message_ids = os.fstat(file.fileno()), set[str]()
        if status.st_size > MAX_MAILBOX:
            raise InvalidInput(f"it is a mailbox larger than {MAX_MAILBOX // 1024**3} GB")
        for name, data in file_formats.messages_of(file):
            message_id = f"{id}{MESSAGE_SEPARATOR}{name}"[:MAX_ID]
            if _stamp(os.fstat(file.fileno())) != _stamp(status):  # this message and those after it stay as they were
                self.skipped.add(id, CHANGES)
                yield from (SourceDocument(old, old_stamps[old], None) for old in old_stamps.keys() - message_ids)
                return
            message_ids.add(message_id)
            try:
                read = file_formats.read_email(data)
                title, at = read.title or message_id, read.at or status.st_mtime
                document = self._cut(TextDocument(message_id, title, read.body, at, {"type": "eml", "folder": id}))
                yield SourceDocument(message_id, _stamp(status), document)
            except InvalidInput as error:
                self.skipped.add(message_id, str(error))

    def _cut(self, document: TextDocument, is_cut: bool = False) -> TextDocument:
        if not document.body.strip():
            raise InvalidInput(file_formats.NO_TEXT)
        if is_cut or len(document.body) > MAX_BODY:
            limit = f"{MAX_READ // 1024**2} MB" if is_cut else f"{MAX_BODY:,} characters"
            self.skipped.add(document.id, f"only its first {limit} are indexed")
        return document._replace(title=document.title[:MAX_TITLE], body=document.body[:MAX_BODY])


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns} {status.st_size}"
