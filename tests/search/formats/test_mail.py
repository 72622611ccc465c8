"""E-mail: one message, and mailboxes of many."""

import io

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.formats.mail import is_mailbox, messages_of, read_email

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
    assert read == ("Grüße", "Ann <ann@example.org>\nHello", 3600.0)


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
    with pytest.raises(InvalidInput, match="damaged"):
        read_email(b"Subject: x\nContent-Type: text/plain; charset=no-such-thing-\xff\n\n\xff")


def test_a_mailbox_is_many_messages() -> None:
    assert is_mailbox(MAILBOX)
    assert not is_mailbox(b"From here on it is a text.\nReally so.")
    messages = dict(messages_of(io.BytesIO(MAILBOX)))
    assert list(messages) == ["one@x", "2", "3"]
    first = read_email(messages["one@x"])
    assert (first.title, first.body) == ("One", "First\nFrom here on\nFrom the middle of a text")


def test_the_rest_of_a_large_message_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.search.formats.mail.MAX_MESSAGE", 100)
    large = b"From a\nSubject: x\n\n" + b"line\n" * 1_000 + b"\nFrom b\nSubject: y\n\nend"
    assert [len(data) for _, data in messages_of(io.BytesIO(large))] == [98, 15]
