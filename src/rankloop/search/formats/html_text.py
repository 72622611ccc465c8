"""The text of HTML that a reader would see, in one pass; the parser of Python takes minutes for 100 kB of `<a <a`."""

import re
from html import unescape

from rankloop.search.formats.file_text import FileText, decoded

RAW = {"script", "style", "textarea", "xmp"}  # no tags inside
HIDDEN = {"script", "style", "template", "noscript", "head", "svg", "math", "iframe", "object"}
OF_HEAD = {"head", "title", "meta", "link", "base", "script", "style", "template", "noscript"}
INLINE = {"a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp", "small", "span"}
INLINE |= {"strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
WITHIN_LINES = INLINE | HIDDEN - {"head"}
CHARSET = re.compile(rb"""<meta[^<>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.I)
# What follows the name of a tag goes on to its end, over values in quotes, but otherwise never over the next "<".
TAG = re.compile(r"""<(/?)([a-zA-Z][^\s<>/"']{0,40})(?>[^<>"']+|"[^"]{0,1000}"|'[^']{0,1000}'|["'])*+>|<!--|<[!?]""")


class _Reader:
    """Collects what is to be seen, with a new line for each block."""

    def __init__(self) -> None:
        self.title, self.heading, self.pieces = list[str](), list[str](), list[str]()
        self._hidden = list[str]()
        self._within = ""

    def read(self, text: str) -> None:
        at = 0
        while match := TAG.search(text, at):
            self._text(text[at : match.start()])
            at = match.end()
            if match[2] is None:
                end = text.find("-->" if match[0] == "<!--" else ">", at)
                at = len(text) if end < 0 else end + 1 + 2 * (match[0] == "<!--")
                continue
            tag = match[2].lower()
            if match[1]:
                self._close(tag)
            else:
                self._open(tag, match[0].endswith("/>"))
                if tag in RAW:
                    closed = re.compile(f"</{tag}", re.I).search(text, at)
                    end = closed.start() if closed else len(text)
                    self._text(text[at:end])
                    at = end
        self._text(text[at:])

    def _open(self, tag: str, is_closed: bool) -> None:
        if self._hidden[:1] == ["head"] and tag not in OF_HEAD:
            self._hidden.clear()  # whatever else stands there begins the body
        if tag in HIDDEN and (tag in RAW or not is_closed):
            self._hidden.append(tag)
        if (tag == "title" and not self.title and self._hidden in ([], ["head"])) or (tag == "h1" and not self.heading):
            self._within = tag
        if tag not in WITHIN_LINES:
            self.pieces.append("\n")

    def _close(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        if tag == self._within:
            self._within = ""
        if tag not in WITHIN_LINES:
            self.pieces.append("\n")

    def _text(self, text: str) -> None:
        if self._within == "title" and self._hidden in ([], ["head"]):
            self.title.append(text)
        elif not self._hidden:
            if self._within == "h1":
                self.heading.append(text)
            self.pieces.append(text)


def read_html(data: bytes) -> FileText:
    """Scripts, styles, comments and attributes are left out; entities are characters."""
    found = CHARSET.search(data[:2_000])
    return html_text(decoded(data, found[1].decode() if found else ""))


def html_text(text: str) -> FileText:
    reader = _Reader()
    reader.read(text)
    title = " ".join(unescape("".join(reader.title or reader.heading)).split())
    lines = (" ".join(line.split()) for line in unescape("".join(reader.pieces)).splitlines())
    return FileText(title, "\n".join(line for line in lines if line))


def without_tags(text: str) -> str:
    """HTML inside another format, as text."""
    return html_text(text).body if re.search(r"<[a-zA-Z!/]", text) else text.strip()
