"""A receipt that was tampered with on its way is refused or harmless: it never reaches past an array."""

import pytest

from rankloop.contracts.process import TrialResult, _tampered, run_isolated
from rankloop.core.registry import Entry, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query

LEARNERS = entries("learner")


@pytest.fixture(scope="module")
def found() -> TrialResult:
    """What a process without compilation found, for each learner."""
    return run_isolated("forged_receipts", [entry.kind for entry in LEARNERS])


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_forged_receipts_do_no_harm(entry: Entry, found: TrialResult):
    assert found.failure_of(entry.kind) is None


def test_every_part_of_a_receipt_is_forged():
    session = Session(build("rtopk"), Problem(n_features=0, n_items=3, depth=1))
    receipt = session.rank(Query.of([[], [], []])).receipt
    forged = [what.split(" ")[0] for what, _ in _tampered(receipt, "receipt", resized=True)]
    assert set(forged) == {"receipt.block", "receipt.cell"}
    assert len(forged) > 20
