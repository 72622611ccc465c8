"""Markdown and reStructuredText, without their marks. Every expression stays within a line, so that time is linear."""

import re

from rankloop.search.formats.file_text import FileText, decoded
from rankloop.search.formats.html_text import without_tags

RULE = r"([=\-~^\"'#*+.:_`])\1{2,199}"
FRONT_MATTER = re.compile(r"\A---\n(.{0,10000}?)\n---\n", re.S)
NAMED = re.compile(r"^title:[ \t]*[\"']?([^\n]{1,300}?)[\"']?[ \t]*$", re.M)
HEADING = re.compile(r"^#{1,6}[ \t]+([^\n]{1,300}?)[ \t#]*$", re.M)
UNDERLINED = re.compile(r"^([^\s\n][^\n]{0,300})\n(?:={1,200}|-{2,200})[ \t]*$", re.M)
ADORNED = re.compile(rf"^[ \t]?([^\s\n][^\n]{{0,300}})\n{RULE.replace('1', '2')}[ \t]*$", re.M)
MARKED = r"(?=\S)([^\n]{1,300}?)(?<=\S)\1"  # between two equal marks


def read_markdown(data: bytes) -> FileText:
    text = decoded(data)
    matter, title = FRONT_MATTER.match(text), ""
    if matter:
        text = text[matter.end() :]
        named = NAMED.search(matter[1])
        title = named[1] if named else ""
    heading = HEADING.search(text) or UNDERLINED.search(text)
    if heading and not title:
        title = heading[1].strip()
    text = re.sub(r"!?\[([^][\n]{0,300})\](?:\([^()\n]{0,2000}\)|\[[^][\n]{0,300}\])", r"\1", text)  # links, pictures
    text = re.sub(r"^[ \t]{0,3}(?:#{1,6}|>|[-*+]|\d{1,9}[.)])[ \t]+", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}(?:`{3,9}|~{3,9})[^\n]*$|^[=\-*_ ]{3,200}$|^[|:\- ]{1,500}$", "", text, flags=re.M)
    text = re.sub(rf"(\*\*|__|\*|`{{1,9}}|~~){MARKED}", r"\2", text)
    return FileText(_unmarked(title), without_tags(text))


def read_restructured(data: bytes) -> FileText:
    text = decoded(data)
    heading = ADORNED.search(text)
    text = re.sub(rf"^{RULE}[ \t]*$", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}\.\. [\w:|-]{1,80}::[^\n]*$|^\.\. _[^\n]*$", "", text, flags=re.M)
    text = re.sub(r"^[ \t]{0,20}:[\w -]{1,80}:(?: [^\n]*)?$", "", text, flags=re.M)
    text = re.sub(r"``([^\n]{1,300}?)``", r"\1", text)
    text = re.sub(r":[\w:+-]{1,80}:`([^`<\n]{0,300}?)[ \t]{0,9}(?:<[^<>\n]{0,300}>)?`", r"\1", text)
    text = re.sub(r"`([^`<\n]{1,300}?)[ \t]{0,9}(?:<[^<>\n]{0,300}>)?`_{0,2}", r"\1", text)
    text = re.sub(rf"(\*\*|\*){MARKED}", r"\2", text)
    return FileText(_unmarked(heading[1].strip()) if heading else "", text.strip())


def _unmarked(title: str) -> str:
    return without_tags(re.sub(r"[*`_]{1,2}(?=\S)(.{1,300}?)(?<=\S)[*`_]{1,2}", r"\1", title))
