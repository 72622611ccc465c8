"""A wrong field of an experiment, and the line of its file where it stands."""

import re
from collections.abc import Iterator

from rankloop.core.errors import InvalidInput

NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
HEADER = re.compile(rf"\s*(\[\[?)\s*({NAME}(?:\s*\.\s*{NAME})*)\s*\]")
LONG_STRING = re.compile(r'"""|\'\'\'')


class FieldError(InvalidInput):
    """A field of an experiment is wrong.

    Attributes:
      position: The path of the field, such as `arms[1].learner`; "" for the table itself.
    """

    def __init__(self, position: str, message: str) -> None:
        super().__init__(message)
        self.position = position


def with_line(source: str, text: str, position: str) -> str:
    """Return the name of a file and the line, counted from 1, where a field stands.

    Args:
      source: The name of the file.
      text: Its content.
      position: The path of a field; where it does not begin a line, the nearest thing around it counts.

    Returns:
      For example `mine.toml, line 3`; only the name where no line is known.
    """
    around = [(field, line) for field, line in _fields(text) if f"{position}.".startswith((f"{field}.", f"{field}["))]
    return f"{source}, line {max(around, key=lambda pair: len(pair[0]))[1]}" if around and position else source


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
            table = _position(_parts(header[2]), counts, begins=header[1] == "[[")
            yield table, number
        elif key:
            yield ".".join(filter(None, [table, *_parts(key[1])])), number


def _position(parts: list[str], counts: dict[str, int], begins: bool) -> str:
    """`arms` as `arms[1]` in the second table of that name, which begins where the header has two brackets."""
    position = ""
    for depth, part in enumerate(parts, start=1):
        position = f"{position}.{part}" if position else part
        if begins and depth == len(parts):
            counts[position] = counts.get(position, -1) + 1
        if position in counts:
            position = f"{position}[{counts[position]}]"
    return position


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(NAME, name)]
