"""A folder of all kinds of files: what is read, what is skipped and why, and that nothing leads out of it."""

from pathlib import Path

import pytest

from rankloop.core.errors import NotFound
from rankloop.search.engine import Document
from rankloop.search.folder_source import FolderSource

HTML = "<html><head><title>A &lt;b&gt; page</title><script>steal()</script></head>"
HTML += "<body><h1>Top</h1><p>Seen<script>x()</script></body>"
EMAIL = b"From: a@b.c\nSubject: Hello\nDate: Thu, 01 Jan 1970 01:00:00 +0000\n"
EMAIL += b"Content-Type: text/html\n\n<p>A <b>letter</b></p>"


def read(folder: Path) -> tuple[dict[str, Document], dict[str, str]]:
    source = FolderSource(folder)
    return {id: document for id, _, document in source.documents({}) if document}, source.skipped


def test_formats_become_titles_and_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A *title*\n\nSee [the page](http://x.y) and `code`.\n<script>bad()</script>")
    (tmp_path / "b.html").write_text(HTML)
    (tmp_path / "c.rst").write_text("A heading\n=========\n\nSee :ref:`there <x>` and ``code``.\n\n.. note:: gone\n")
    (tmp_path / "d.eml").write_bytes(EMAIL)
    (tmp_path / "e.txt").write_bytes("Grüße\naus Köln".encode("latin-1"))
    (tmp_path / "f.txt").write_bytes("\ufeffзима".encode("utf-16"))
    documents, skipped = read(tmp_path)
    assert skipped == {}
    assert documents["a.md"][1:3] == ("A title", "A title\nSee the page and code.")
    assert documents["b.html"][1:3] == ("A <b> page", "Top\nSeen")
    assert documents["c.rst"].title == "A heading"
    assert "See there and code." in documents["c.rst"].body
    assert documents["d.eml"][1:4] == ("Hello", "a@b.c\nA letter", 3600.0)
    assert documents["e.txt"].body == "Grüße\naus Köln"
    assert "зима" in documents["f.txt"].body


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "picture.png").write_bytes(b"\x89PNG\0\0\0")
    (inside / "empty.txt").write_text(" ")
    (inside / "good.txt").write_text("good")
    (inside / ".hidden.txt").write_text("hidden")
    documents, skipped = read(inside)
    assert list(documents) == ["good.txt"]
    assert skipped == {
        "empty.txt": "there is no text in it",
        "out.txt": "it is a link, which is not followed",
        "picture.png": "it is not a text",
    }


def test_a_known_stamp_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    ((id, stamp, _),) = FolderSource(tmp_path).documents({})
    assert list(FolderSource(tmp_path).documents({id: stamp})) == [(id, stamp, None)]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        FolderSource(tmp_path / "nowhere")
