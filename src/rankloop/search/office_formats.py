"""PDF, office files, e-books and notebooks as plain text; each is read by a process of its own, with limits."""

import json
import posixpath
import signal
import sys
import time
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from subprocess import DEVNULL, PIPE, Popen
from threading import Timer
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import missing_extra_message
from rankloop.search.file_formats import NO_TEXT, FileText, html_text

DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"  # the namespace of titles in e-books
MAX_READ_SECONDS = 20.0
MAX_MEMORY_BYTES = 1_000_000_000
MAX_UNPACKED_BYTES = 300_000_000  # of a zip file, which office files are
MAX_CHARACTERS = 5_000_000
MAX_PAGES = 5_000
PLACEHOLDER_TITLES = {"Word Document", "PowerPoint Presentation"}  # of files whose authors gave none


def _read_pdf(data: bytes) -> FileText:
    """Read the text of a PDF, page by page."""
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(data))
    pages = (page.extract_text() for page, _ in zip(reader.pages, range(MAX_PAGES)))
    title = reader.metadata.title if reader.metadata else None
    return FileText(str(title or ""), _joined(pages))


def _read_docx(data: bytes) -> FileText:
    """Read paragraphs and tables of a Word document."""
    from docx import Document

    document = Document(BytesIO(data))
    cells = (cell.text for table in document.tables for row in table.rows for cell in row.cells)
    lines = [paragraph.text for paragraph in document.paragraphs]
    return FileText(document.core_properties.title or "", _joined([*lines, *cells]))


def _read_pptx(data: bytes) -> FileText:
    """Read the texts of all slides of a presentation."""
    from pptx import Presentation

    presentation = Presentation(BytesIO(data))
    shapes = (shape for slide in presentation.slides for shape in slide.shapes if shape.has_text_frame)
    return FileText(presentation.core_properties.title or "", _joined(shape.text_frame.text for shape in shapes))


def _read_xlsx(data: bytes) -> FileText:
    """Read the cells of all sheets of a workbook, a line for each row."""
    from openpyxl import load_workbook

    workbook = load_workbook(BytesIO(data), read_only=True, data_only=True)
    rows = (row for sheet in workbook.worksheets for row in sheet.iter_rows(values_only=True))
    return FileText("", _joined(" ".join(str(cell) for cell in row if cell is not None) for row in rows))


def _read_odt(data: bytes) -> FileText:
    """Read the headings and paragraphs of an OpenDocument text."""
    from odf import teletype, text
    from odf.opendocument import load

    body = load(BytesIO(data)).text
    elements = [element for kind in (text.H, text.P) for element in body.getElementsByType(kind)]
    return FileText("", _joined(teletype.extractText(element) for element in elements))


def _read_epub(data: bytes) -> FileText:
    """Read the chapters of an e-book, in their order."""
    with zipfile.ZipFile(BytesIO(data)) as book:
        container = ElementTree.fromstring(book.read("META-INF/container.xml"))
        path = next(file.attrib["full-path"] for file in container.iterfind(".//{*}rootfile"))
        package = ElementTree.fromstring(book.read(path))
        addresses = {item.get("id"): item.attrib["href"] for item in package.iterfind("{*}manifest/{*}item")}
        parts = (addresses[part.get("idref")] for part in package.iterfind("{*}spine/{*}itemref"))
        files = (book.read(posixpath.join(posixpath.dirname(path), unquote(part))) for part in parts)
        chapters = _joined(html_text(file.decode(errors="replace")).body for file in files)
    return FileText(package.findtext(f".//{DUBLIN_CORE}title") or "", chapters)


def _read_notebook(data: bytes) -> FileText:
    """Read the cells of a Jupyter notebook, without their outputs."""
    cells = json.loads(data).get("cells", [])
    return FileText("", _joined("".join(cell.get("source", [])) for cell in cells if isinstance(cell, dict)))


OFFICE_READERS = {".pdf": _read_pdf, ".docx": _read_docx, ".pptx": _read_pptx, ".xlsx": _read_xlsx}
OFFICE_READERS |= {".odt": _read_odt, ".epub": _read_epub, ".ipynb": _read_notebook}


class OfficeReader:
    """Reads files one by one in a process that is replaced when a file takes too long, too much memory, or crashes."""

    def __init__(self, max_seconds: float = MAX_READ_SECONDS) -> None:
        self._max_seconds, self.seconds_spent = max_seconds, 0.0
        self._process: Any = None

    def read(self, suffix: str, data: bytes) -> FileText:
        """Return title and text of a file with one of the suffixes of `OFFICE_READERS`, or say why that fails."""
        if self._process is None:
            # `multiprocessing` would run the user's script again in the new process, unless it has a main guard.
            code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _serve; _serve({self._max_seconds})"
            self._process = Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        process, begin = self._process, time.monotonic()
        timer = Timer(self._max_seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{suffix} {len(data)}\n".encode() + data)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        except (ValueError, OSError):
            self.close()
            if time.monotonic() - begin >= self._max_seconds:
                raise InvalidInput(f"it took longer than {self._max_seconds:g} seconds to read") from None
            raise InvalidInput("it could not be read: the reader crashed or needed too much memory") from None
        finally:
            timer.cancel()
            self.seconds_spent += time.monotonic() - begin
        if isinstance(answer, str):
            raise InvalidInput(answer)
        return FileText(answer[0], answer[1])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _serve(max_seconds: float) -> None:
    """Answer each file with a line of JSON: title and text, or a sentence that says why not."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit.
        import_module("resource").setrlimit(import_module("resource").RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    set_alarm = getattr(signal, "alarm", lambda seconds: None)  # Windows has none.
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    with suppress(KeyboardInterrupt):
        while header := sys.stdin.buffer.readline().split():
            data = sys.stdin.buffer.read(int(header[1]))
            set_alarm(int(max_seconds) + 2)  # It ends this process where the one that limits its time is gone.
            print(json.dumps(_read(header[0].decode(), data)), file=answers, flush=True)
            set_alarm(0)


def _read(suffix: str, data: bytes) -> tuple[str, str] | str:
    try:
        if data.startswith(b"PK") and zipfile.is_zipfile(BytesIO(data)):
            unpacked = sum(entry.file_size for entry in zipfile.ZipFile(BytesIO(data)).infolist())
            if unpacked > MAX_UNPACKED_BYTES:
                return f"unpacked it has more than {MAX_UNPACKED_BYTES // 1_000_000} MB"
        text = OFFICE_READERS[suffix](data)
    except ModuleNotFoundError as error:
        return missing_extra_message(str(error.name))
    except MemoryError:
        return "it needs too much memory to be read"
    except Exception as error:  # The libraries fail on damaged files in more ways than they name.
        return f"it is a damaged {suffix} file ({type(error).__name__})"
    if not text.body.strip():
        return NO_TEXT
    title = text.title.strip()
    return "" if title in PLACEHOLDER_TITLES else title, text.body


def _joined(lines: Iterable[str]) -> str:
    """Return the lines that have text, up to the limit of characters."""
    kept, size = list[str](), 0
    for line in lines:
        if line and line.strip():
            kept.append(line.strip())
            size += len(line)
        if size > MAX_CHARACTERS:
            break
    return "\n".join(kept)
