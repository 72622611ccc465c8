"""The registry: things are built from a kind and parameters, alike in Python, TOML, JSON and on the command line."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import RLock
from typing import Any, NamedTuple, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np

from rankloop.core import protocols
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.core.registry.specs import nearest, parse_spec

T = TypeVar("T")
Spec = Mapping[str, Any]
Examples = tuple[Spec, ...]  # parameters with which a class is documented and tested
INTEGER_LIMIT = 2**63  # integers of kernels are below this
TYPE_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class UnknownKind(InvalidInput, NotFound):
    """A kind that is not registered."""


class Entry(NamedTuple):
    """A registered class."""

    kind: str
    category: str
    cls: type

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    def as_table(self) -> dict[str, Any]:
        """Return kind, summary, and the name, type and default of each parameter."""
        parameters, hints = [], get_type_hints(self.cls)
        for field in dataclasses.fields(self.cls):
            value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
            plain = {} if value is dataclasses.MISSING else {"default": _plain(value)}
            if field.init:
                parameters.append({"name": field.name, "type": str(hints[field.name])} | plain)
        return {"kind": self.kind, "summary": self.summary, "parameters": parameters}


_categories: dict[str, type] = {}
_entries: dict[tuple[str, str], Entry] = {}
_of_class: dict[type, Entry] = {}
# Packages whose modules register things; they are imported when something is first looked up.
_waiting = ["features", "measures", "surrogates", "simulate.users", "simulate.streams", "interleaving", "learners"]
_waiting += ["learners.wrappers", "simulate", "games", "training", "training.risks", "bandits"]
_groups = ["rankloop"]  # entry points with which installed packages name modules that register things
_importing = RLock()


def category(name: str, protocol: type) -> None:
    """Declare a category.

    Args:
      name: Its name.
      protocol: The protocol of its members, which stands for it in annotations.
    """
    _categories[name] = protocol


category("learner", protocols.Learner)
category("measure", protocols.Measure)
category("surrogate", protocols.Surrogate)
category("feedback", protocols.FeedbackModel)
category("stream", protocols.Stream)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def register(kind: str, category: str | None = None) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a class a frozen, keyword-only dataclass and registers it.

    Args:
      kind: The name in specs.
      category: The category; None: the one whose protocol the class has.

    Raises:
      Conflict: If another class is registered by this kind.
      InvalidInput: If the dataclass is not frozen, or the category is ambiguous.
    """

    def enter(cls: type[T]) -> type[T]:
        if "__dataclass_params__" not in vars(cls):
            cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise InvalidInput(f"{cls.__name__} must be a frozen dataclass")
        entry = Entry(kind, category or _category_of(cls), cls)
        other = _entries.get((entry.category, kind))
        if other and other.cls.__qualname__ != cls.__qualname__:
            raise Conflict(f"{entry.category} {kind!r} is already {other.cls.__module__}.{other.cls.__qualname__}")
        if isinstance(getattr(cls, "accepts", None), type):
            raise InvalidInput(f"`accepts` of {cls.__name__} must be a tuple of types")
        _entries[entry.category, kind] = entry
        _of_class[cls] = entry
        _check_arguments(cls)
        if entry.category == "measure" and cls.__str__ is object.__str__:
            cls.__str__ = _measure_name  # type: ignore[method-assign]
        for name, declared in inspect.getmembers(_categories[entry.category]):  # docstrings are inherited
            method = getattr(cls, name, None)
            if not name.startswith("_") and method is not None and method.__doc__ is None:
                method.__doc__ = declared.__doc__
        return cls

    return enter


def entries(category: str | None = None) -> list[Entry]:
    """Return all entries, or those of a category, sorted by category and kind."""
    _import_waiting()
    matching_entries = [entry for entry in _entries.values() if category in (None, entry.category)]
    return sorted(matching_entries, key=lambda entry: (entry.category, entry.kind.lower()))


