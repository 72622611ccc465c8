"""E-mail: single messages and mailboxes of many."""

import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import BinaryIO

from rankloop.core.errors import InvalidInput
from rankloop.search.formats.file_text import FileText, clean
from rankloop.search.formats.html_text import html_text

MAX_MESSAGE = 20 * 1024**2  # bytes of a message that are read
MAX_LINE = 64 * 1024
MAX_HEADERS = 64 * 1024
MAILBOX = re.compile(rb"From [^\n]{1,200}\r?\n[!-9;-~]{1,80}:")
MESSAGE_ID = re.compile(rb"^Message-ID:\s{0,9}<([!-;=?-~]{1,120})>", re.I | re.M)


def read_email(data: bytes) -> FileText:
    """The subject and the text; of a message in HTML only, the text of that. Attachments are left out."""
    try:
        return _message(data)
    except InvalidInput:
        raise
    except Exception as error:  # the library fails on damaged messages in more ways than it names
        raise InvalidInput(f"it is a damaged e-mail ({type(error).__name__})") from None


def is_mailbox(start: bytes) -> bool:
    """Whether a file that begins so is an mbox: a line "From …" before the headers of its first message."""
    return MAILBOX.match(start) is not None


def messages_of(mailbox: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """The messages of an mbox, each under its Message-ID, which stays when others are deleted; else under its number.

    Of a message that is larger than 20 MB the rest is left out.
    """
    number, given = 0, set[str]()
    for number, data in enumerate(_parts(mailbox), 1):
        named = MESSAGE_ID.search(data[:MAX_HEADERS])
        name = named[1].decode() if named else str(number)
        name = name if name not in given else str(number)
        given.add(name)
        yield name, data


def _parts(mailbox: BinaryIO) -> Iterator[bytes]:
    """Messages begin at a line "From …" after an empty one; only the one at hand is in memory."""
    lines, size, is_start = list[bytes](), 0, True
    while line := mailbox.readline(MAX_LINE):
        if is_start and line.startswith(b"From "):
            if lines:
                yield b"".join(lines)
            lines, size = [], 0
        elif size + len(line) <= MAX_MESSAGE:
            lines.append(line.removeprefix(b">") if line.startswith(b">From ") else line)
            size += len(line)
        is_start = not line.strip()
    if lines:
        yield b"".join(lines)


def _message(data: bytes) -> FileText:
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(data)
    if not message.keys():
        raise InvalidInput("it is not an e-mail")
    part = message.get_body(("plain", "html"))
    content = str(part.get_content()) if part is not None else ""
    is_html = part is not None and part.get_content_subtype() == "html"
    body = html_text(clean(content)).body if is_html else clean(content)
    subject, sender = (" ".join(clean(str(message.get(name, ""))).split()) for name in ("subject", "from"))
    return FileText(subject, f"{sender}\n{body}".strip(), _moment(str(message.get("date", ""))))


def _moment(date: str) -> float:
    try:
        return max(parsedate_to_datetime(date).timestamp(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
