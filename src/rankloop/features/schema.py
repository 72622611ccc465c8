"""A schema: the fields of items and of whoever asks, their kinds, and which of them are crossed."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import build, spec_of
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Problem
from rankloop.features.hashed_columns import MAX_CROSS_FIELDS, NAME_SEPARATOR
from rankloop.features.kinds import HALF_CHARACTER, told

BITS = 20
MIN_BITS, MAX_BITS = 4, 26
MAX_FIELDS, MAX_CROSSES, MAX_NAME = 10_000, 1_000, 128
MAX_DENSE = 100_000  # numbers of an item, in vectors and on declared scales
STRANGE = re.compile(rf"[*{NAME_SEPARATOR}]|{HALF_CHARACTER.pattern}")  # in a name
PARTS = ("features", "context", "crosses", "bits")

Fields = Mapping[str, Any]


class InvalidSchema(InvalidInput):
    """A schema that cannot be; `part` is the part of it that is wrong."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True)
class Schema:
    """Fields of the items (`features`) and of whoever asks (`context`), by name, each with its kind; and `crosses`.

    >>> schema = Schema({"price": "number", "brand": "category"}, {"segment": "category"}, ["segment*brand"])
    >>> schema.problem(shown=10).n_hashed == 2**schema.bits
    True

    A kind is one of number, category, words, id, flag, date, `vector(size=64)`; a table says more,
    `{"kind": "number", "scale": "log"}`. A cross joins two or three fields, one of them of the items: it has a column
    for each pair of values. A context field has to be in a cross, as it is the same for all items of a list. There are
    2^`bits` hashed columns; the upper half is for ids and crosses with them.
    """

    features: Fields = field(default_factory=dict)
    context: Fields = field(default_factory=dict)
    crosses: tuple[str, ...] = ()
    bits: int = BITS
    version: int = 1  # counts the changes of a live schema
    slots: Mapping[str, int] = field(default_factory=dict)  # where the numbers of a field begin; never given away
    retired: Fields = field(default_factory=dict)  # what was removed: a name keeps its kind

    def __post_init__(self) -> None:
        for part in ("features", "context", "retired"):
            object.__setattr__(self, part, _built(getattr(self, part), part))
        object.__setattr__(self, "crosses", tuple(_texts(self.crosses)))
        self._check_names()
        self._check_crosses()
        if type(self.bits) is not int or not MIN_BITS <= self.bits <= MAX_BITS:
            raise InvalidSchema("bits", f"bits must be from {MIN_BITS} to {MAX_BITS}, got {told(self.bits)}")
        if type(self.version) is not int or self.version < 1:
            raise InvalidInput(f"a schema's version is a whole number from 1, got {told(self.version)}")
        object.__setattr__(self, "slots", self._slots())

    @property
    def n_hashed(self) -> int:
        return int(2**self.bits)

    @property
    def n_dense(self) -> int:
        """How many numbers every item has, those of removed fields among them."""
        return max((first + self._field(name).size for name, first in self.slots.items()), default=0)

    def problem(self, **known: Any) -> Problem:
        """The problem of a learner on these features."""
        return Problem(self.n_hashed + self.n_dense, n_hashed=self.n_hashed, **known)

    def slot(self, name: str) -> int:
        """Where the one number of a field stands in the dense block."""
        if name not in self.features or self.features[name].size != 1:
            known = [known for known, kind in self.features.items() if kind.size == 1]
            raise InvalidInput(
                f"{name!r:.60} must be a number of declared scale, as in "
                f'{{{name!r:.60}: {{"kind": "number", "scale": "linear"}}}}{nearest(str(name), known)}'
            )
        return self.slots[name]

    def evolved(
        self,
        *,
        features: Fields | None = None,
        context: Fields | None = None,
        crosses: Iterable[str] = (),
        remove: Iterable[str] = (),
    ) -> "Schema":
        """The next version, with these fields and crosses added and those of `remove` (names or crosses) removed.

        What is new begins at 0; what was removed leaves sight and is found again if it comes back. A field keeps its
        kind for ever: another kind needs another name.
        """
        removed = list(_texts(remove))
        kept_crosses = {sorted_cross(cross): cross for cross in self.crosses}
        gone = {name for name in removed if name in self.features or name in self.context}
        for name in removed:
            if name not in gone and kept_crosses.pop(sorted_cross(name), None) is None:
                known = [*self.features, *self.context, *self.crosses]
                raise InvalidInput(f"there is no field or cross {name!r} to remove{nearest(name, known)}")
        added = {"features": _built(features or {}, "features"), "context": _built(context or {}, "context")}
        for name, kind in [*added["features"].items(), *added["context"].items()]:
            self._check_kept(name, kind, gone)
        left = [cross for cross in kept_crosses.values() if not gone.intersection(cross.split("*"))]
        retired = dict(self.retired) | {name: self._field(name) for name in gone}
        new_features = {name: kind for name, kind in self.features.items() if name not in gone} | added["features"]
        new_context = {name: kind for name, kind in self.context.items() if name not in gone} | added["context"]
        for name in [*new_features, *new_context]:
            retired.pop(name, None)
        new = replace(
            self,
            features=new_features,
            context=new_context,
            crosses=(*left, *_texts(crosses)),
            version=self.version + 1,
            retired=retired,
        )
        if new == replace(self, version=new.version):
            raise InvalidInput("nothing is added or removed")
        return new

    def to_plain(self) -> dict[str, Any]:
        """Tables and lists, from which `from_plain` makes the same again."""
        plain: dict[str, Any] = {part: _plain(getattr(self, part)) for part in ("features", "context")}
        plain |= {"crosses": list(self.crosses), "bits": self.bits}
        if self.version > 1:
            plain |= {"version": self.version, "slots": dict(self.slots), "retired": _plain(self.retired)}
        return plain

    @classmethod
    def from_plain(cls, plain: Any) -> "Schema":
        if not isinstance(plain, Mapping):
            raise InvalidInput(f"a schema is a table with {', '.join(PARTS)}, got {plain!r:.60}")
        known = (*PARTS, "version", "slots", "retired")
        for name in plain:
            if name not in known:
                raise InvalidInput(f"a schema has no part {name!r}{nearest(str(name), PARTS)}")
        return cls(**plain)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """The schema in a file, as `--schema shop.toml` takes it."""
        try:
            return cls.from_plain(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise NotFound(f"there is no file {str(path)!r}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput(f"{path}: {error}") from None
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    def to_toml(self) -> str:
        """What `from_toml` reads."""
        lines = [f"bits = {self.bits}", f"crosses = {_toml(list(self.crosses))}"]
        for part in ("features", "context"):
            lines += ["", f"[{part}]"]
            lines += [f"{_toml(name)} = {_toml(kind)}" for name, kind in _plain(getattr(self, part)).items()]
        return "\n".join(lines) + "\n"

    def _field(self, name: str) -> Any:
        return self.features.get(name) or self.context.get(name) or self.retired[name]

    def _slots(self) -> dict[str, int]:
        """Where the numbers of each field begin: as they were, new ones at the end."""
        slots = {}
        if not isinstance(self.slots, Mapping):
            raise InvalidInput(f"slots are a table of whole numbers by name, got {told(self.slots)}")
        for name, first in self.slots.items():
            known = name in self.features or name in self.retired
            if not known or type(first) is not int or not 0 <= first < MAX_DENSE:
                raise InvalidInput(f"slots: {name!r:.60} cannot begin at {told(first)}")
            slots[name] = first
        end = max((first + self._field(name).size for name, first in slots.items()), default=0)
        for name, kind in self.features.items():
            if kind.size and name not in slots:
                slots[name] = end
                end += kind.size
        if end > MAX_DENSE:
            raise InvalidInput(f"{end} numbers in vectors and on declared scales; at most {MAX_DENSE} are taken")
        taken = sorted((first, self._field(name).size) for name, first in slots.items())
        if any(first + size > after for (first, size), (after, _) in pairwise(taken)):
            raise InvalidInput("slots: two fields share a number")
        return slots

    def _check_names(self) -> None:
        names = [*self.features, *self.context]
        if not self.features:
            raise InvalidInput("a schema needs at least one feature of the items")
        if len(names) > MAX_FIELDS:
            raise InvalidInput(f"{len(names)} fields; at most {MAX_FIELDS} are taken")
        for name in names:
            if not name or len(name) > MAX_NAME or STRANGE.search(name) or name != name.strip():
                raise InvalidInput(f"{name!r:.60} is no name of a field: 1 to {MAX_NAME} characters, none of them *")
        twice = [name for name in self.context if name in self.features]
        if twice:
            raise InvalidInput(f"{twice[0]!r} is a feature and a context field: crosses could not tell them apart")
        for name, kind in self.context.items():
            if kind.size:
                raise InvalidSchema(
                    "context", f"context {name!r}: vectors and declared scales are for items; use a plain number"
                )

    def _check_crosses(self) -> None:
        if len(self.crosses) > MAX_CROSSES:
            raise InvalidSchema("crosses", f"{len(self.crosses)} crosses; at most {MAX_CROSSES} are taken")
        seen, crossed = set(), set()
        for cross in self.crosses:
            names = cross.split("*")
            if not 2 <= len(names) <= MAX_CROSS_FIELDS or len(set(names)) != len(names):
                raise InvalidSchema(
                    "crosses", f'the cross {cross!r} must join two or three different fields, as in "segment*brand"'
                )
            for name in names:
                if name not in self.features and name not in self.context:
                    known = [*self.features, *self.context]
                    raise InvalidSchema(
                        "crosses", f"the cross {cross!r} has the field {name!r}, which is not one{nearest(name, known)}"
                    )
            if not any(name in self.features for name in names):
                raise InvalidSchema(
                    "crosses", f"the cross {cross!r} has no field of the items: it could not change their order"
                )
            vectors = [name for name in names if spec_of(self._field(name))["kind"] == "vector"]
            if vectors:
                raise InvalidSchema(
                    "crosses", f"the cross {cross!r}: a vector such as {vectors[0]!r} cannot be crossed"
                )
            if sorted_cross(cross) in seen:
                raise InvalidSchema("crosses", f"the cross {cross!r} is given twice")
            seen.add(sorted_cross(cross))
            crossed.update(names)
        idle = [name for name in self.context if name not in crossed]
        if idle:
            example = f"{idle[0]}*{next(iter(self.features))}"
            raise InvalidInput(
                f"the context field {idle[0]!r} is in no cross: being the same for all items it could not change their "
                f"order; cross it with a field of the items, as in crosses = [{example!r}]"
            )

    def _check_kept(self, name: str, kind: Any, gone: set[str]) -> None:
        known = self.retired.get(name) or self.features.get(name) or self.context.get(name)
        if known is None:
            return
        if (name in self.features or name in self.context) and name not in gone:
            raise InvalidInput(f"there is a field {name!r} already; another kind needs another name")
        if known != kind:
            raise InvalidInput(f"{name!r} was a {spec_of(known)['kind']} before; another kind needs another name")


def sorted_cross(cross: str) -> tuple[str, ...]:
    """A cross whichever way it is written."""
    return tuple(sorted(cross.split("*")))


def _built(fields: Any, part: str) -> dict[str, Any]:
    if isinstance(fields, str) or not isinstance(fields, Mapping):
        raise InvalidSchema(
            part, f'{part} are a table of kinds by name, as in {{"price": "number"}}, got {fields!r:.60}'
        )
    return {name: _kind(name, kind, part) for name, kind in fields.items()}


def _kind(name: Any, kind: Any, part: str) -> Any:
    if not isinstance(name, str):
        raise InvalidSchema(part, f"{part}: names are texts, got {name!r:.60}")
    try:
        return build(kind, "field")
    except InvalidInput as error:
        raise InvalidSchema(part, f"{part} {name!r:.60}: {error}") from None


def _texts(values: Any) -> list[str]:
    try:
        found = None if isinstance(values, str) else list(values)
    except TypeError:  # nothing to go through
        found = None
    if found is None:
        raise InvalidSchema("crosses", f"crosses and names are a list of texts, got {values!r:.60}")
    if not all(isinstance(text, str) for text in found):
        raise InvalidSchema("crosses", f"crosses and names are texts, got {found!r:.80}")
    return [re.sub(r"\s*\*\s*", "*", text.strip()) for text in found]


def _plain(fields: Fields) -> dict[str, Any]:
    """Kinds as short as they can be."""
    return {name: _short(kind) for name, kind in fields.items()}


def _short(kind: Any) -> Any:
    spec = spec_of(kind)
    plain = {name: value for name, value in spec.items() if name == "kind" or value != _defaults(kind).get(name)}
    return plain["kind"] if len(plain) == 1 else plain


def _defaults(kind: Any) -> dict[str, Any]:
    return {name: part.default for name, part in type(kind).__dataclass_fields__.items()}


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(name)} = {_toml(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", text) + '"'
    return repr(value)
