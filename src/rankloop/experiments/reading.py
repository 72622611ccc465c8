"""From a TOML file to an experiment, or to one line that says which field is wrong."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.specs import nearest
from rankloop.experiments.checking import check
from rankloop.experiments.predicates import PREDICATES
from rankloop.experiments.spec import Arm, Experiment, Figures, Quick


def read_spec(path: Path) -> Experiment:
    """The experiment in a TOML file; without a name it takes the file's."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not TOML: it is not text in UTF-8") from None
    return read_spec_text(text, str(path), path.stem)


def read_spec_text(text: str, source: str, name: str) -> Experiment:
    """The experiment in a TOML text; `source` is what errors call it, `name` what it is called unless it says so."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not TOML: {error}") from None
    return parse_spec(table, source, name)


def parse_spec(table: dict[str, Any], source: str, name: str = "experiment") -> Experiment:
    """The experiment in a table, every part of it built once, so that what is wrong is found before anything runs."""
    try:
        experiment = msgspec.convert({"name": name} | table, Experiment)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{source}: {_explained(str(error))}") from None
    try:
        check(experiment)
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None
    return experiment


def _explained(message: str) -> str:
    """msgspec's words in ours, with the field that was probably meant."""
    unknown = re.match(r"Object contains unknown field `(.+?)`(?: - at `\$\.?(.*?)`)?", message)
    if unknown:
        field, place = unknown.groups()
        return f"no field {field!r}{' in ' + place if place else ''}{nearest(field, _fields_of(place or ''))}"
    missing = re.match(r"Object missing required field `(.+?)`(?: - at `\$\.?(.*?)`)?", message)
    if missing:
        field, place = missing.groups()
        return f"the field {field!r} is missing{' in ' + place if place else ''}"
    return message.replace("`$.", "`").replace("Object", "table").replace("object", "table")


def _fields_of(place: str) -> list[str]:
    kinds: dict[str, Any] = {"": Experiment, "arms": Arm, "figures": Figures, "quick": Quick}
    head = re.split(r"[.\[]", place)[0]
    if head == "claims":
        return sorted({name for kind in PREDICATES for name in kind.__struct_fields__} | {"check"})
    return list(kinds.get(head, Experiment).__struct_fields__)
