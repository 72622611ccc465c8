"""What is wrong with a table, and in which line of its file: msgspec's messages, with what would be right."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from rankloop.core.registry.specs import nearest
from rankloop.experiments.spec.claims import PREDICATES, Quantity
from rankloop.experiments.spec.model import Arm, Experiment, Figures, Quick

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
    """A field of the table ("" for the top) and what is wrong with it."""

    position: str
    message: str


def mistake_of(message: str, table: dict[str, Any]) -> Mistake:
    """A message of msgspec, such as "Expected `int`, got `str` - at `$.horizon`", in our words."""
    complaint, _, path = message.partition(" - at `$")
    position = path.rstrip("`").lstrip(".").replace("[...]", "")
    quoted = re.findall(r"`(.+?)`", complaint)
    if "unknown field" in complaint:
        around = f" in {position}" if position else ""
        field = quoted[0]
        return Mistake(
            f"{position}.{field}".lstrip("."), f"no field {field!r}{around}{nearest(field, _fields_of(position))}"
        )
    if "missing required field" in complaint:
        return Mistake(position, f"the field {quoted[0]!r} is missing{f' in {position}' if position else ''}")
    key = re.sub(r"\[\d+\]$", "", position).rpartition(".")[2]
    value = _value_at(table, position)
    if key in CHOICES and isinstance(value, str):
        return Mistake(position, f"{position} = {value!r} is not possible{nearest(value, CHOICES[key])}")
    if complaint.startswith("Expected") and len(quoted) == 2:
        kinds = [kind for kind in quoted[0].split(" | ") if kind in KINDS]
        wanted = " or ".join(KINDS[kind] for kind in kinds)
        return Mistake(position, f"{position} must be {wanted}, got {_given(value, quoted[1])}{_example(key, kinds)}")
    return Mistake(position, f"{position}: {complaint}" if position else complaint)


def _example(key: str, kinds: list[str]) -> str:
    usual = f"{key} = {USUAL[kinds[0]]}" if kinds and kinds[0] in USUAL else ""
    example = EXAMPLES.get(key, usual)
    return f"; write {example}" if example else ""


def _given(value: Any, kind: str) -> str:
    if isinstance(value, str | bool | int | float):
        return f"{json.dumps(value, ensure_ascii=False):.40}"
    return KINDS.get(kind, kind)


def _value_at(table: Any, position: str) -> Any:
    """What stands at a field such as `arms[1].name`; None where it cannot be told."""
    for part in re.findall(r"[^.\[\]]+", position):
        try:
            table = table[int(part)] if isinstance(table, list | tuple) else table[part]
        except (LookupError, TypeError, ValueError):
            return None
    return table


def _fields_of(position: str) -> list[str]:
    kinds: dict[str, Any] = {"": Experiment, "arms": Arm, "figures": Figures, "quick": Quick}
    head = re.split(r"[.\[]", position)[0]
    if head == "claims":
        return sorted({name for kind in PREDICATES for name in kind.__struct_fields__} | {"check"})
    return list(kinds.get(head, Experiment).__struct_fields__)


NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
HEADER = re.compile(rf"\s*(\[\[?)\s*({NAME}(?:\s*\.\s*{NAME})*)\s*\]")
LONG_STRING = re.compile(r'"""|\'\'\'')


def with_line(source: str, text: str, position: str) -> str:
    """`source`, and the line of its text, counted from 1, where a field such as `arms[1].learner.kind` stands.

    Where the field does not begin a line, the nearest thing around it counts.
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
