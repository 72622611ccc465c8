"""Files as plain text with a title: text, Markdown, HTML, reStructuredText, e-mail. Nothing of a file is ever run."""

import codecs
import re
from collections.abc import Callable
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import NamedTuple

from rankloop.core.errors import InvalidInput

MAX_BODY = 5_000_000  # characters of a text that are indexed
MAX_TITLE = 300
MAX_CONTROL = 0.01  # share of control characters above which bytes are no text
HIDDEN = {"script", "style", "template", "noscript", "head", "svg", "math", "iframe", "object"}
INLINE = {"a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp", "small", "span"}
INLINE |= {"strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
MARKS = (  # the byte order marks, the longest first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.I)
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.S)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.M)
SETEXT = re.compile(r"^(?!\s*$)(.+)\n(=+|-{2,})\s*$", re.M)
ADORNED = re.compile(r"^(?!\s*$)(.+)\n([=\-~^\"'#*+.:_`])\2{2,}\s*$", re.M)


class Read(NamedTuple):
    """What was in a file."""

    title: str
    body: str
    at: float = 0.0  # when it was written, where it says so


def decoded(data: bytes, named: str = "") -> str:
    """Bytes as text: by their mark, as UTF-8, by the encoding that they name, at last as Windows-1252."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _checked(data.decode(encoding, errors="replace"))
    for encoding in ("utf-8", named):
        try:
            return _checked(data.decode(encoding)) if encoding else _checked(data.decode("cp1252", errors="replace"))
        except (UnicodeDecodeError, LookupError):
            continue
    return _checked(data.decode("cp1252", errors="replace"))


def _checked(text: str) -> str:
    start = text[:100_000]
    if len(CONTROL.findall(start)) > MAX_CONTROL * len(start):
        raise InvalidInput("it is not a text")
    return CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def read_plain(data: bytes) -> Read:
    """The first line is the title, if it is short."""
    text = decoded(data).strip()
    first, _, _ = text.partition("\n")
    return Read(first.strip() if len(first) <= 100 else "", text)


def read_html(data: bytes) -> Read:
    """The text that a reader would see; scripts, styles and attributes are left out."""
    found = CHARSET.search(data[:2_000])
    return html_text(decoded(data, found[1].decode("ascii", errors="replace") if found else ""))


def html_text(text: str) -> Read:
    reader = _HtmlText()
    reader.feed(text)
    reader.close()
    title = " ".join("".join(reader.title or reader.heading).split())
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).splitlines())
    return Read(title, "\n".join(line for line in lines if line))


def read_markdown(data: bytes) -> Read:
    text = decoded(data)
    matter = FRONT_MATTER.match(text)
    title = ""
    if matter:
        text = text[matter.end() :]
        named = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", matter[1], re.M)
        title = named[1] if named else ""
    if not title:
        heading = HEADING.search(text) or SETEXT.search(text)
        title = heading[1].strip() if heading else ""
    text = re.sub(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)  # links and pictures
    text = re.sub(r"^\s{0,3}(#{1,6}|>|[-*+]|\d+[.)])\s+", "", text, flags=re.M)
    text = re.sub(r"^\s*(`{3,}|~{3,}).*$|^[=\-*_ ]{3,}$|^[|:\- ]+$", "", text, flags=re.M)
    text = re.sub(r"(\*\*|__|\*|`+|~~)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    return Read(_unmarked(title), _without_tags(text))


def read_restructured(data: bytes) -> Read:
    text = decoded(data)
    heading = ADORNED.search(text)
    text = re.sub(r"^([=\-~^\"'#*+.:_`])\1{2,}\s*$", "", text, flags=re.M)
    text = re.sub(r"^\s*\.\. [\w:|-]+::.*$|^\s*:[\w -]+:( .*)?$|^\.\. _.*$", "", text, flags=re.M)
    text = re.sub(r"``(.+?)``", r"\1", text)
    text = re.sub(r":[\w:+-]+:`([^`<]*?)\s*(<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]+?)\s*(<[^>]*>)?`_{0,2}", r"\1", text)
    text = re.sub(r"(\*\*|\*)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    return Read(_unmarked(heading[1].strip()) if heading else "", text.strip())


def read_email(data: bytes) -> Read:
    """The subject and the text; of a message in HTML only, the text of that. Attachments are left out."""
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(data)
    if not message.keys():
        raise InvalidInput("it is not an e-mail")
    try:
        part = message.get_body(("plain", "html"))
        content = str(part.get_content()) if part is not None else ""
        is_html = part is not None and part.get_content_subtype() == "html"
        subject, sender, date = (str(message.get(name, "")) for name in ("subject", "from", "date"))
    except (LookupError, UnicodeError, ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"it is a damaged e-mail ({error})") from None
    body = html_text(content).body if is_html else _checked(content)
    return Read(" ".join(subject.split()), f"{' '.join(sender.split())}\n{body}".strip(), _moment(date))


READERS: dict[str, Callable[[bytes], Read]] = {
    ".txt": read_plain,
    ".text": read_plain,
    ".log": read_plain,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".rst": read_restructured,
    ".rest": read_restructured,
    ".eml": read_email,
}


class _HtmlText(HTMLParser):
    """Collects what is to be seen, with a new line for each block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.heading: list[str] = []
        self.pieces: list[str] = []
        self._hidden: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._hidden.clear()
        elif tag in HIDDEN:
            self._hidden.append(tag)
        if tag == "title" and not self.title and self._hidden in ([], ["head"]):
            self._within = tag
        if tag == "h1" and not self.heading:
            self._within = tag
        if tag not in INLINE:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        if tag == self._within:
            self._within = ""
        if tag not in INLINE:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._within == "title":
            self.title.append(data)
        elif not self._hidden:
            if self._within == "h1":
                self.heading.append(data)
            self.pieces.append(data)


def _without_tags(text: str) -> str:
    """HTML inside another format, as text."""
    return html_text(text).body if re.search(r"<[a-zA-Z!/]", text) else text.strip()


def _unmarked(title: str) -> str:
    return _without_tags(re.sub(r"[*`_]{1,2}(?=\S)(.+?)(?<=\S)[*`_]{1,2}", r"\1", title))


def _moment(date: str) -> float:
    try:
        return max(parsedate_to_datetime(date).timestamp(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
