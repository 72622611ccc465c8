"""Read experiments from TOML, with one-line errors that name the wrong field."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.experiments.spec.checks import FieldError, check, check_types
from rankloop.experiments.spec.model import Experiment
from rankloop.experiments.spec.plugins import import_modules

MAX_SEARCHED_LINES = 2000  # longer files are not searched, because every beginning of the file is parsed


def read_spec(path: Path) -> Experiment:
    """Read an experiment; without a name it takes the file's, and its `imports` are looked for beside it.

    Args:
      path: A TOML file.

    Returns:
      The experiment, every part of it built once, so that what is wrong is found before anything runs.

    Raises:
      InvalidInput: If the file is not TOML or a field is wrong; the message names the line.
      NotFound: If the file, an imported module or a file of data is not there.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not TOML: it is not text in UTF-8") from None
    return read_spec_text(text, str(path), path.stem, path.parent)


def read_spec_text(text: str, source: str, name: str, folder: Path = Path()) -> Experiment:
    """Read an experiment from a TOML text.

    Args:
      text: The text.
      source: The name of the text in error messages.
      name: The experiment's name unless the text has one.
      folder: The folder of the modules in `imports`.

    Raises:
      InvalidInput: If the text is not TOML or a field is wrong; the message names the line.
      NotFound: If an imported module or a data file is missing.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not TOML: {error}") from None
    return parse_spec(table, source, name, folder, text)


def parse_spec(
    table: dict[str, Any], source: str, name: str = "experiment", folder: Path = Path(), text: str = ""
) -> Experiment:
    """Make an experiment of a table.

    Args:
      table: The table.
      source: The name of the table in error messages.
      name: The experiment's name unless the table has one.
      folder: The folder of the modules in `imports`.
      text: The TOML text, for line numbers in error messages.

    Raises:
      InvalidInput: If a field is wrong.
      NotFound: If an imported module or a data file is missing.
    """
    table = {"name": name} | table
    with _located(source, text):
        check_types(table)
        experiment = msgspec.convert(table, Experiment)
    with _located(source, text, "imports"):
        import_modules(experiment.imports, folder)
    with _located(source, text):
        check(experiment)
    return experiment


@contextmanager
def _located(source: str, text: str, position: str = "") -> Iterator[None]:
    """Start the message of an error with the file and the line; `position` is the field if the error has none."""
    try:
        yield
    except FieldError as error:
        raise InvalidInput(f"{_with_line(source, text, error.position)}: {error}") from None
    except (InvalidInput, NotFound, msgspec.ValidationError) as error:
        kind = NotFound if isinstance(error, NotFound) and not isinstance(error, InvalidInput) else InvalidInput
        field = f"{position}: " if position else ""
        raise kind(f"{_with_line(source, text, position)}: {field}{error}") from None


def _with_line(source: str, text: str, position: str) -> str:
    """Return the name of a file and the line where a field, or else the nearest thing around it, begins."""
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
    """Return the number of path parts that exist in the table."""
    for depth, part in enumerate(path):
        try:
            table = table[int(part)] if isinstance(table, list) else table[part]
        except (LookupError, TypeError, ValueError):
            return depth
    return len(path)
