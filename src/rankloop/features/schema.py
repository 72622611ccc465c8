"""Schemas: the fields of items and context with their kinds, and the crosses of fields."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import build, spec_of
from rankloop.core.registry.specs import nearest, toml_value
from rankloop.core.types import MAX_HASHED_BITS, Problem
from rankloop.features.hashed_columns import MAX_CROSS_FIELDS, NAME_SEPARATOR
from rankloop.features.kinds import UNPAIRED_SURROGATE, short_text

DEFAULT_BITS = 20
MIN_BITS, MAX_BITS = 4, MAX_HASHED_BITS
MAX_FIELDS, MAX_CROSSES, MAX_NAME = 10_000, 1_000, 128
MAX_DENSE = 100_000  # numbers of an item, in vectors and on declared scales
INVALID_IN_NAME = re.compile(rf"[*{NAME_SEPARATOR}]|{UNPAIRED_SURROGATE.pattern}")  # in a name
SCHEMA_PARTS = ("features", "context", "crosses", "bits")

Fields = Mapping[str, Any]


class InvalidSchema(InvalidInput):
    """A schema with a wrong part, which `part` names."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True)
class Schema:
    """The fields of items and context with their kinds, and the crosses of fields.

    A cross has a column for each combination of values of its fields. A context field must be in a cross, because it is
    the same for all items of a list. The upper half of the hashed columns is for ids and crosses with them.

    Args:
      features: The kinds of item fields by name: number, category, words, id, flag, date, `vector(size=64)`, or a dict
        as in `{"kind": "number", "scale": "log"}`.
      context: The kinds of fields of the user or the request by name.
      crosses: Two or three fields each, at least one of the items, as in `"segment*brand"`.
      bits: There are 2^bits hashed columns.
      version: Counts the changes by `evolved`.
      slots: The positions of numbers in the dense block, which are never given away; set by `evolved`.
      retired: The kinds of removed fields, which their names keep; set by `evolved`.

    Examples:
      >>> schema = Schema({"price": "number", "brand": "category"}, {"segment": "category"}, ["segment*brand"])
      >>> schema.problem(shown=10).n_hashed == 2**schema.bits
      True
    """

    features: Fields = field(default_factory=dict)
    context: Fields = field(default_factory=dict)
    crosses: tuple[str, ...] = ()
    bits: int = DEFAULT_BITS
    version: int = 1
    slots: Mapping[str, int] = field(default_factory=dict)
    retired: Fields = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("features", "context", "retired"):
            object.__setattr__(self, part, _build_fields(getattr(self, part), part))
        object.__setattr__(self, "crosses", tuple(_texts(self.crosses)))
        self._check_names()
        self._check_crosses()
        if type(self.bits) is not int or not MIN_BITS <= self.bits <= MAX_BITS:
            raise InvalidSchema("bits", f"bits must be from {MIN_BITS} to {MAX_BITS}, got {short_text(self.bits)}")
        if type(self.version) is not int or self.version < 1:
            raise InvalidInput(f"a schema's version is a whole number from 1, got {short_text(self.version)}")
        object.__setattr__(self, "slots", self._slots())

    @property
    def n_hashed(self) -> int:
        """The number of hashed columns."""
        return int(2**self.bits)

    @property
    def n_dense(self) -> int:
        """The number of numbers per item, those of removed fields included."""
        return sum(self._field(name).size for name in self.slots)

    def problem(self, **sizes: Any) -> Problem:
        """Return the problem of a learner with these features; `sizes` are further fields of `Problem`."""
        return Problem(self.n_hashed + self.n_dense, n_hashed=self.n_hashed, **sizes)

    def slot(self, name: str) -> int:
        """Return the position of a scaled number in the dense block; raise `InvalidInput` for other fields."""
        if name not in self.features or self.features[name].size != 1:
            valid = [field for field, kind in self.features.items() if kind.size == 1]
            example = f'{{{name!r:.60}: {{"kind": "number", "scale": "linear"}}}}{nearest(str(name), valid)}'
            raise InvalidInput(f"{name!r:.60} must be a number of declared scale, as in {example}")
        return self.slots[name]

    def evolved(
        self,
        *,
        features: Fields | None = None,
        context: Fields | None = None,
        crosses: Iterable[str] = (),
        remove: Iterable[str] = (),
    ) -> "Schema":
        """Return the next version of the schema.

        Args:
          features: New item fields, kinds by name.
          context: New context fields, kinds by name.
          crosses: New crosses.
          remove: Names of fields, or crosses, to remove. A field that is added again must have its former kind.
        """
        fields = {**self.features, **self.context}
        crosses_left, removed = {sorted_cross(cross): cross for cross in self.crosses}, set[str]()
        for name in _texts(remove):
            if name in fields:
                removed.add(name)
            elif crosses_left.pop(sorted_cross(name), None) is None:
                valid = [*fields, *self.crosses]
                raise InvalidInput(f"there is no field or cross {name!r} to remove{nearest(name, valid)}")
        new_features, new_context = _build_fields(features or {}, "features"), _build_fields(context or {}, "context")
        added, former = {**new_features, **new_context}, fields | dict(self.retired)
        for name, kind in added.items():
            if name in fields and name not in removed:
                raise InvalidInput(f"there is a field {name!r} already; another kind needs another name")
            if former.get(name, kind) != kind:
                raise InvalidInput(
                    f"{name!r} was a {spec_of(former[name])['kind']} before; another kind needs another name"
                )
        remaining = [cross for cross in crosses_left.values() if not removed.intersection(cross.split("*"))]
        new = replace(
            self,
            features={name: kind for name, kind in self.features.items() if name not in removed} | new_features,
            context={name: kind for name, kind in self.context.items() if name not in removed} | new_context,
            crosses=(*remaining, *_texts(crosses)),
            version=self.version + 1,
            retired={name: former[name] for name in [*self.retired, *sorted(removed)] if name not in added},
        )
        if new == replace(self, version=new.version):
            raise InvalidInput("nothing is added or removed")
        return new

    def with_feature(self, name: str, kind: Any) -> "Schema":
        """Return a new schema with one more item field."""
        return Schema({**self.features, name: kind}, self.context, self.crosses, self.bits)

    def without(self, names: Collection[str]) -> "Schema":
        """Return a new schema without some fields and the crosses with them; itself without names."""
        fields = [*self.features, *self.context]
        if unknown := [name for name in names if name not in fields]:
            raise InvalidInput(f"--without {unknown[0]}: the schema has no such field{nearest(unknown[0], fields)}")
        parts = (self.features, self.context)
        features, context = ({name: kind for name, kind in part.items() if name not in names} for part in parts)
        crosses = tuple(cross for cross in self.crosses if not set(names).intersection(cross.split("*")))
        return Schema(features, context, crosses, self.bits) if names else self

    def to_plain(self) -> dict[str, Any]:
        """Return dicts and lists, which `from_plain` reads."""
        plain: dict[str, Any] = {part: _plain(getattr(self, part)) for part in ("features", "context")}
        plain |= {"crosses": list(self.crosses), "bits": self.bits}
        if self.version > 1:
            plain |= {"version": self.version, "slots": dict(self.slots), "retired": _plain(self.retired)}
        return plain

    @classmethod
    def from_plain(cls, plain: Any) -> "Schema":
        """Read what `to_plain` returns; raise `InvalidInput` for anything else."""
        if not isinstance(plain, Mapping):
            raise InvalidInput(f"a schema is a table with {', '.join(SCHEMA_PARTS)}, got {plain!r:.60}")
        for name in plain:
            if name not in (*SCHEMA_PARTS, "version", "slots", "retired"):
                raise InvalidInput(f"a schema has no part {name!r}{nearest(str(name), SCHEMA_PARTS)}")
        return cls(**plain)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema from a TOML file; raise `NotFound` or `InvalidInput`."""
        try:
            return cls.from_plain(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise NotFound(f"there is no file {str(path)!r}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, InvalidInput) as error:
            raise InvalidInput(f"{path}: {error}") from None

    def to_toml(self) -> str:
        """Return the text of a file for `from_toml`."""
        lines = [f"bits = {self.bits}", f"crosses = {toml_value(list(self.crosses))}"]
        for part in ("features", "context"):
            lines += ["", f"[{part}]"]
            lines += [f"{toml_value(name)} = {toml_value(kind)}" for name, kind in _plain(getattr(self, part)).items()]
        return "\n".join(lines) + "\n"

    def _field(self, name: str) -> Any:
        return self.features.get(name) or self.context.get(name) or self.retired[name]

    def _slots(self) -> dict[str, int]:
        """Return the first position of each field in the dense block; new fields come last."""
        if not isinstance(self.slots, Mapping) or not all(isinstance(first, int) for first in self.slots.values()):
            raise InvalidInput("slots are numbered by the schema itself: leave them out")
        slots, end, fields = dict[str, int](), 0, dict(self.retired) | dict(self.features)
        for name in dict.fromkeys([*sorted(self.slots, key=self.slots.__getitem__), *self.features]):
            first = self.slots.get(name, end)
            if name not in fields or type(first) is not int or first != end:
                raise InvalidInput(f"slots: {name!r:.60} cannot begin at {short_text(first)}")
            if fields[name].size:
                slots[name] = end
                end += fields[name].size
        if end > MAX_DENSE:
            raise InvalidInput(f"{end} numbers in vectors and on declared scales; at most {MAX_DENSE} are allowed")
        return slots

    def _check_names(self) -> None:
        names = [*self.features, *self.context]
        if not self.features:
            raise InvalidInput("a schema needs at least one feature of the items")
        if len(names) > MAX_FIELDS:
            raise InvalidInput(f"{len(names)} fields; at most {MAX_FIELDS} are allowed")
        for name in names:
            if not name or len(name) > MAX_NAME or INVALID_IN_NAME.search(name) or name != name.strip():
                raise InvalidInput(f"{name!r:.60} is not a name of a field: 1 to {MAX_NAME} characters, none of them *")
        twice = [name for name in self.context if name in self.features]
        if twice:
            raise InvalidInput(f"{twice[0]!r} is a feature and a context field: crosses could not tell them apart")
        for name, kind in self.context.items():
            if kind.size:
                fault = "vectors and declared scales are for items; use a plain number"
                raise InvalidSchema("context", f"context {name!r}: {fault}")

    def _check_crosses(self) -> None:
        if len(self.crosses) > MAX_CROSSES:
            raise InvalidSchema("crosses", f"{len(self.crosses)} crosses; at most {MAX_CROSSES} are allowed")
        earlier, crossed, valid = set(), set(), dict(self.features) | dict(self.context)
        for cross in self.crosses:
            names = cross.split("*")
            unknown = [name for name in names if name not in valid]
            if not 2 <= len(names) <= MAX_CROSS_FIELDS or len(set(names)) != len(names):
                fault = ' must join two or three different fields, as in "segment*brand"'
            elif unknown:
                fault = f" has the unknown field {unknown[0]!r}{nearest(unknown[0], valid)}"
            elif not any(name in self.features for name in names):
                fault = " has no field of the items: it could not change their order"
            elif vectors := [name for name in names if spec_of(self._field(name))["kind"] == "vector"]:
                fault = f": a vector such as {vectors[0]!r} cannot be crossed"
            elif sorted_cross(cross) in earlier:
                fault = " is given twice"
            else:
                earlier.add(sorted_cross(cross))
                crossed.update(names)
                continue
            raise InvalidSchema("crosses", f"the cross {cross!r}{fault}")
        idle = [name for name in self.context if name not in crossed]
        if idle:
            advice = f"add a cross with an item field, as in crosses = [{f'{idle[0]}*{next(iter(self.features))}'!r}]"
            fault = f"the context field {idle[0]!r} is in no cross, so it cannot change the order of items"
            raise InvalidInput(f"{fault}; {advice}")


def sorted_cross(cross: str) -> tuple[str, ...]:
    """Return the fields of a cross in alphabetical order."""
    return tuple(sorted(cross.split("*")))


def _build_fields(fields: Any, part: str) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        fault = f'are a table of kinds by name, as in {{"price": "number"}}, got {fields!r:.60}'
        raise InvalidSchema(part, f"{part} {fault}")
    kinds = {}
    for name, kind in fields.items():
        if not isinstance(name, str):
            raise InvalidSchema(part, f"{part}: names are texts, got {name!r:.60}")
        try:
            kinds[name] = build(kind, "field")
        except InvalidInput as error:
            raise InvalidSchema(part, f"{part} {name!r:.60}: {error}") from None
    return kinds


def _texts(values: Any) -> list[str]:
    is_list = isinstance(values, Iterable) and not isinstance(values, str) and getattr(values, "ndim", 1) != 0
    texts: list[Any] = list(values) if is_list else [None]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidSchema("crosses", f"crosses and names are a list of texts, got {values!r:.80}")
    return [re.sub(r"\s*\*\s*", "*", text.strip()) for text in texts]


def _plain(fields: Fields) -> dict[str, Any]:
    """Return kinds without their default parameters."""
    plain = {}
    for name, kind in fields.items():
        spec, parts = spec_of(kind), type(kind).__dataclass_fields__
        changed = {part: value for part, value in spec.items() if part == "kind" or value != parts[part].default}
        plain[name] = changed if len(changed) > 1 else spec["kind"]
    return plain


def schema_of(features: Any, context: Any, crosses: Any) -> Schema | None:
    """Return the schema of features by kind; None where they are a list of names.

    Args:
      features: A schema, kinds by name, or a list of names.
      context: Kinds by name.
      crosses: Combinations of context and item fields.
    """
    parts = (context, crosses)
    no_context, no_crosses = (isinstance(part, Sequence | Mapping) and part != "" and not part for part in parts)
    if isinstance(features, Schema):
        if not no_context or not no_crosses:
            raise InvalidInput("a Schema has its own context and crosses; leave out context= and crosses=")
        return features
    if isinstance(features, Mapping):
        return Schema(features, {} if no_context else context, () if no_crosses else crosses)
    if isinstance(context, Mapping) or not no_crosses:
        raise InvalidInput('crosses and kinds of a context need features by kind, too, as in {"price": "number"}')
    return None
