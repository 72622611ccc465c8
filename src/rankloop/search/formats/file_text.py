"""Bytes as text: which encoding, and whether they are a text at all."""

import codecs
import re
from typing import NamedTuple

from rankloop.core.errors import InvalidInput

MAX_CONTROL = 0.01  # share of control characters above which bytes are no text
SAMPLE = 100_000  # bytes or characters by which that is judged
MARKS = (  # the byte order marks, the longest first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")  # and halves of characters
DOCUMENTS = (b"%PDF", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # PDF, and the zip and OLE files of offices


class FileText(NamedTuple):
    """What was in a file."""

    title: str
    body: str
    at: float = 0.0  # when it was written, in seconds since 1970, where it says so


def decoded(data: bytes, named: str = "") -> str:
    """Bytes as text by their mark, as UTF-8, by the encoding that they name, at last as Windows-1252."""
    text = data.decode(encoding_of(data, named), errors="replace")
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def encoding_of(data: bytes, named: str = "") -> str:
    """The encoding in which bytes make sense; a few wrong or missing ones do not change it."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding
    if data.startswith(DOCUMENTS) or b"\0" in data[:SAMPLE]:
        raise InvalidInput("it is not a text")
    text = data.decode("utf-8", errors="replace")
    n_wrong = text.count("\ufffd")
    if not n_wrong or 10 * n_wrong < len(data) - len(text):  # UTF-8 has more bytes than characters
        return "utf-8"
    try:
        data.decode(named, errors="replace")
    except (LookupError, ValueError):
        return "cp1252"
    return named


def clean(text: str) -> str:
    """Without control characters; refused where there are so many that it is no text."""
    start = text[:SAMPLE]
    if len(CONTROL.findall(start)) > MAX_CONTROL * len(start):
        raise InvalidInput("it is not a text")
    return CONTROL.sub(" ", text)


def read_plain(data: bytes) -> FileText:
    """The first line is the title, if it is short."""
    text = decoded(data).strip()
    first, _, _ = text.partition("\n")
    return FileText(first.strip() if len(first) <= 100 else "", text)
