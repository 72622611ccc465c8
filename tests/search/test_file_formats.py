"""Files become texts with titles; whatever is in them, it takes linear time and is never run."""

import io
import time
from contextlib import suppress
from datetime import UTC, datetime
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.search.file_formats import (
    MAILBOX_START,
    FileText,
    _decoded,
    allowed_encoding,
    clean,
    encoding_of,
    html_text,
    messages_of,
    read_email,
    read_html,
    read_markdown,
    read_plain,
    read_restructured,
    read_svg,
    without_tags,
)

GERMAN = "Grüße aus Köln, für alle"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
def test_texts_come_out_as_they_went_in(encoding: str) -> None:
    assert _decoded(GERMAN.encode(encoding)) == GERMAN


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_mark_says_the_order_of_bytes(order: str) -> None:
    assert _decoded(f"\ufeff{GERMAN}".encode(order)) == GERMAN


def test_an_encoding_that_is_named_counts_where_it_is_no_utf8() -> None:
    assert _decoded("зима".encode("koi8-r"), "koi8-r") == "зима"
    assert _decoded("зима".encode(), "koi8-r") == "зима"
    assert _decoded(GERMAN.encode("latin-1"), "no-such-thing") == GERMAN


def test_one_wrong_byte_does_not_spoil_the_rest() -> None:
    assert _decoded((GERMAN * 10).encode() + b"\xff").startswith(GERMAN)
    assert _decoded(("зима " * 10).encode()[:-2]).startswith("зима")


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0",
        "no mark".encode("utf-16-le"),
        b"%PDF-1.7\nsome",
        b"PK\x03\x04rest",
        bytes(range(1, 32)),
    ],
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="it is not a text"):
        _decoded(data)


def test_halves_of_characters_are_left_out() -> None:
    assert _decoded(b"+2AA- a \xff text " + b"x" * 200, "utf-7").encode()
    assert clean("\ud800" + "x" * 200) == " " + "x" * 200


def test_control_characters_and_line_ends() -> None:
    assert _decoded(b"a\r\nb\rc\x1b" + b"." * 200 + b"\x02").startswith("a\nb\nc")
    assert "\x02" not in _decoded(b"." * 200 + b"\x02")


def test_a_short_first_line_is_the_title() -> None:
    assert read_plain(b"\nTitle\nBody")[:2] == ("Title", "Title\nBody")
    assert read_plain(b"x" * 101).title == ""


def test_encodings_for_those_who_read_in_pieces() -> None:
    assert encoding_of(b"abc") == "utf-8"
    assert encoding_of("é".encode("latin-1")) == "cp1252"


@pytest.mark.parametrize(
    ("html", "title", "body"),
    [
        ("<title>A &amp; B</title><p>One<br>two <b>th</b>ree", "A & B", "One\ntwo three"),
        ("<html><head><title>T</title><style>p{}</style></head><body>x", "T", "x"),
        ("<head><title>T</title><p>no body tag", "T", "no body tag"),
        ("<h1>Top</h1>text", "Top", "Top\ntext"),
        ("<SCRIPT>if (a < b) x('</p>')</SCRIPT>seen", "", "seen"),
        ("<script src=x />seen?</script>seen", "", "seen"),
        ("<p>a<!-- no <b>this</b> --!>-->b", "", "ab"),
        ("<a title='x > y' href=\"<z\">link</a>", "", "link"),
        ("a < b and c > d", "", "a < b and c > d"),
        ("<template>t</template><noscript>n</noscript><svg><text>s</text></svg>seen", "", "seen"),
        ("<!DOCTYPE html><?xml version='1'?>x", "", "x"),
        ("<textarea><b>raw</b></textarea>", "", "<b>raw</b>"),
        ("<script>never closed", "", ""),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "", "<script>alert(1)</script>"),
    ],
)
def test_what_is_seen(html: str, title: str, body: str) -> None:
    found = html_text(html)
    assert (found.title, found.body) == (title, body)


def test_scripts_in_titles_leave_no_script_behind() -> None:
    assert html_text("<title>Me<script>steal()</script></title>x").title == "Me"
    assert html_text("<title>&lt;img src=x onerror=steal()&gt;</title>").title == "<img src=x onerror=steal()>"
    assert html_text("<svg><title>of a picture</title></svg><title>of the page</title>").title == "of the page"


