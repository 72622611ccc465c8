"""The registry: things are built from a kind and parameters, alike in Python, TOML, JSON and on the command line."""

import dataclasses
import importlib
import inspect
import pkgutil
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import RLock
from typing import Any, NamedTuple, TypeVar, dataclass_transform, get_origin, get_type_hints

from rankloop.core import protocols
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.core.registry.specs import check_arguments, nearest, parse_spec

T = TypeVar("T")
Spec = Mapping[str, Any]


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
        fields, hints = [field for field in dataclasses.fields(self.cls) if field.init], get_type_hints(self.cls)
        parameters = [{"name": field.name, "type": str(hints[field.name])} | _default(field) for field in fields]
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
        _entries[entry.category, kind] = entry
        _of_class[cls] = entry
        check_arguments(cls, _build_nested)
        _inherit_docstrings(cls, _categories[entry.category])
        return cls

    return enter


def unregister(kind: str, category: str) -> None:
    """Remove a kind from the registry.

    Args:
      kind: The kind.
      category: Its category.
    """
    _of_class.pop(_entries.pop((category, kind)).cls, None)


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
    return {_plural(category): [entry.as_table() for entry in entries(category)] for category in categories()}


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
        entry = _entries.get((category, kind)) or _import_by_name(kind, category)
        if entry is not None:
            return entry
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


def _build_nested(value: Any, annotation: Any) -> Any:
    """Return the object of a spec where the annotation is the protocol of a category, else None."""
    expected = get_origin(annotation) or annotation
    family = next((name for name, protocol in _categories.items() if protocol is expected), None)
    return build(value, family) if family else None


def _import_by_name(kind: str, category: str) -> Entry | None:
    """Import the modules that are named after a kind, which is much quicker than to import all that register things."""
    with _importing:
        for package in list(_waiting) if kind.isidentifier() else ():
            if find_spec(f"rankloop.{package}.{kind}") is not None:
                importlib.import_module(f"rankloop.{package}.{kind}")
            if (category, kind) in _entries:
                break
    return _entries.get((category, kind))


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
            _import_installed(_groups.pop())


def _import_installed(group: str) -> None:
    """Import the modules that installed packages name as entry points; warn of those that fail."""
    for point in entry_points(group=group):
        try:
            point.load()
        except Exception as error:  # modules of others may raise anything
            owner = point.dist.name if point.dist is not None else point.name
            message = f"{point.value} of {owner}, which registers things with rankloop, cannot be imported: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _category_of(cls: type) -> str:
    methods = {name for name in dir(cls) if callable(getattr(cls, name, None))}
    fits = [name for name, protocol in _categories.items() if methods.issuperset(_methods(protocol))]
    if len(fits) != 1:
        raise InvalidInput(f"{cls.__name__} has the methods of {fits or 'no category'}; name its category")
    return fits[0]


def _inherit_docstrings(cls: type, protocol: type) -> None:
    """Give methods of a class that say nothing of their own the docstrings of its category's protocol."""
    for name, declared in inspect.getmembers(protocol):
        method = getattr(cls, name, None)
        if not name.startswith("_") and method is not None and method.__doc__ is None:
            method.__doc__ = declared.__doc__


def _methods(protocol: type) -> Iterator[str]:
    for base in protocol.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, types.FunctionType) and (name == "__call__" or not name.startswith("_")):
                yield name


def _plural(category: str) -> str:
    if category.endswith(("feedback", "interleaving")):
        return category
    return category.removesuffix("y") + ("ies" if category.endswith("y") else "s")


def _default(field: dataclasses.Field[Any]) -> dict[str, Any]:
    value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    if value is dataclasses.MISSING:
        return {}
    return {"default": spec_of(value) if dataclasses.is_dataclass(value) else value}
