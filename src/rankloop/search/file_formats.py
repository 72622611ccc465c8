"""Files as plain text with a title: text, Markdown, HTML, reStructuredText, e-mail. Nothing of a file is ever run."""

import codecs
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from html import unescape
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.search.engine import NO_FIELDS, seconds_of

MAX_CONTROL = 0.01  # share of control characters above which bytes are no text
SAMPLE_SIZE = 100_000  # bytes or characters by which that is judged
BYTE_ORDER_MARKS = (  # the byte order marks, the longest first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
TEXT_ENCODINGS = re.compile(  # names of Python's codecs
    r"ascii|utf-(8|16|32)(-.*)?|iso8859-\d+|cp(437|850|852|866|874|932|949|950|125\d)|koi8-[rtu]|mac-\w+"
    r"|shift_jis\w*|euc_(jp|kr)\w*|iso2022_(jp|kr)\w*|gb2312|gbk|gb18030|hz|big5\w*|tis-620"
)
CONTROL_CHARACTER = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")  # and halves of characters
NO_TEXT = "there is no text in it"
BINARY_DOCUMENT_PREFIXES = (b"%PDF", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # PDF, and the zip and OLE files of offices


class FileText(NamedTuple):
    """Title and text of a file, with its date in seconds since 1970 and further values where it names them."""

    title: str
    body: str
    at: float = 0.0
    fields: Mapping[str, str] = NO_FIELDS


def _decoded(data: bytes, named: str = "") -> str:
    """Return bytes as text by their mark, as UTF-8, by the encoding that they name, else as Windows-1252."""
    return clean(data.decode(encoding_of(data, named), errors="replace").replace("\r\n", "\n").replace("\r", "\n"))


def encoding_of(data: bytes, named: str = "") -> str:
    """Return the encoding in which bytes make sense; a few wrong or missing ones do not change it.

    Args:
      data: The bytes.
      named: The encoding that they name; one that is not on the list of text encodings is ignored.
    """
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding
    if data.startswith(BINARY_DOCUMENT_PREFIXES) or b"\0" in data[:SAMPLE_SIZE]:
        raise InvalidInput("it is not a text")
    text = data.decode("utf-8", errors="replace")
    n_wrong = text.count("\ufffd")
    if not n_wrong or 10 * n_wrong < len(data) - len(text):  # UTF-8 has more bytes than characters
        return "utf-8"
    return allowed_encoding(named) or "cp1252"


def allowed_encoding(name: str) -> str:
    """Return the codec of a text encoding by its name; empty for others, some of which are slow or no encodings."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    return codec if TEXT_ENCODINGS.fullmatch(codec) else ""


def clean(text: str) -> str:
    """Return a text without control characters; raise where there are so many that it is no text."""
    start = text[:SAMPLE_SIZE]
    if len(CONTROL_CHARACTER.findall(start)) > MAX_CONTROL * len(start):
        raise InvalidInput("it is not a text")
    return CONTROL_CHARACTER.sub(" ", text)


def read_plain(data: bytes) -> FileText:
    """Read a plain text; the first line is the title, if it is short."""
    text = _decoded(data).strip()
    first, _, _ = text.partition("\n")
    return FileText(first.strip() if len(first) <= 100 else "", text)


HTML_TAGS = tomllib.loads(Path(__file__).with_name("html_tags.toml").read_text(encoding="utf-8"))
SVG_TEXT, HIDDEN_TAGS, OF_HEAD, INLINE_TAGS = map(set, HTML_TAGS.values())
WITHIN_LINES = INLINE_TAGS | HIDDEN_TAGS - {"head"}
META_CHARSET = re.compile(rb"""<meta[^<>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.I)
# What follows the name of a tag goes on to its end, over values in quotes, but otherwise never over the next "<".
TAG_END = r"""(?>[^<>"']+|"[^"]{0,1000}"|'[^']{0,1000}'|["'])*+>"""
LONG_NUMBER = re.compile(r"&#(?:\d{20,}|[xX][0-9a-fA-F]{20,});?")  # of no character; Python refuses 4,300 digits
HTML_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?].*?(?:>|\Z)"  # comments and declarations
    rf"|<(?P<raw>script|style|textarea|xmp)(?![^\s<>/\"']){TAG_END}(?P<content>.*?)(?=</(?P=raw)|\Z)"  # no tags inside
    rf"|<(?P<end>/?)(?P<tag>[a-z][^\s<>/\"']{{0,40}}){TAG_END}",
    re.S | re.I,
)