@pytest.mark.parametrize("number", ["9" * 5_000, "x" + "f" * 5_000])
def test_a_number_that_no_character_has_does_not_end_the_reading(number: str) -> None:
    assert read_html(f"<p>a &#{number}; b &#0000065;".encode()) == FileText("", "a \ufffd b A")


def test_the_encoding_that_a_page_names() -> None:
    assert read_html('<meta charset="koi8-r"><p>зима'.encode("koi8-r")).body == "зима"
    assert read_html(b"<meta charset=latin-1>caf\xe9").body == "café"


def test_html_within_other_formats() -> None:
    assert without_tags("a <b>c</b>") == "a c"
    assert without_tags(" 1 < 2 ") == "1 < 2"


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a ", "<", "<a b='", '<a b="', "<div a=\"'", "</", "<!", "<?", "<![CDATA[", "<script>", "&#", "\"'"],
)
def test_time_is_linear_whatever_comes(piece: str) -> None:
    """The parser of Python's library takes 20 to 270 s for some of these at a tenth of the size."""
    start = process_time()
    html_text(piece * (1_000_000 // len(piece)))
    assert process_time() - start < 5


@given(st.text(st.sampled_from("<>/!-ab '\"=&;script"), max_size=100))
def test_any_text_can_be_read(text: str) -> None:
    html_text(text)


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
def test_time_is_linear_in_light_markup(read, piece: str) -> None:  # type: ignore[no-untyped-def]
    start = process_time()
    read((piece * (300_000 // len(piece))).encode())
    assert process_time() - start < 5


HEADERS = b"From: Ann <ann@example.org>\r\nDate: Thu, 01 Jan 1970 01:00:00 +0000\r\n"
PARTS = b"""Content-Type: multipart/mixed; boundary=x

--x
Content-Type: multipart/alternative; boundary=y

--y
Content-Type: text/html

<p>hyper</p>
--y
Content-Type: text/plain

plain
--y--
--x
Content-Type: application/octet-stream
Content-Disposition: attachment; filename=a.txt

attached
--x--
"""
MAILBOX = b"""From ann Thu Jan  1 01:00:00 1970
Message-ID: <one@x>
Subject: One

First
>From here on
From the middle of a text

From bob Thu Jan  1 02:00:00 1970
Subject: Two

Second

From eve Thu Jan  1 02:00:00 1970
Message-ID: <one@x>
Subject: Three

Third
"""


def test_subject_sender_text_and_date() -> None:
    read = read_email(HEADERS + b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHello")
    assert read[:3] == ("Grüße", "Ann <ann@example.org>\nHello", 3600.0)


def test_the_plain_part_is_read_and_attachments_are_not() -> None:
    assert read_email(HEADERS + PARTS).body == "Ann <ann@example.org>\nplain"


def test_a_letter_in_html_only_becomes_text() -> None:
    read = read_email(HEADERS + b"Content-Type: text/html\r\n\r\n<p>Hi<script>steal()</script> <b>you</b></p>")
    assert read.body == "Ann <ann@example.org>\nHi you"


@pytest.mark.parametrize("date", [b"", b"yesterday", b"Thu, 99 Jan 1970 01:00:00 +0000"])
def test_a_date_that_cannot_be_read_is_none(date: bytes) -> None:
    assert read_email(b"Subject: x\nDate: " + date + b"\n\ny").at == 0.0


def test_bytes_that_no_header_may_have_leave_a_text_that_can_be_written() -> None:
    read = read_email(b"Subject: caf\xe9 and more of a subject\nFrom: \xff@x\n\nlong enough " + b"word " * 50 + b"\xff")
    assert read.title.startswith("caf")
    assert "".join((read.title, read.body)).encode()


def test_damaged_messages_are_refused() -> None:
    with pytest.raises(InvalidInput, match="it is not an e-mail"):
        read_email(b"just a text\n\nand more")
    unknown = read_email(b"Subject: x\nContent-Type: text/plain; charset=no-such-thing\n\nna\xefve words")
    assert unknown.body == "naïve words"


def test_a_mailbox_is_many_messages() -> None:
    assert MAILBOX_START.match(MAILBOX)
    assert not MAILBOX_START.match(b"From here on it is a text.\nReally so.")
    messages = dict(messages_of(io.BytesIO(MAILBOX)))
    assert list(messages) == ["one@x", "2", "3"]
    first = read_email(messages["one@x"])
    assert (first.title, first.body) == ("One", "First\nFrom here on\nFrom the middle of a text")


def test_the_rest_of_a_large_message_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.file_formats.MAX_MESSAGE", 100)
    large = b"From a\nSubject: x\n\n" + b"line\n" * 1_000 + b"\nFrom b\nSubject: y\n\nend"
    assert [len(data) for _, data in messages_of(io.BytesIO(large))] == [98, 15]


MIXED = b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n"
HOSTILE = {
    "nested svg": (read_html, lambda n: b"<svg>" * n),
    "svg and other ends": (read_html, lambda n: b"<svg>" * n + b"</p></svgg></math>" * n),
    "nested templates": (read_html, lambda n: b"<template><svg>" * n + b"</svg></template>" * n),
    "tags without ends": (read_html, lambda n: b"<a " * n),
    "open quotes": (read_html, lambda n: b"<a b=\"'" * n),
    "open comments": (read_html, lambda n: b"<!--" * n),
    "raw texts": (read_html, lambda n: b"<textarea>" * n),
    "charset": (read_html, lambda n: b'<meta charset="punycode">' + b"\xe4" * 3 * n),
    "pictures": (read_svg, lambda n: b"<svg><text>a" * n),
    "stars": (read_markdown, lambda n: b"**a* _b" * n),
    "links": (read_markdown, lambda n: b"[a](" * n),
    "front matter": (read_markdown, lambda n: b"---\n" + b"a: [\n" * n),
    "ticks": (read_restructured, lambda n: b"`a :b:`" * n),
    "mail parts": (
        read_email,
        lambda n: MIXED + b"--b\n\na\n" * n,
    ),
    "mail levels": (
        read_email,
        lambda n: b"Subject: a\n" + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" * n,
    ),
    "mail type": (read_email, lambda n: b"Subject: a\nContent-Type: text/html; charset=" + b"[\t" * n),
    "mail types": (read_email, lambda n: MIXED + b"--b\nContent-Type: x=a tags: tags: \n\na\n" * n),
    "mail sender": (read_email, lambda n: b"From: " + b"a," * n + b"\n\nb"),
    "mail disposition": (read_email, lambda n: b"Content-Disposition: " + b"a ;" * n + b"\n\nb"),
    "mail charset": (
        read_email,
        lambda n: b"Subject: a\nContent-Type: text/plain; charset=punycode\n\n" + b"\xe4" * 3 * n,
    ),
}


def seconds(read: Any, data: bytes) -> float:
    def once() -> float:
        start = time.process_time()
        with suppress(InvalidInput):
            read(data)
        return time.process_time() - start

    return min(once() for _ in range(2))


@pytest.mark.parametrize("shape", HOSTILE)
def test_twice_the_bytes_take_about_twice_the_time(shape: str) -> None:
    read, made = HOSTILE[shape]
    small, large = seconds(read, made(8_000)), seconds(read, made(32_000))
    assert large < 0.5
    assert large < 8 * small + 0.05  # quadratic would be 16


def test_only_text_encodings_are_taken() -> None:
    assert [allowed_encoding(name) for name in ("latin-1", "Shift-JIS", "WINDOWS-1251")] == [
        "iso8859-1",
        "shift_jis",
        "cp1251",
    ]
    others = "punycode", "idna", "rot13", "zlib", "base64", "nonsense", "a\0"
    assert {allowed_encoding(name) for name in others} == {""}


def test_a_picture_is_its_labels() -> None:
    picture = (
        b'<svg viewBox="0 0 440 314"><title>Position bias</title><desc>Clicks</desc><text>rank &amp; 1</text></svg>'
    )
    assert read_svg(picture) == FileText("Position bias", "Position bias\nClicks\nrank & 1")


def test_front_matter_gives_date_tags_and_values() -> None:
    note = b"---\ntitle: 'Budget'\ndate: 2024-01-31\ntags: [work, Money]\nauthor: Ann\n---\nText"
    read = read_markdown(note)
    assert (read.title, read.body, read.fields) == ("Budget", "Text", {"tag": "work\x1fMoney", "author": "Ann"})
    assert read.at == datetime(2024, 1, 31, tzinfo=UTC).timestamp()
    assert read_markdown(b"---\ntags:\n  - a\n  - b\n---\nText").fields == {"tag": "a\x1fb"}
