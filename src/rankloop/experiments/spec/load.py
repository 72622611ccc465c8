"""From a TOML file to an experiment, or to one line that says which field is wrong."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.experiments.spec.checks import check
from rankloop.experiments.spec.errors import mistake_of, with_line
from rankloop.experiments.spec.model import Experiment
from rankloop.experiments.spec.plugins import import_modules

BEGINS_WITH_A_POSITION = re.compile(r"(\w+(?:\[\d+\]|\.\w+)*)(?=:| = )")


def read_spec(path: Path) -> Experiment:
    """The experiment in a TOML file; without a name it takes the file's, and its `imports` are looked for beside it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not TOML: it is not text in UTF-8") from None
    return read_spec_text(text, str(path), path.stem, path.parent)


def read_spec_text(text: str, source: str, name: str, folder: Path = Path()) -> Experiment:
    """The experiment in a TOML text; `source` is what errors call it, `name` what it is called unless it says so."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not TOML: {error}") from None
    return parse_spec(table, source, name, folder, text)


def parse_spec(
    table: dict[str, Any], source: str, name: str = "experiment", folder: Path = Path(), text: str = ""
) -> Experiment:
    """The experiment in a table, every part of it built once, so that what is wrong is found before anything runs."""
    try:
        experiment = msgspec.convert({"name": name} | table, Experiment)
    except msgspec.ValidationError as error:
        mistake = mistake_of(str(error), table)
        raise InvalidInput(f"{with_line(source, text, mistake.position)}: {mistake.message}") from None
    try:
        _import(experiment.imports, folder)
        check(experiment)
    except (InvalidInput, NotFound) as error:
        position = BEGINS_WITH_A_POSITION.match(str(error))
        kind = InvalidInput if isinstance(error, InvalidInput) else NotFound
        raise kind(f"{with_line(source, text, position[1] if position else '')}: {error}") from None
    return experiment


def _import(imports: tuple[str, ...], folder: Path) -> None:
    try:
        import_modules(imports, folder)
    except (InvalidInput, NotFound) as error:
        raise type(error)(f"imports: {error}") from None
