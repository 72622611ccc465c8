"""In which line of a TOML text a field stands, for error messages; `tomllib` does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
HEADER = re.compile(rf"\s*(\[\[?)\s*({NAME}(?:\s*\.\s*{NAME})*)\s*\]")
LONG_STRING = re.compile(r'"""|\'\'\'')


def line_of(text: str, place: str) -> int | None:
    """The line, counted from 1, of a place such as `arms[1].learner.kind`, or of the nearest thing around it."""
    found = [(field, line) for field, line in _fields(text) if _holds(field, place)]
    return max(found, key=lambda pair: len(pair[0]))[1] if found else None


def _holds(field: str, place: str) -> bool:
    return place == field or place.startswith((f"{field}.", f"{field}["))


def _fields(text: str) -> Iterator[tuple[str, int]]:
    """Every table and every key that begins a line, with the line."""
    table, counts, in_string = "", {}, False  # type: tuple[str, dict[str, int], bool]
    for number, line in enumerate(text.splitlines(), start=1):
        began_in_string = in_string
        in_string ^= len(LONG_STRING.findall(line)) % 2 == 1
        if began_in_string:
            continue
        header, key = HEADER.match(line), KEY.match(line)
        if header:
            table = _place(_parts(header[2]), counts, begins=header[1] == "[[")
            yield table, number
        elif key:
            yield ".".join(filter(None, [table, *_parts(key[1])])), number


def _place(parts: list[str], counts: dict[str, int], begins: bool) -> str:
    """`arms` as `arms[1]` in the second table of that name, which begins where the header has two brackets."""
    place = ""
    for depth, part in enumerate(parts, start=1):
        place = f"{place}.{part}" if place else part
        if begins and depth == len(parts):
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = f"{place}[{counts[place]}]"
    return place


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(NAME, name)]
