"""Optional dependencies that are absent are named with the command that installs them."""

import ast
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rankloop.core.extras import EXTRA_BY_PACKAGE, MissingExtra, import_extra
from tools.licences import direct_names
from tools.release import COMPILED, STEPS, extras_of_users

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_an_installed_module_is_imported() -> None:
    assert import_extra("json.decoder").JSONDecoder is not None


@pytest.mark.parametrize("package", ["pyarrow", "scipy", "matplotlib"])
def test_a_missing_package_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'rankloop\[{EXTRA_BY_PACKAGE[package]}\]'"):
        import_extra(package)


def test_a_missing_package_without_an_extra_is_named() -> None:
    with pytest.raises(MissingExtra, match="pip install no_such_package"):
        import_extra("no_such_package.part")


@pytest.mark.parametrize(("python", "left_out"), [("3.11", set()), ("3.13", set()), ("3.14", COMPILED)])
def test_all_brings_every_extra_that_has_a_wheel(python: str, left_out: set[str]) -> None:
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    parts = [Requirement(text) for text in extras["all"]]
    brought = {
        extra
        for part in parts
        if part.marker is None or part.marker.evaluate({"python_version": python})
        for extra in part.extras
    }
    assert brought == set(extras_of_users()) - {"all"} - left_out
    assert STEPS.keys() - {""} == set(extras_of_users()) - {"all"}
    assert set(EXTRA_BY_PACKAGE.values()) <= brought | left_out


def test_the_list_of_licences_has_every_package_of_every_extra() -> None:
    rows = (PROJECT.parent / "LICENCES.md").read_text(encoding="utf-8").splitlines()
    listed = {row.split("|")[1].strip(): row for row in rows if row.startswith("| ")}
    for extra in set(extras_of_users()) - {"all"}:
        for name in direct_names(extra) - {"rankloop"}:
            assert f"`[{extra}]`" in listed[name]


@pytest.mark.parametrize("extra", sorted(STEPS))
def test_what_the_release_tries_exists_in_the_package(extra: str) -> None:
    for flag, *arguments in STEPS[extra]:
        for node in ast.walk(ast.parse(arguments[0] if flag == "-c" else "")):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rankloop"):
                module = import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
