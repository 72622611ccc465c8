"""HTML as the text that a reader would see; nothing that could run comes out as anything but text."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.search.formats.html_text import html_text, read_html, without_tags


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
