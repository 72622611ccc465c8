"""Specs as text, suggestions for names that are wrong, and the base class of estimators."""

import difflib
import inspect
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput

MAX_LISTED_NAMES = 24  # an error message lists all valid names up to this number
MIN_SIMILARITY = 0.6  # of a name that is suggested, from 0 to 1
MAX_SIMILARITY_GAP = 0.1  # to the most similar name, for others that are suggested, too
MAX_SUGGESTIONS = 3
MAX_COMPARED_CHARACTERS = 200  # of a name that is wrong: longer ones take seconds
TEXTS_AND_BOOLEANS = re.compile(r"\"[^\"]*\"|'[^']*'|\b(?:True|False)\b")


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
        keys = [name if name.isascii() and name.isidentifier() else toml_value(name) for name in value]
        return "{" + ", ".join(f"{key} = {toml_value(part)}" for key, part in zip(keys, value.values())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str | bool):  # TOML has the escapes of JSON, and one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def nearest(name: str, valid: Any) -> str:
    """Return the end of an error message: similar names, or all valid ones if they are few.

    Args:
      name: The name that is wrong.
      valid: The valid names.
    """
    names, name = [str(candidate) for candidate in valid], name[:MAX_COMPARED_CHARACTERS]
    alike = {each: difflib.SequenceMatcher(None, each.lower(), name.lower()).ratio() for each in names}
    best = max(alike.values(), default=0.0)
    close = sorted((each for each in alike if alike[each] >= best - MAX_SIMILARITY_GAP), key=lambda each: -alike[each])
    if best >= MIN_SIMILARITY and len(close) <= MAX_SUGGESTIONS:
        *others, last = map(repr, close)
        return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"
    return f"; there is {', '.join(sorted(names))}" if 0 < len(names) <= MAX_LISTED_NAMES else ""


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
