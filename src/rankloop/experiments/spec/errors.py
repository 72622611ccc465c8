"""What is wrong with a table, in plain words: msgspec's messages with the field, its value, and what would be right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from rankloop.core.specs import nearest
from rankloop.experiments.spec.claims import PREDICATES, Quantity
from rankloop.experiments.spec.model import Arm, Experiment, Figures, Quick

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


KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
USUAL = {"int": "10", "float": "0.5", "str": '"…"', "bool": "true"}
EXAMPLES = {
    "stream": 'stream = "web_search"',
    "streams": 'a table [streams] with lines such as easy = "web_search"',
    "arms": "a table [[arms]] for each",
    "claims": "a table [[claims]] for each",
    "learner": 'learner = "3pr"',
    "feedback": 'feedback = "full"',
    "delivery": 'delivery = "late"',
    "measures": 'measures = ["nDCG@10"]',
    "imports": 'imports = ["my_learner.py"]',
    "horizon": "horizon = 20_000",
    "seeds": "seeds = 5 or seeds = [0, 1]",
    "checkpoints": "checkpoints = 40 or checkpoints = [100, 1000]",
    "quantities": 'quantities = ["average"]',
}
CHOICES = {
    "spacing": ("log", "linear"),
    "quantity": get_args(Quantity),
    "quantities": get_args(Quantity),
    "check": tuple(str(kind.__struct_config__.tag) for kind in PREDICATES),
}


class Mistake(NamedTuple):
    """Where in the table ("" for the top) and what."""

    place: str
    words: str


def mistake_of(message: str, table: dict[str, Any]) -> Mistake:
    """A message of msgspec, such as "Expected `int`, got `str` - at `$.horizon`", in our words."""
    what, _, path = message.partition(" - at `$")
    place = path.rstrip("`").lstrip(".").replace("[...]", "")
    quoted = re.findall(r"`(.+?)`", what)
    if "unknown field" in what:
        around = f" in {place}" if place else ""
        field = quoted[0]
        return Mistake(_inside(place, field), f"no field {field!r}{around}{nearest(field, _fields_of(place))}")
    if "missing required field" in what:
        return Mistake(place, f"the field {quoted[0]!r} is missing{f' in {place}' if place else ''}")
    key = re.sub(r"\[\d+\]$", "", place).rpartition(".")[2]
    value = _value_at(table, place)
    if key in CHOICES and isinstance(value, str):
        return Mistake(place, f"{place} = {value!r} is not possible{nearest(value, CHOICES[key])}")
    if what.startswith("Expected") and len(quoted) == 2:
        kinds = [kind for kind in quoted[0].split(" | ") if kind in KINDS]
        wanted = " or ".join(KINDS[kind] for kind in kinds)
        return Mistake(place, f"{place} must be {wanted}, got {_given(value, quoted[1])}{_example(key, kinds)}")
    return Mistake(place, f"{place}: {what}" if place else what)


def _inside(place: str, field: str) -> str:
    return f"{place}.{field}" if place else field


def _example(key: str, kinds: list[str]) -> str:
    usual = f"{key} = {USUAL[kinds[0]]}" if kinds and kinds[0] in USUAL else ""
    example = EXAMPLES.get(key, usual)
    return f"; write {example}" if example else ""


def _given(value: Any, kind: str) -> str:
    if isinstance(value, str | bool | int | float):
        return f"{json.dumps(value, ensure_ascii=False):.40}"
    return KINDS.get(kind, kind)


def _value_at(table: Any, place: str) -> Any:
    """What stands at a place such as `arms[1].name`; None where it cannot be told."""
    for part in re.findall(r"[^.\[\]]+", place):
        try:
            table = table[int(part)] if isinstance(table, list | tuple) else table[part]
        except (LookupError, TypeError, ValueError):
            return None
    return table


def _fields_of(place: str) -> list[str]:
    kinds: dict[str, Any] = {"": Experiment, "arms": Arm, "figures": Figures, "quick": Quick}
    head = re.split(r"[.\[]", place)[0]
    if head == "claims":
        return sorted({name for kind in PREDICATES for name in kind.__struct_fields__} | {"check"})
    return list(kinds.get(head, Experiment).__struct_fields__)