def _unescaped(text: str) -> str:
    """Return a text with characters for entities."""
    return unescape(LONG_NUMBER.sub("\ufffd", text))


class _HtmlReader:
    """Collects the visible text, with a new line for each block."""

    def __init__(self, text: str) -> None:
        self.title, self.heading, self.pieces = list[str](), list[str](), list[str]()
        self._hidden = list[str]()
        self._n_hidden = Counter[str]()  # how often each tag is in that list
        self._within, at = "", 0
        for match in HTML_TOKEN.finditer(text):
            self._add(text[at : match.start()])
            at = match.end()
            tag = (match["raw"] or match["tag"] or "").lower()
            if match["end"]:
                self._close(tag)
            elif tag:
                self._open(tag, is_empty=match["raw"] is None and match[0].endswith("/>"))
            if tag and tag not in WITHIN_LINES:
                self.pieces.append("\n")
            self._add(match["content"] or "")
        self._add(text[at:])

    def _open(self, tag: str, is_empty: bool) -> None:
        if self._hidden[:1] == ["head"] and tag not in OF_HEAD:
            self._hidden.clear()  # any other tag begins the body
            self._n_hidden.clear()
        if tag in HIDDEN_TAGS and not is_empty:
            self._hidden.append(tag)
            self._n_hidden[tag] += 1
        if (tag == "title" and not self.title and self._hidden in ([], ["head"])) or (tag == "h1" and not self.heading):
            self._within = tag

    def _close(self, tag: str) -> None:
        last = "" if self._n_hidden[tag] else tag
        while last != tag:  # every tag is taken off once, so all of it is linear
            last = self._hidden.pop()
            self._n_hidden[last] -= 1
        if tag == self._within:
            self._within = ""

    def _add(self, text: str) -> None:
        if self._within == "title" and self._hidden in ([], ["head"]):
            self.title.append(text)
        elif not self._hidden:
            self.pieces.append(text)
            if self._within == "h1":
                self.heading.append(text)


def read_html(data: bytes) -> FileText:
    """Read HTML; scripts, styles, comments and attributes are left out, entities are characters."""
    charset = META_CHARSET.search(data[:2_000])
    return html_text(_decoded(data, charset[1].decode() if charset else ""))


def read_svg(data: bytes) -> FileText:
    """Read a picture: its title, descriptions and labels, never its markup."""
    title, pieces, within, end = "", list[str](), "", 0
    text = _decoded(data)
    for match in HTML_TOKEN.finditer(text):
        piece = " ".join(_unescaped(text[end : match.start()]).split())
        if piece and within in SVG_TEXT:
            title = title or (piece if within == "title" else "")
            pieces.append(piece)
        end = match.end()
        tag = (match["raw"] or match["tag"] or "").lower()
        within = "" if match["end"] or match[0].endswith("/>") else tag or within
    return FileText(title[:100], "\n".join(pieces))


def html_text(text: str) -> FileText:
    """Return title and visible text of HTML."""
    reader = _HtmlReader(text)
    title = " ".join(_unescaped("".join(reader.title or reader.heading)).split())
    lines = (" ".join(line.split()) for line in _unescaped("".join(reader.pieces)).splitlines())
    return FileText(title, "\n".join(line for line in lines if line))


def without_tags(text: str) -> str:
    """Return HTML inside another format as text."""
    return html_text(text).body if re.search(r"<[a-zA-Z!/]", text) else text.strip()


