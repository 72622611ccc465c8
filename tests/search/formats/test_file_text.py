"""Bytes as text, in the encodings that people have."""

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.formats.file_text import clean, decoded, encoding_of, read_plain

GERMAN = "Grüße aus Köln, für alle"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
def test_texts_come_out_as_they_went_in(encoding: str) -> None:
    assert decoded(GERMAN.encode(encoding)) == GERMAN


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_mark_says_the_order_of_bytes(order: str) -> None:
    assert decoded(f"\ufeff{GERMAN}".encode(order)) == GERMAN


def test_an_encoding_that_is_named_counts_where_it_is_no_utf8() -> None:
    assert decoded("зима".encode("koi8-r"), "koi8-r") == "зима"
    assert decoded("зима".encode(), "koi8-r") == "зима"
    assert decoded(GERMAN.encode("latin-1"), "no-such-thing") == GERMAN


def test_one_wrong_byte_does_not_spoil_the_rest() -> None:
    assert decoded((GERMAN * 10).encode() + b"\xff").startswith(GERMAN)
    assert decoded(("зима " * 10).encode()[:-2]).startswith("зима")


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
        decoded(data)


def test_halves_of_characters_are_left_out() -> None:
    assert decoded(b"+2AA- a \xff text " + b"x" * 200, "utf-7").encode()
    assert clean("\ud800" + "x" * 200) == " " + "x" * 200


def test_control_characters_and_line_ends() -> None:
    assert decoded(b"a\r\nb\rc\x1b" + b"." * 200 + b"\x02").startswith("a\nb\nc")
    assert "\x02" not in decoded(b"." * 200 + b"\x02")


def test_a_short_first_line_is_the_title() -> None:
    assert read_plain(b"\nTitle\nBody")[:2] == ("Title", "Title\nBody")
    assert read_plain(b"x" * 101).title == ""


def test_encodings_for_those_who_read_in_pieces() -> None:
    assert encoding_of(b"abc") == "utf-8"
    assert encoding_of("é".encode("latin-1")) == "cp1252"
