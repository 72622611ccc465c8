"""Office files as the libraries write them; damaged, endless and hostile ones."""

import json
import re
import signal
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search import office_formats
from rankloop.search.office_formats import OFFICE_READERS, OfficeReader
from rankloop.search.sources import FolderSource

TEXT = "The bowline holds a boat."
CONTAINER = "urn:oasis:names:tc:opendocument:xmlns:container"
DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"


def saved(write: Any) -> bytes:
    buffer = BytesIO()
    write(buffer)
    return buffer.getvalue()


def docx() -> bytes:
    document = pytest.importorskip("docx").Document()
    document.core_properties.title = "Knots"
    document.add_paragraph(TEXT)
    return saved(document.save)


def pptx() -> bytes:
    presentation = pytest.importorskip("pptx").Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[0])
    slide.shapes.title.text = TEXT
    return saved(presentation.save)


def xlsx() -> bytes:
    workbook = pytest.importorskip("openpyxl").Workbook()
    workbook.active.append([TEXT, 3])
    return saved(workbook.save)


def odt() -> bytes:
    pytest.importorskip("odf")
    from odf.opendocument import OpenDocumentText
    from odf.text import P

    document = OpenDocumentText()
    document.text.addElement(P(text=TEXT))
    return saved(document.write)


def pdf() -> bytes:
    pytest.importorskip("pypdf")
    stream = f"BT /F1 12 Tf 72 720 Td ({TEXT}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return content + (
        b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(content)
    )


def notebook() -> bytes:
    return json.dumps({"cells": [{"cell_type": "markdown", "source": [TEXT]}]}).encode()


def epub() -> bytes:
    files = {
        "META-INF/container.xml": f"""<container xmlns="{CONTAINER}"><rootfiles><rootfile full-path="OPS/book.opf"/>
            </rootfiles></container>""",
        "OPS/book.opf": f"""<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="{DUBLIN_CORE}">
            <dc:title>Knots</dc:title></metadata><manifest><item id="b" href="second.xhtml"/>
            <item id="a" href="first%20part.xhtml"/></manifest>
            <spine><itemref idref="a"/><itemref idref="b"/></spine></package>""",
        "OPS/first part.xhtml": f"<html><body><p>{TEXT}</p></body></html>",
        "OPS/second.xhtml": "<html><body><p>the end</p></body></html>",
    }
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as book:
        for name, text in files.items():
            book.writestr(name, text)
    return content.getvalue()


FILES = {".docx": docx, ".pptx": pptx, ".xlsx": xlsx, ".odt": odt, ".pdf": pdf, ".ipynb": notebook, ".epub": epub}


@pytest.mark.parametrize("suffix", FILES)
def test_texts_of_files(suffix: str) -> None:
    read = OFFICE_READERS[suffix](FILES[suffix]())
    assert TEXT in read.body
    assert suffix not in (".docx", ".epub") or read.title == "Knots"
    assert suffix != ".epub" or read.body.index(TEXT) < read.body.index("the end")


def without_properties(content: bytes) -> bytes:
    """The file as Google Docs writes it: without the part that has title and author."""
    rest = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as old, zipfile.ZipFile(rest, "w") as new:
        for entry in old.infolist():
            if entry.filename == "_rels/.rels":
                new.writestr(entry, re.sub(rb"<Relationship [^>]*core-properties[^>]*>", b"", old.read(entry)))
            elif entry.filename != "docProps/core.xml":
                new.writestr(entry, old.read(entry))
    return rest.getvalue()


@pytest.mark.parametrize("suffix", [".docx", ".pptx"])
def test_a_file_without_a_title_has_the_name_of_the_file(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"annual_report{suffix}").write_bytes(without_properties(FILES[suffix]()))
    (read,) = FolderSource(tmp_path).documents({})
    assert read.document is not None
    assert (read.document.title, TEXT in read.document.body) == ("annual report", True)


def test_files_of_a_folder_are_read_in_isolation(tmp_path: Path) -> None:
    (tmp_path / "good.docx").write_bytes(docx())
    (tmp_path / "bad.docx").write_bytes(b"PK\x03\x04 nothing")
    source = FolderSource(tmp_path)
    documents = {document.id: document.document for document in source.documents({})}
    assert TEXT in documents["good.docx"].body
    assert documents["good.docx"].fields["type"] == "docx"
    assert "damaged .docx file" in source.skipped["bad.docx"]


def test_limits_of_time_size_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OfficeReader(max_seconds=0.0)
    with pytest.raises(InvalidInput, match="longer than 0 seconds"):
        reader.read(".ipynb", notebook())
    reader.close()
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 2_000_000)
    monkeypatch.setattr(office_formats, "MAX_UNPACKED_BYTES", 1_000_000)
    assert "unpacked it has more than 1 MB" in office_formats._read(".docx", bomb.getvalue())
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert "search-formats" in office_formats._read(".pdf", b"")


def test_a_file_that_cannot_be_read_is_tried_again_when_it_changes(tmp_path: Path) -> None:
    """So that a hostile file, or a scan without text, does not slow down each refresh."""
    file, source = tmp_path / "scan.ipynb", FolderSource(tmp_path)
    tried, read = [], source.office.read
    source.office.read = lambda *arguments: tried.append(arguments) or read(*arguments)  # type: ignore
    file.write_bytes(json.dumps({"cells": []}).encode())
    for _ in range(2):
        assert list(source.documents({})) == []
        assert source.skipped == {"scan.ipynb": "there is no text in it"}
    assert len(tried) == 1
    file.write_bytes(notebook())
    assert [document.id for document in source.documents({})] == ["scan.ipynb"]


def test_a_reading_process_ends_when_its_parent_is_gone() -> None:
    row = "<w:tr>" + "<w:tc><w:p/></w:tc>" * 60 + "</w:tr>"
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    table = f'<w:document xmlns:w="{namespace}"><w:body><w:tbl>{row * 15_000}</w:tbl></w:body></w:document>'
    slow = BytesIO()
    with zipfile.ZipFile(BytesIO(docx())) as old, zipfile.ZipFile(slow, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry, table if entry.filename == "word/document.xml" else old.read(entry))
    code = f"from {office_formats.__name__} import _serve; _serve(0.0)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        content = slow.getvalue()
        answer, _ = process.communicate(f".docx {len(content)}\n".encode() + content, timeout=60)
    assert (process.returncode, answer) == (-signal.SIGALRM, b"")


def test_a_script_without_a_main_guard_reads_files_too(tmp_path: Path) -> None:
    """The reading process does not run the script again, and what a library prints is no answer."""
    (tmp_path / "notes").mkdir()
    for number in range(2):
        (tmp_path / "notes" / f"{number}.ipynb").write_bytes(notebook())
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from rankloop.search.sources import FolderSource\n"
        "source = FolderSource(Path('notes'))\n"
        "print([document.id for document in source.documents({})], dict(source.skipped))\n"
    )
    run = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("['0.ipynb', '1.ipynb'] {}\n", "")
