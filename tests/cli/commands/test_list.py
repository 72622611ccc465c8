"""`rankloop list`: families by either number, the kinds of fields, and single things with their parameters."""

from __future__ import annotations

import json

import pytest

from rankloop.cli import main
from rankloop.core.registry import build


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        main(["list", *arguments])
    captured = capsys.readouterr()
    assert not leaving.value.code, captured.err
    return captured.out


def test_the_kinds_of_fields_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(listed(capsys, "fields", "--json"))["fields"]
    kinds = {"category", "date", "flag", "id", "number", "vector", "words"}
    assert {field["kind"] for field in fields} >= kinds
    assert listed(capsys, "field") == listed(capsys, "fields")


def test_a_single_thing_shows_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    text = listed(capsys, "number")
    assert text.startswith("number (field): A number of any size")
    assert "  mean: float = 0.0\n" in text
    assert listed(capsys, "list_net").count("list_net (") == 2  # a risk and a surrogate
    assert list(json.loads(listed(capsys, "words", "--json"))) == ["fields"]


def test_the_example_of_a_single_thing_can_be_built(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, family in (("newton_pairs", "learner"), ("standardised", "learner"), ("words", "field")):
        *_, example = listed(capsys, kind).splitlines()
        assert build(example.removeprefix("for example: "), family)
    assert listed(capsys, "letor").endswith('for example: letor(path="…")\n')


def test_what_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["list", "numbr"])
    assert leaving.value.code == 2
    assert "nothing has the name 'numbr'; did you mean 'number'?" in capsys.readouterr().err
