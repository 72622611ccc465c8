"""The learner of the guide and that of the example keep every contract: nobody should copy one that does not."""

import runpy
from pathlib import Path

import pytest
from tests.contracts.cases import cases_of
from tests.contracts.learner_contracts import LEARNER_CONTRACTS
from tests.docs.pages import ROOT, blocks_of

from rankloop.core.registry import unregister


def from_guide(folder: Path) -> type:
    code = blocks_of(ROOT / "docs" / "guides" / "add-a-learner.md")[0]
    file = folder / "mean_grade.py"
    file.write_text(code, encoding="utf-8")
    return runpy.run_path(str(file))["MeanGrade"]


def from_example(folder: Path) -> type:
    return runpy.run_path(str(ROOT / "examples" / "03_add_a_learner.py"))["MeanGrade"]


@pytest.mark.parametrize("found", [from_guide, from_example])
def test_it_keeps_every_contract(found, tmp_path):
    cls = found(tmp_path)
    try:
        for contract in LEARNER_CONTRACTS:
            for case in cases_of("mean_grade", cls):
                contract(case)
    finally:
        unregister("mean_grade", "learner")
