"""The second learner of the guide and those of the examples keep the contracts; `check-learner` tests the first."""

import runpy
from pathlib import Path

import pytest

from rankloop.contracts.suite import LEARNER_CONTRACTS, RECIPE_CONTRACTS, TRIALS, _outcome_of
from rankloop.core.registry import entry_of
from tests.docs.pages import ROOT, blocks_of
from tests.registry_entries import unregister

GUIDE = blocks_of(ROOT / "docs" / "guides" / "add-a-learner.md")


def limited(folder: Path) -> type:
    # A copy in a new folder: numba would look up the cached kernel by the path and not find its module.
    return _class(folder, (ROOT / "examples" / "05_limited_exploration.py").read_text(encoding="utf-8"), "ClickRate")


def on_features(folder: Path) -> type:
    (code,) = (block for block in GUIDE if "class SkipAbove" in block)
    code = code.split("\nfrom rankloop import Ranker")[0]
    return _class(folder, GUIDE[0].split("class State")[0] + code, "SkipAbove")


def _class(folder: Path, code: str, name: str) -> type:
    file = folder / "mine.py"  # kernels want a file
    file.write_text(code, encoding="utf-8")
    return runpy.run_path(str(file))[name]


def from_example(folder: Path) -> type:
    return runpy.run_path(str(ROOT / "examples" / "03_add_a_learner.py"))["MeanGrade"]


@pytest.mark.parametrize("found", [limited, on_features, from_example])
def test_it_keeps_every_contract(found, tmp_path):
    entry = entry_of(found(tmp_path))
    try:
        for contract in (*RECIPE_CONTRACTS, *LEARNER_CONTRACTS):
            assert _outcome_of(contract.name, entry).failure is None, contract.name
    finally:
        unregister(entry.kind, "learner")


def test_the_guide_says_how_many_contracts_there_are():
    text = (ROOT / "docs" / "guides" / "add-a-learner.md").read_text(encoding="utf-8")
    assert f"keeps all {len(TRIALS)} contracts" in text
