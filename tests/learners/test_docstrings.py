"""Every registered learner documents its parameters and has an example that runs; so do the surrogates."""

import dataclasses
import doctest
import importlib
import pkgutil
import re

import pytest

import rankloop.learners
import rankloop.surrogates
from rankloop.core.registry import Entry, entries

LEARNERS = [entry for entry in entries("learner") if entry.cls.__module__.startswith("rankloop.learners")]
MODULES = [
    module.name
    for package in (rankloop.learners, rankloop.surrogates)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.ispkg
]


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_every_parameter_is_documented(entry: Entry):
    text = entry.cls.__doc__ or ""
    arguments = re.search(r"\n    Args:\n(.*?)(\n\n|$)", text, re.DOTALL)
    documented = set(re.findall(r"^      (\w+): ", arguments.group(1), re.MULTILINE)) if arguments else set()
    assert documented == {field.name for field in dataclasses.fields(entry.cls)}


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_every_learner_has_an_example_that_ends_in_a_number(entry: Entry):
    (*_, last) = doctest.DocTestParser().get_examples(entry.cls.__doc__ or "")
    assert re.fullmatch(r"-?\d+(\.\d+)?\n", last.want)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