def categories() -> list[str]:
    """Return the names of the categories with members."""
    return sorted({entry.category for entry in entries()})


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return everything registered by the plural of its category, as `rankloop list --json` prints it."""
    plurals = {"feedback": "feedback", "interleaving": "interleaving", "delivery": "deliveries"}
    return {plurals.get(name, f"{name}s"): [entry.as_table() for entry in entries(name)] for name in categories()}


def build(spec: Any, category: str | None = None) -> Any:
    """Build what a spec describes.

    Args:
      spec: A dict `{"kind": "3pr", "swap": 0.5}`, or a text: `"3pr"`, `"3pr(swap=0.5)"`, `"nDCG@10"`. A registered
        object is returned as it is.
      category: The category, where a kind is in more than one.

    Raises:
      InvalidInput: If the kind or a parameter is unknown or wrong.

    Examples:
      >>> build("nDCG@10").cutoff
      10
    """
    if type(spec) in _of_class:
        return spec
    table = parse_spec(spec) if isinstance(spec, str) else spec
    if not isinstance(table, Mapping):
        raise InvalidInput(f"a spec must be a dict with a kind, or a string, not {spec!r}")
    if not isinstance(table.get("kind"), str):
        raise InvalidInput(f'the spec {dict(table)!r} lacks its kind, as in {{kind = "3pr"}}')
    entry = lookup(table["kind"], category)
    try:
        return entry.cls(**{str(name): value for name, value in table.items() if name != "kind"})
    except InvalidInput as error:
        raise InvalidInput(f"{entry.category} {entry.kind!r}: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{entry.category} {entry.kind!r}: it is nested too deeply") from None


def spec_of(thing: Any) -> dict[str, Any]:
    """Return the dict from which `build` makes an equal object; raise `InvalidInput` if its class is not registered."""
    entry = _of_class.get(type(thing))
    if entry is None:
        raise InvalidInput(f"{type(thing).__name__} is not registered, so it has no spec")
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.init}
    return {"kind": entry.kind} | {name: _plain(value) for name, value in fields.items() if value is not None}


def entry_of(thing: Any) -> Entry:
    """Return the entry of an object or its class."""
    return _of_class[thing if isinstance(thing, type) else type(thing)]


def lookup(kind: str, category: str | None = None) -> Entry:
    """Return the entry of a kind.

    Args:
      kind: The kind.
      category: Its category; None: the kind must be in one category only.
    """
    if isinstance(category, str):
        with _importing:  # modules named after the kind first: much quicker than all that register things
            for package in list(_waiting) if (category, kind) not in _entries and kind.isidentifier() else ():
                if find_spec(f"rankloop.{package}.{kind}") is not None:
                    importlib.import_module(f"rankloop.{package}.{kind}")
                if (category, kind) in _entries:
                    break
        if (category, kind) in _entries:
            return _entries[category, kind]
    _import_waiting()
    if category is not None and (not isinstance(category, str) or category not in _categories):
        raise InvalidInput(f"no category {category!r}{nearest(str(category), _categories)}")
    matches = [entry for entry in _entries.values() if entry.kind == kind and category in (None, entry.category)]
    if len(matches) > 1:
        raise InvalidInput(f"{kind!r} is a {' and a '.join(e.category for e in matches)}; name the category")
    if not matches:
        kinds = [entry.kind for entry in entries(category)]
        raise UnknownKind(f"no {category or 'kind'} {kind!r}{nearest(kind, kinds) or '; `rankloop list` shows all'}")
    return matches[0]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return spec_of(value) if type(value) in _of_class else value


def _import_waiting() -> None:
    with _importing:
        while _waiting:
            name = _waiting[0]
            package = importlib.import_module(f"rankloop.{name}")
            for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
            if name in _waiting:  # a module may have looked something up while it was imported
                _waiting.remove(name)
        while _groups:
            for point in entry_points(group=_groups.pop()):
                try:
                    point.load()
                except Exception as error:  # modules of others may raise anything
                    owner = point.dist.name if point.dist is not None else point.name
                    message = f"{point.value} of {owner}, which registers things with rankloop, cannot be imported"
                    warnings.warn(f"{message}: {error}", RuntimeWarning, stacklevel=2)


def _category_of(cls: type) -> str:
    """Return the only category of whose protocol a class has all methods."""
    methods, fits = {name for name in dir(cls) if callable(getattr(cls, name, None))}, []
    most_shared, advice = 0, "name its category, as in @register('name', 'learner')"
    for category, protocol in _categories.items():
        members = [member for base in protocol.__mro__ for member in vars(base).items()]
        functions = {name for name, value in members if isinstance(value, types.FunctionType)}
        declared = {name for name in functions if name == "__call__" or not name.startswith("_")}
        if declared <= methods:
            fits.append(category)
        elif not fits and len(declared & methods) > most_shared:
            most_shared, advice = len(declared & methods), f"a {category} needs {', '.join(sorted(declared - methods))}"
    if len(fits) != 1:
        advice = "name its category, as in @register('name', 'learner')" if fits else advice
        raise InvalidInput(f"{cls.__name__} has the methods of {fits or 'no category'}; {advice}")
    return fits[0]


def _measure_name(measure: Any) -> str:
    """Return the name of a measure, which parses back."""
    fields = [field for field in dataclasses.fields(measure) if field.name != "cutoff"]
    changed = [field.name for field in fields if getattr(measure, field.name) != field.default]
    options = ", ".join(f"{name}={getattr(measure, name)!r}" for name in changed)
    cutoff = getattr(measure, "cutoff", None)
    return entry_of(measure).kind + (f"({options})" if options else "") + (f"@{cutoff}" if cutoff else "")


def _check_arguments(cls: type) -> None:
    """Make a dataclass convert and check its constructor arguments by their annotations."""
    construct = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def init(self: Any, /, **arguments: Any) -> None:
        hints = _hints(cls)
        for name, value in arguments.items():
            if name not in hints:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, hints)}")
            arguments[name] = _convert(value, hints[name], name)
        for field in dataclasses.fields(cls):
            is_required = field.init and field.default is field.default_factory is dataclasses.MISSING
            if is_required and field.name not in arguments:
                raise InvalidInput(f"the parameter {field.name!r} is missing")
        construct(self, **arguments)

    cls.__init__ = init  # type: ignore[misc]


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _convert(value: Any, annotation: Any, name: str) -> Any:
    """Return a value as the annotated type; checks that come with the type are made, see `core.checks`."""
    if isinstance(value, np.generic):
        value = value.item()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        value = _convert(value, arguments[0], name)
        for check in annotation.__metadata__:
            check(**{name: value})
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        reasons = []
        for option in arguments:
            if option is not type(None):
                try:
                    return _convert(value, option, name)
                except InvalidInput as error:
                    reasons.append(str(error))
        raise InvalidInput("; or ".join(reasons))
    if origin is typing.Literal:
        if value not in arguments:
            raise InvalidInput(f"{name} = {value!r} is not possible{nearest(str(value), arguments)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name} must be a list, got {value!r}")
        return tuple(_convert(part, arguments[0], name) for part in value)
    for category, protocol in _categories.items():
        if protocol is (origin or annotation):
            return build(value, category)
    if type(value) is int and abs(value) >= INTEGER_LIMIT:
        raise InvalidInput(f"{name} must be below 2⁶³")
    if annotation is float and type(value) is int:
        return float(value)
    if type(value) is not annotation:
        expected = TYPE_WORDS.get(annotation, f"of type {getattr(annotation, '__name__', annotation)}")
        raise InvalidInput(f"{name} must be {expected}, got {value!r}")
    return value
