"""Markdown and reStructuredText without their marks."""

from time import process_time

import pytest

from rankloop.search.formats.light_markup import read_markdown, read_restructured


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("# A *title*\n\nSee [the page](http://x.y).", "A title", "A title\n\nSee the page."),
        ("Title\n=====\nText", "Title", "Title\n\nText"),
        ("---\ntitle: 'Named'\n---\n# Other\nx", "Named", "Other\nx"),
        ("## Second\n- one\n2. two\n> three", "Second", "Second\none\ntwo\nthree"),
        ("**bold** `code` ~~gone~~ snake_case_name", "", "bold code gone snake_case_name"),
        ("```python\nprint(1)\n```", "", "print(1)"),
        ("x <script>bad()</script> y", "", "x y"),
    ],
)
def test_markdown(text: str, title: str, body: str) -> None:
    assert read_markdown(text.encode())[:2] == (title, body)


def test_markdown_links_and_pictures_leave_their_words() -> None:
    assert read_markdown(b"![pic](a.png) [text][ref] [plain]").body == "pic text [plain]"


def test_restructured_text() -> None:
    text = "=====\n Top\n=====\n\n"
    text += "See :ref:`there <x>`, ``code``, `link <http://x>`_ and *more*.\n\n.. note:: gone\n   kept\n"
    found = read_restructured(text.encode())
    assert found.title == "Top"
    assert "See there, code, link and more." in found.body
    assert "kept" in found.body
    assert "note" not in found.body


@pytest.mark.parametrize(
    "piece", ["[", "*", "**a", "`", "\n", " \n", "# ", "> ", "|", "=\n", ":a", "`<", "](", "_", "- "]
)
@pytest.mark.parametrize("read", [read_markdown, read_restructured])
def test_time_is_linear_whatever_comes(read, piece: str) -> None:  # type: ignore[no-untyped-def]
    start = process_time()
    read((piece * (300_000 // len(piece))).encode())
    assert process_time() - start < 5