UNDERLINE_PATTERN = r"([=\-~^\"'#*+.:_`])\1{2,199}"
FRONT_MATTER = re.compile(r"\A---\n(.{0,10000}?)\n---\n", re.S)
FRONT_MATTER_LINE = re.compile(r"([A-Za-z]\w{0,39}):[ \t]*([^\n]{0,1000})")
LIST_ITEM = re.compile(r"[ \t]*-[ \t]+([^\n]{1,200})")
MAX_FIELD_CHARACTERS = 1_000
MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+([^\n]{1,300}?)[ \t#]*$", re.M)
UNDERLINED_HEADING = re.compile(r"^([^\s\n][^\n]{0,300})\n(?:={1,200}|-{2,200})[ \t]*$", re.M)
RESTRUCTURED_HEADING = re.compile(
    rf"^[ \t]?([^\s\n][^\n]{{0,300}})\n{UNDERLINE_PATTERN.replace('1', '2')}[ \t]*$", re.M
)
MARKED_TEXT = r"(?=\S)([^\n]{1,300}?)(?<=\S)\1"  # between two equal marks


def read_markdown(data: bytes) -> FileText:
    """Read Markdown without its marks; front matter gives title, date, tags and further values."""
    text = _decoded(data)
    matter, title, at, fields = FRONT_MATTER.match(text), "", 0.0, dict[str, str]()
    if matter:
        text = text[matter.end() :]
        fields = front_matter(matter[1])
        title, at = fields.pop("title", ""), max(seconds_of(fields.pop("date", "")), 0.0)
    heading = MARKDOWN_HEADING.search(text) or UNDERLINED_HEADING.search(text)
    if heading and not title:
        title = heading[1].strip()
    text = re.sub(r"!?\[([^][\n]{0,300})\](?:\([^()\n]{0,2000}\)|\[[^][\n]{0,300}\])", r"\1", text)  # links, pictures
    text = re.sub(r"^[ \t]{0,3}(?:#{1,6}|>|[-*+]|\d{1,9}[.)])[ \t]+", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}(?:`{3,9}|~{3,9})[^\n]*$|^[=\-*_ ]{3,200}$|^[|:\- ]{1,500}$", "", text, flags=re.M)
    text = re.sub(rf"(\*\*|__|\*|`{{1,9}}|~~){MARKED_TEXT}", r"\2", text)
    return FileText(_unmarked(title), without_tags(text), at, fields)


def front_matter(text: str) -> dict[str, str]:
    r"""Return the plain values of front matter by name; several values of `tags` are separated by \x1f."""
    values, name = dict[str, str](), ""
    for line in text.splitlines():
        if entry := FRONT_MATTER_LINE.fullmatch(line):
            name, value = entry[1].lower(), entry[2].strip()
            name = "tag" if name in ("tags", "keywords") else name
            items = [item.strip(" \t\"'#") for item in value.strip("[]").split(",")] if name == "tag" else [value]
            values[name] = "\x1f".join(item.strip("\"'") for item in items if item)[:MAX_FIELD_CHARACTERS]
        elif name and (item := LIST_ITEM.fullmatch(line)):
            joined = "\x1f".join(filter(None, [values.get(name, ""), item[1].strip(" \t\"'")]))
            values[name] = joined[:MAX_FIELD_CHARACTERS]
    return {name: value for name, value in values.items() if value}


def read_restructured(data: bytes) -> FileText:
    """Read reStructuredText without its marks."""
    text = _decoded(data)
    heading = RESTRUCTURED_HEADING.search(text)
    text = re.sub(rf"^{UNDERLINE_PATTERN}[ \t]*$", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}\.\. [\w:|-]{1,80}::[^\n]*$|^\.\. _[^\n]*$", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}:[\w -]{1,80}:(?: [^\n]*)?$", "", text, flags=re.M)
    text = re.sub(r"``([^\n]{1,300}?)``", r"\1", text)
    text = re.sub(r":[\w:+-]{1,80}:`([^`<\n]{0,300}?)[ \t]{0,9}(?:<[^<>\n]{0,300}>)?`", r"\1", text)
    text = re.sub(r"`([^`<\n]{1,300}?)[ \t]{0,9}(?:<[^<>\n]{0,300}>)?`_{0,2}", r"\1", text)
    text = re.sub(rf"(\*\*|\*){MARKED_TEXT}", r"\2", text)
    return FileText(_unmarked(heading[1].strip()) if heading else "", text.strip())


