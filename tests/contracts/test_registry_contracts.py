"""What holds for everything registered, whatever its category."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from tests.contracts.cases import examples_of

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Entry, build, entries, spec_of

each = pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.category}-{entry.kind}")


@each
def test_a_spec_builds_the_same_thing_again(entry: Entry):
    for thing in examples_of(entry.cls):
        spec = spec_of(thing)
        again = build(json.loads(json.dumps(spec)), entry.category)
        assert again == thing
        assert hash(again) == hash(thing)
        assert spec_of(again) == spec


@each
def test_every_parameter_survives_the_round_trip(entry: Entry):
    for thing in examples_of(entry.cls):
        for changed in neighbours(thing):
            again = build(json.loads(json.dumps(spec_of(changed))), entry.category)
            assert again == changed, f"{spec_of(changed)} builds {again}"


@each
def test_none_is_the_default_wherever_it_is_allowed(entry: Entry):
    hints = get_type_hints(entry.cls)
    for field in dataclasses.fields(entry.cls):
        if field.init and type(None) in get_args(hints[field.name]):
            assert field.default is None, f"a spec cannot say {field.name} = None, so it would become {field.default}"


def neighbours(thing: Any) -> Iterator[Any]:
    """The thing with each of its parameters in turn at other values, those that it accepts."""
    hints = get_type_hints(type(thing))
    for field in dataclasses.fields(thing):
        for value in others(getattr(thing, field.name), hints[field.name]) if field.init else ():
            try:
                yield dataclasses.replace(thing, **{field.name: value})
            except InvalidInput:
                continue


def others(value: Any, annotation: Any) -> list[Any]:
    """Values of the annotated type, and some around the present one."""
    options = [annotation, *get_args(annotation)]
    listed = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    around = {
        bool: [True, False],
        int: [0, 1, 2, 7],
        float: [0.0, 0.5, 1.0, 3.25],
        str: ["", "other"],
        type(None): [None],
    }
    plain = [choice for option in options for choice in around.get(option, [])]
    tuples = [(), (0.5, 1.5)] if isinstance(value, tuple) else []
    return [*listed, *plain, *tuples]


@each
def test_the_docstring_begins_with_one_plain_line(entry: Entry):
    lines = (entry.cls.__doc__ or "").split("\n")
    assert len(entry.summary) > 10, "what is it?"
    assert entry.summary.endswith("."), f"{entry.summary!r} does not end as a sentence"
    assert len(lines) == 1 or not lines[1].strip(), "the summary is one line, then an empty one"


@each
def test_defaults_are_of_the_annotated_type(entry: Entry):
    hints = get_type_hints(entry.cls)
    for field in dataclasses.fields(entry.cls):
        if hints[field.name] in (int, float, bool, str) and field.default is not dataclasses.MISSING:
            assert type(field.default) is hints[field.name], f"{field.name} = {field.default!r}"


@each
def test_parameters_are_keyword_only_and_known(entry: Entry):
    with pytest.raises(InvalidInput, match="no parameter 'no_such_parameter'"):
        entry.cls(no_such_parameter=1)
    with pytest.raises(TypeError):
        entry.cls("positional")


@each
def test_it_cannot_be_changed(entry: Entry):
    for thing in examples_of(entry.cls):
        for field in dataclasses.fields(thing):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(thing, field.name, None)
