"""Check the types of a table before it becomes an experiment; an error names the field and a correct value."""

import json
import re
import tomllib
from typing import Any

from msgspec import inspect

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.experiments.spec.model import Experiment

MAX_SEARCHED_LINES = 2000  # longer files are not searched, because every beginning of the file is parsed


class FieldError(InvalidInput):
    """Error in a field of an experiment.

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
    """Return the number of path parts that exist in the table."""
    for depth, part in enumerate(path):
        try:
            table = table[int(part)] if isinstance(table, list) else table[part]
        except (LookupError, TypeError, ValueError):
            return depth
    return len(path)


TYPE_WORDS: dict[type, tuple[str, tuple[type, ...]]] = {  # msgspec's types: in words, and the types of Python
    inspect.IntType: ("an integer", (int,)),
    inspect.FloatType: ("a number", (int, float)),
    inspect.StrType: ("text in quotes", (str,)),
    inspect.LiteralType: ("text in quotes", (str,)),
    inspect.BoolType: ("true or false", (bool,)),
    inspect.VarTupleType: ("a list", (list, tuple)),
    inspect.DictType: ("a table", (dict,)),
    inspect.StructType: ("a table", (dict,)),
    inspect.NoneType: ("", (type(None),)),
    inspect.AnyType: ("", (object,)),
}
SAMPLE_VALUES = {"an integer": "10", "a number": "0.5", "text in quotes": '"…"', "true or false": "true"}
FIELD_EXAMPLES = {
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


def check_types(table: dict[str, Any]) -> None:
    """Raise `FieldError` for the first field that is unknown, missing or not of its type."""
    _check(table, inspect.type_info(Experiment), "")


def _check(value: Any, expected: inspect.Type, position: str) -> None:
    alternatives = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    fitting = [kind for kind in alternatives if _fits(value, kind)]
    if not fitting:
        words = list(filter(None, dict.fromkeys(TYPE_WORDS[type(kind)][0] for kind in alternatives)))
        received = f"{position} must be {' or '.join(words)}, got {_in_words(value)}"
        raise FieldError(position, f"{received}{_example(position, words[0])}")
    match fitting[0]:
        case inspect.LiteralType(values) if value not in values:
            raise FieldError(position, f"{position} = {value!r} is not allowed{nearest(value, values)}")
        case inspect.VarTupleType(item_type):
            for index, item in enumerate(value):
                _check(item, item_type, f"{position}[{index}]")
        case inspect.DictType(_, value_type):
            for name, item in value.items():
                _check(item, value_type, f"{position}.{name}")
        case inspect.StructType():
            _check_fields(value, [kind for kind in fitting if isinstance(kind, inspect.StructType)], position)


def _check_fields(table: dict[str, Any], structs: list[inspect.StructType], position: str) -> None:
    """Check a table against a struct; of several structs, against the one that its tag names."""
    struct, inside = structs[0], f" in {position}" if position else ""
    start = f"{position}." if position else ""
    tag_field = struct.tag_field
    if tag_field is not None and tag_field in table:
        tagged, tag = {str(kind.tag): kind for kind in structs}, str(table[tag_field])
        if tag not in tagged:
            raise FieldError(
                f"{start}{tag_field}", f"{start}{tag_field} = {tag!r} is not allowed{nearest(tag, tagged)}"
            )
        struct = tagged[tag]
    fields = {field.encode_name: field for field in struct.fields}
    for name, value in table.items():
        if name in fields:
            _check(value, fields[name].type, f"{start}{name}")
        elif name != tag_field:
            raise FieldError(
                f"{start}{name}", f"no field {name!r}{inside}{nearest(name, [*fields, *filter(None, [tag_field])])}"
            )
    required = [name for name, field in fields.items() if field.required]
    for name in ([tag_field] if tag_field else []) + required:
        if name not in table:
            raise FieldError(position, f"the field {name!r} is missing{inside}")


def _fits(value: Any, kind: inspect.Type) -> bool:
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType | inspect.AnyType)
    return isinstance(value, TYPE_WORDS[type(kind)][1])


def _in_words(value: Any) -> str:
    if isinstance(value, str | bool | int | float):
        return f"{json.dumps(value, ensure_ascii=False):.40}"
    return "a table" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else "a date or time"


def _example(position: str, words: str) -> str:
    name = position.rpartition(".")[2].partition("[")[0]
    sample = f"{name} = {SAMPLE_VALUES[words]}" if words in SAMPLE_VALUES else ""
    example = FIELD_EXAMPLES.get(name, sample)
    return f"; write {example}" if example else ""
