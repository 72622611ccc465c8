"""Specs as text, and conversion and checks of constructor arguments by the annotations of a dataclass."""

import dataclasses
import difflib
import functools
import inspect
import json
import re
import tomllib
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from rankloop.core.errors import InvalidInput

INTEGER_LIMIT = 2**63  # integers of kernels are below this
MAX_LISTED_NAMES = 24  # an error message lists all valid names up to this number
MIN_SIMILARITY = 0.6  # of a name that is suggested, from 0 to 1
MAX_SIMILARITY_GAP = 0.1  # to the most similar name, for others that are suggested, too
MAX_SUGGESTIONS = 3
TYPE_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
TEXTS_AND_BOOLEANS = re.compile(r"\"[^\"]*\"|'[^']*'|\b(?:True|False)\b")
Nested = Callable[[Any, Any], Any]  # value and annotation to a registered object, or None


def parse_spec(text: str) -> dict[str, Any]:
    """Return the dict of `kind`, `kind(name=value, …)` or `kind@cutoff`; values as in TOML, or `True`, `False`."""
    head, _, cutoff = text.rpartition("@") if "@" in text.rsplit(")", 1)[-1] else (text, "", "")
    kind, bracket, arguments = head.partition("(")
    if bracket and not arguments.rstrip().endswith(")"):
        raise InvalidInput(f"{text!r}: the bracket after {kind!r} is not closed")
    try:
        values = TEXTS_AND_BOOLEANS.sub(
            lambda word: word[0].lower() if word[0] in ("True", "False") else word[0], arguments
        )
        table = tomllib.loads(f"_ = {{{values.rstrip()[:-1]}}}")["_"] if bracket else {}
        if cutoff or text.endswith("@"):
            table["cutoff"] = int(cutoff)
    except ValueError:
        raise InvalidInput(f"{text!r} is not of the form kind(name=value, …)@cutoff, values as in TOML") from None
    if not kind.strip():
        raise InvalidInput(f"{text!r} does not begin with a kind")
    return {"kind": kind.strip()} | table


def toml_value(value: Any) -> str:
    """Return a text, number, list or table as a value of TOML on one line, which `parse_spec` reads."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(name)} = {toml_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str | bool):  # TOML has the escapes of JSON, and one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _toml_key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else toml_value(name)


def nearest(name: str, valid: Any) -> str:
    """Return the end of an error message: similar names, or all valid ones if they are few.

    Args:
      name: The name that is wrong.
      valid: The valid names.
    """
    names = [str(candidate) for candidate in valid]
    alike = {each: difflib.SequenceMatcher(None, each.lower(), name.lower()).ratio() for each in names}
    best = max(alike.values(), default=0.0)
    close = sorted((each for each in alike if alike[each] >= best - MAX_SIMILARITY_GAP), key=lambda each: -alike[each])
    if best >= MIN_SIMILARITY and len(close) <= MAX_SUGGESTIONS:
        *others, last = map(repr, close)
        return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"
    return f"; there is {', '.join(sorted(names))}" if 0 < len(names) <= MAX_LISTED_NAMES else ""


def check_arguments(cls: type, nested: Nested) -> None:
    """Make a dataclass convert and check its constructor arguments by their annotations.

    Args:
      cls: The dataclass.
      nested: Builds registered objects from specs.
    """
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, /, **arguments: Any) -> None:
        hints = _hints(cls)
        for name, value in arguments.items():
            if name not in hints:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, hints)}")
            arguments[name] = _convert(value, hints[name], name, nested)
        missing = [f.name for f in dataclasses.fields(cls) if _is_required(f) and f.name not in arguments]
        if missing:
            raise InvalidInput(f"the parameter {missing[0]!r} is missing")
        construct(self, **arguments)

    cls.__init__ = init  # type: ignore[misc]


def _convert(value: Any, annotation: Any, name: str, nested: Nested) -> Any:
    """Return a value as the annotated type; checks that come with the type are made, see `core.checks`."""
    if isinstance(value, np.generic):
        value = value.item()
    if get_origin(annotation) is Annotated:
        value = _convert(value, get_args(annotation)[0], name, nested)
        for check in annotation.__metadata__:
            check(**{name: value})
        return value
    if get_origin(annotation) in (Union, types.UnionType):
        return _first_that_fits(value, get_args(annotation), name, nested)
    if get_origin(annotation) is Literal:
        if value not in get_args(annotation):
            raise InvalidInput(f"{name} = {value!r} is not possible{nearest(str(value), get_args(annotation))}")
        return value
    if get_origin(annotation) is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name} must be a list, got {value!r}")
        return tuple(_convert(part, get_args(annotation)[0], name, nested) for part in value)
    thing = nested(value, annotation)
    if thing is not None:
        return thing
    if type(value) is int and abs(value) >= INTEGER_LIMIT:
        raise InvalidInput(f"{name} must be below 2⁶³")
    if annotation is float and type(value) is int:
        return float(value)
    if type(value) is not annotation:
        expected = TYPE_WORDS.get(annotation, f"of type {getattr(annotation, '__name__', annotation)}")
        raise InvalidInput(f"{name} must be {expected}, got {value!r}")
    return value


def _first_that_fits(value: Any, options: tuple[Any, ...], name: str, nested: Nested) -> Any:
    if value is None and type(None) in options:
        return None
    reasons = []
    for option in options:
        if option is not type(None):
            try:
                return _convert(value, option, name, nested)
            except InvalidInput as error:
                reasons.append(str(error))
    raise InvalidInput("; or ".join(reasons))


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


E = TypeVar("E", bound="Estimator")


class Estimator:
    """The base class of estimators; `fit` validates and learns, and learned attributes end with an underscore."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: E, **parameters: Any) -> E:
        """Change some of the constructor's arguments; raise `InvalidInput` for an unknown name."""
        valid = self.get_params()
        for name, value in parameters.items():
            if name not in valid:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, valid)}")
            setattr(self, name, value)
        return self
