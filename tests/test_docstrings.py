"""Docstrings: the examples run and print what they say, and every learner documents its parameters with an example."""

import ast
import dataclasses
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import rankloop
from rankloop.core.registry import Entry, entries

SOURCE = Path(rankloop.__file__).parent
LEARNERS = [entry for entry in entries("learner") if entry.cls.__module__.startswith("rankloop.learners")]
FILES_WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", FILES_WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_examples_print_what_they_say(path: Path) -> None:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    failures, attempts = doctest.testmod(module)
    assert attempts > 0
    assert failures == 0


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_every_parameter_is_documented(entry: Entry) -> None:
    text = entry.cls.__doc__ or ""
    arguments = re.search(r"\n    Args:\n(.*?)(\n\n|$)", text, re.DOTALL)
    documented = set(re.findall(r"^      (\w+): ", arguments.group(1), re.MULTILINE)) if arguments else set()
    assert documented == {field.name for field in dataclasses.fields(entry.cls)}


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_every_learner_has_an_example_that_ends_in_a_number(entry: Entry) -> None:
    (*_, last) = doctest.DocTestParser().get_examples(entry.cls.__doc__ or "")
    assert re.fullmatch(r"-?\d+(\.\d+)?\n", last.want)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.category}-{entry.kind}")
def test_registered_classes_have_the_docstrings_of_their_protocol(entry: Entry) -> None:
    methods = {name: value for name, value in vars(entry.cls).items() if callable(value) or isinstance(value, property)}
    assert [name for name, method in methods.items() if not name.startswith("_") and not method.__doc__] == []


def test_only_methods_of_a_protocol_go_without_a_docstring() -> None:
    """Ruff does not ask for docstrings of methods where classes are registered, so this does."""
    trees = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    classes = [
        (path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    of_protocols = {method.name for _, node in classes if _is_protocol(node) for method in _public_methods(node)}
    silent = [
        f"{path}:{method.lineno}: {node.name}.{method.name}"
        for path, node in classes
        for method in _public_methods(node)
        if not node.name.startswith("_") and not ast.get_docstring(method) and method.name not in of_protocols
    ]
    assert silent == []


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("Protocol") for base in node.bases)


def _public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]
