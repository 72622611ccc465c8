"""A wrong field of an experiment, and the line of its file where it stands."""

import re
import tomllib
from typing import Any

from rankloop.core.errors import InvalidInput

MAX_SEARCHED_LINES = 2000  # longer files are not searched, because every beginning of the file is parsed


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
      text: Its content, which is TOML.
      position: The path of a field; where it does not begin a line, the nearest thing around it counts.

    Returns:
      For example `mine.toml, line 3`; only the name where no line is known.
    """
    path, lines = re.findall(r"[^.\[\]]+", position), text.splitlines()
    deepest, line, begin = 0, None, 1
    for end in range(1, len(lines) + 1 if len(lines) <= MAX_SEARCHED_LINES else 1):
        try:
            depth = _depth(tomllib.loads("\n".join(lines[:end])), path)
        except tomllib.TOMLDecodeError:
            continue  # the line ends inside a list or a text
        if depth > deepest:
            deepest, line = depth, begin
        begin = end + 1
    return source if line is None else f"{source}, line {line}"


def _depth(table: Any, path: list[str]) -> int:
    """Return how many parts of the path are there."""
    for depth, part in enumerate(path):
        try:
            table = table[int(part)] if isinstance(table, list) else table[part]
        except (LookupError, TypeError, ValueError):
            return depth
    return len(path)