def _unmarked(title: str) -> str:
    return without_tags(re.sub(r"[*`_]{1,2}(?=\S)(.{1,300}?)(?<=\S)[*`_]{1,2}", r"\1", title))


MAX_MESSAGE = 20 * 1024**2  # bytes of a message that are read
MAX_MAIL_PARTS, MAX_MAIL_LEVELS = 1_000, 20
MAX_HEADER_CHARACTERS = 500
MAIL_PART = re.compile(rb"^--[^\n]{1,100}$|^content-type:\s{0,9}multipart/", re.I | re.M)
MAX_LINE = 64 * 1024
MAX_HEADERS = 64 * 1024
MAILBOX_START = re.compile(rb"From [^\n]{1,200}\r?\n[!-9;-~]{1,80}:")
MESSAGE_ID = re.compile(rb"^Message-ID:\s{0,9}<([!-;=?-~]{1,120})>", re.I | re.M)


class _ShortHeaders(policy.EmailPolicy):
    """Headers up to a length, since the library parses them in quadratic time; the types of parts stay unparsed."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        value = value[:MAX_HEADER_CHARACTERS]
        return value if name.lower() == "content-type" else super().header_fetch_parse(name, value)


def read_email(data: bytes) -> FileText:
    """Read an e-mail: subject and text, or that of its HTML. Attachments are left out."""
    try:
        message: Any = BytesParser(_class=EmailMessage, policy=_ShortHeaders()).parsebytes(_few_parts(data))
        if not message.keys():
            raise InvalidInput("it is not an e-mail")
        part = message.get_body(("plain", "html"))
        content = ""
        if part is not None:
            payload = part.get_payload(decode=True) or b""
            content = payload.decode(allowed_encoding(part.get_content_charset("utf-8")) or "cp1252", errors="replace")
            content = clean(content)
            content = html_text(content).body if part.get_content_subtype() == "html" else content
        subject, sender = (" ".join(clean(str(message.get(name, ""))).split()) for name in ("subject", "from"))
        return FileText(subject, f"{sender}\n{content}".strip(), _sent_at(str(message.get("date", ""))))
    except InvalidInput:
        raise
    except Exception as error:  # the library fails on damaged messages in more ways than it names
        raise InvalidInput(f"it is a damaged e-mail ({type(error).__name__})") from None


def messages_of(mailbox: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield the messages of an mbox, each under its Message-ID, which stays when others are deleted; else its number.

    Of a message that is larger than 20 MB only the beginning is read.
    """
    number, names = 0, set[str]()
    for number, data in enumerate(_parts(mailbox), 1):
        named = MESSAGE_ID.search(data[:MAX_HEADERS])
        name = named[1].decode() if named else str(number)
        name = name if name not in names else str(number)
        names.add(name)
        yield name, data


def _parts(mailbox: BinaryIO) -> Iterator[bytes]:
    """Yield messages, which begin at a line "From …" after an empty one; only one is in memory at a time."""
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


def _few_parts(data: bytes) -> bytes:
    """Return a message up to its limit of parts and of levels, whose product decides how long parsing takes."""
    n_parts = n_levels = 0
    for match in MAIL_PART.finditer(data):
        is_level = match[0].lower().endswith(b"multipart/")
        n_parts, n_levels = n_parts + (not is_level), n_levels + is_level
        if n_parts > MAX_MAIL_PARTS or n_levels > MAX_MAIL_LEVELS:
            return data[: match.start()]
    return data


def _sent_at(date: str) -> float:
    try:
        return max(parsedate_to_datetime(date).timestamp(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
