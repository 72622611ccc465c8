"""The contracts for every registered class: a recipe is a value that a spec describes."""

import dataclasses
import json
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rankloop.contracts.cases import ContractViolation, contract, require
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entry_of, spec_of

TRIED_VALUES: dict[Any, list[Any]] = {
    bool: [True, False],
    int: [0, 1, 2, 7],
    float: [0.0, 0.5, 1.0, 3.25],
    str: ["", "other"],
    type(None): [None],
}


@contract("compute nothing into parameters in `__post_init__`: validate them and leave them as they were given")
def check_spec(thing: Any) -> None:
    """The spec of a recipe, as JSON, builds the same recipe again."""
    spec = spec_of(thing)
    again = _rebuilt(thing)
    require(again == thing and hash(again) == hash(thing), f"{spec} builds {again}")
    require(spec_of(again) == spec, f"{spec} becomes {spec_of(again)}")


@contract("annotate parameters with int, float, str, bool, Literal, tuples of them, or a protocol such as Measure")
def check_parameters(thing: Any) -> None:
    """Any accepted value of a parameter survives the way to a spec and back."""
    hints = get_type_hints(type(thing))
    for field in dataclasses.fields(thing):
        for value in _others(getattr(thing, field.name), hints[field.name]) if field.init else ():
            try:
                changed = dataclasses.replace(thing, **{field.name: value})
            except InvalidInput:
                continue
            again = _rebuilt(changed)
            require(again == changed, f"{spec_of(changed)} builds {again}")


@contract("give a parameter that may be None the default None")
def check_none(thing: Any) -> None:
    """None is the default wherever it is allowed, because a spec cannot contain it."""
    hints = get_type_hints(type(thing))
    for field in dataclasses.fields(thing):
        if field.init and type(None) in get_args(hints[field.name]):
            require(
                field.default is None, f"a spec cannot contain {field.name} = None, which would become {field.default}"
            )


@contract("begin the class with a docstring: one line that ends with a full stop, then an empty one")
def check_docstring(thing: Any) -> None:
    """The docstring begins with one line, which `rankloop list` shows."""
    summary, lines = entry_of(thing).summary, (type(thing).__doc__ or "").split("\n")
    require(len(summary) > 10 and summary.endswith("."), f"the first line of the docstring is {summary!r}")
    require(len(lines) == 1 or not lines[1].strip(), "the summary goes on in a second line")


@contract("write 1.0 where the annotation says float")
def check_defaults(thing: Any) -> None:
    """Defaults are of the annotated type."""
    hints = get_type_hints(type(thing))
    for field in dataclasses.fields(thing):
        if hints[field.name] in (int, float, bool, str) and field.default is not dataclasses.MISSING:
            kept = type(field.default) is hints[field.name]
            require(kept, f"{field.name}: {hints[field.name].__name__} = {field.default!r}")


@contract("let `@register` make the dataclass, or write `@dataclass(frozen=True, kw_only=True)`")
def check_keywords(thing: Any) -> None:
    """Parameters are given by name, and unknown ones are refused."""
    cls: Any = type(thing)
    try:
        cls(no_such_parameter=1)
    except InvalidInput as error:
        require("no parameter 'no_such_parameter'" in str(error), f"an unknown parameter is refused with: {error}")
    else:
        raise ContractViolation("an unknown parameter was accepted")
    try:
        cls("positional")
    except TypeError:
        return
    raise ContractViolation("a parameter was accepted by its position")


@contract("let `@register` make the dataclass, or write `@dataclass(frozen=True, kw_only=True)`")
def check_frozen(thing: Any) -> None:
    """A recipe cannot be changed."""
    for field in dataclasses.fields(thing):
        try:
            setattr(thing, field.name, getattr(thing, field.name))
        except dataclasses.FrozenInstanceError:
            continue
        raise ContractViolation(f"{field.name} could be set")


def _rebuilt(thing: Any) -> Any:
    return build(json.loads(json.dumps(spec_of(thing))), entry_of(thing).category)


def _others(value: Any, annotation: Any) -> list[Any]:
    options = [annotation, *get_args(annotation)]
    listed = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    tuples = [(), (0.5, 1.5)] if isinstance(value, tuple) else []
    return [*listed, *[choice for option in options for choice in TRIED_VALUES.get(option, [])], *tuples]
