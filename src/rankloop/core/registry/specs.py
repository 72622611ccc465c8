"""Specs as text, and constructors that take them: conversion and checks by the annotations of a dataclass."""

import dataclasses
import difflib
import functools
import re
import tomllib
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from rankloop.core.errors import InvalidInput

ASTRONOMIC = 2**63
LISTED = 24  # more names than this do not help in one line
NEAR, AS_NEAR, OFFERED = 0.6, 0.1, 3  # similarity, from 0 to 1; how far below the best one others are worth naming
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
PYTHON_WORDS = re.compile(r"\"[^\"]*\"|'[^']*'|\b(?:True|False)\b")  # texts are left as they are
Nested = Callable[[Any, Any], Any]  # value and annotation to the registered thing that is meant; None: neither


def parse_spec(text: str) -> dict[str, Any]:
    """`kind`, `kind(parameter=value, …)` and `kind@cutoff` as a table; values as in TOML, or `True`, `False`."""
    head, _, cutoff = text.rpartition("@") if "@" in text.rsplit(")", 1)[-1] else (text, "", "")
    kind, bracket, rest = head.partition("(")
    if bracket and not rest.rstrip().endswith(")"):
        raise InvalidInput(f"{text!r}: the bracket after {kind!r} is not closed")
    try:
        values = PYTHON_WORDS.sub(lambda word: word[0].lower() if word[0] in ("True", "False") else word[0], rest)
        table = tomllib.loads(f"_ = {{{values.rstrip()[:-1]}}}")["_"] if bracket else {}
        if cutoff or text.endswith("@"):
            table["cutoff"] = int(cutoff)
    except ValueError:
        raise InvalidInput(f"{text!r} is not of the form kind(name=value, …)@cutoff, values as in TOML") from None
    if not kind.strip():
        raise InvalidInput(f"{text!r} does not begin with a kind")
    return {"kind": kind.strip()} | table


def nearest(name: str, valid: Any) -> str:
    """The end of an error message: what was probably meant, up to three names; where nothing is near, all if few."""
    names = [str(candidate) for candidate in valid]
    alike = {each: difflib.SequenceMatcher(None, each.lower(), name.lower()).ratio() for each in names}
    best = max(alike.values(), default=0.0)
    close = sorted((each for each in alike if alike[each] >= best - AS_NEAR), key=lambda each: -alike[each])
    if best >= NEAR and len(close) <= OFFERED:
        *others, last = map(repr, close)
        return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"
    return f"; there is {', '.join(sorted(names))}" if 0 < len(names) <= LISTED else ""


def check_arguments(cls: type, nested: Nested) -> None:
    """Convert and check what the constructor is given, by the annotations, before the class validates it."""
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, /, **arguments: Any) -> None:
        hints = _hints(cls)
        for name, value in arguments.items():
            if name not in hints:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, hints)}")
            arguments[name] = convert(value, hints[name], name, nested)
        missing = [f.name for f in dataclasses.fields(cls) if _required(f) and f.name not in arguments]
        if missing:
            raise InvalidInput(f"the parameter {missing[0]!r} is missing")
        construct(self, **arguments)

    cls.__init__ = init  # type: ignore[misc]


def convert(value: Any, annotation: Any, name: str, nested: Nested) -> Any:
    """`value` as the annotated type, or `InvalidInput` that names the parameter."""
    if isinstance(value, np.generic):
        value = value.item()
    if get_origin(annotation) in (Union, types.UnionType):
        return _first_that_fits(value, get_args(annotation), name, nested)
    if get_origin(annotation) is Literal:
        if value not in get_args(annotation):
            raise InvalidInput(f"{name} = {value!r} is not possible{nearest(str(value), get_args(annotation))}")
        return value
    if get_origin(annotation) is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name} must be a list, got {value!r}")
        return tuple(convert(part, get_args(annotation)[0], name, nested) for part in value)
    thing = nested(value, annotation)
    if thing is not None:
        return thing
    if type(value) is int and abs(value) >= ASTRONOMIC:
        raise InvalidInput(f"{name} must be below 2⁶³, the largest number that kernels count with")
    if annotation is float and type(value) is int:
        return float(value)
    if type(value) is not annotation:
        wanted = WORDS.get(annotation, f"of type {getattr(annotation, '__name__', annotation)}")
        raise InvalidInput(f"{name} must be {wanted}, got {value!r}")
    return value


def _first_that_fits(value: Any, options: tuple[Any, ...], name: str, nested: Nested) -> Any:
    if value is None and type(None) in options:
        return None
    reasons = []
    for option in options:
        if option is not type(None):
            try:
                return convert(value, option, name, nested)
            except InvalidInput as error:
                reasons.append(str(error))
    raise InvalidInput("; or ".join(reasons))


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
