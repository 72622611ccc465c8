"""Names and docstrings that a stranger can read: counts that may only fall, kept in `names_ratchet.toml`."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankloop

SOURCE = Path(rankloop.__file__).parent
RATCHET = Path(__file__).with_name("names_ratchet.toml")
EMPTY_NAMES = {"found", "known", "own", "one", "seen", "given", "wanted", "asked", "told", "whole", "rest", "how"}
EMPTY_NAMES |= {"there", "what", "such", "before", "said", "wished", "gone", "heard"}
ODD_OPENING = re.compile(r"(Whether|Who|What|Where|How|Which|When|The same)\b")
ONE_WORD_CONSTANT = re.compile(r"[A-Z]{3,}")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed_files() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of every module of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def empty_names(tree: ast.Module) -> Iterator[str]:
    """Yield assigned names that do not say what they hold."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_NAMES:
            yield f"{node.lineno}: {node.id}"


def empty_parameters(tree: ast.Module) -> Iterator[str]:
    """Yield parameters and attributes that do not say what they hold."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg in EMPTY_NAMES:
            yield f"{node.lineno}: parameter {node.arg}"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in EMPTY_NAMES:
            yield f"{node.lineno}: attribute {node.attr}"


def odd_openings(tree: ast.Module) -> Iterator[str]:
    """Yield docstrings that open with a question word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            if ODD_OPENING.match(text):
                yield f"{node.lineno}: {text.splitlines()[0]}"


def undocumented_parameters(tree: ast.Module) -> Iterator[str]:
    """Yield public functions with two or more parameters and no `Args:` section, commands aside."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_") and not is_command(node):
            parameters = [*node.args.args, *node.args.kwonlyargs]
            if len(parameters) >= 2 and "Args:" not in (ast.get_docstring(node) or ""):
                yield f"{node.lineno}: {node.name}"


def is_command(function: Function) -> bool:
    """Return true for a command, whose docstring is its help text and whose options describe themselves."""
    calls = (ast.unparse(decorator) for decorator in function.decorator_list)
    return any(call.startswith(("command(", "app.callback(")) for call in calls)


def one_word_constants(tree: ast.Module) -> Iterator[str]:
    """Yield module constants of a single word."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            if isinstance(target, ast.Name) and ONE_WORD_CONSTANT.fullmatch(target.id):
                yield f"{node.lineno}: {target.id}"


CHECKS = {
    "empty_names": empty_names,
    "empty_parameters": empty_parameters,
    "odd_openings": odd_openings,
    "undocumented_parameters": undocumented_parameters,
    "one_word_constants": one_word_constants,
}


@pytest.mark.parametrize("name", CHECKS)
def test_counts_only_fall(name: str) -> None:
    """A count above the ratchet fails and lists the offenders."""
    limits = tomllib.loads(RATCHET.read_text(encoding="utf-8"))
    offenders = [f"{path}:{place}" for path, tree in parsed_files() for place in CHECKS[name](tree)]
    assert len(offenders) <= limits[name], "\n".join(offenders)
