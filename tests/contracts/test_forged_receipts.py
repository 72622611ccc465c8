"""A receipt that was tampered with on its way is refused or harmless: it never reaches past an array."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contracts.forged_receipts import forgeries

from rankloop.core.registry import Entry, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def faults() -> dict[str, list[str]]:
    """What the program found, for each learner."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.contracts.forged_receipts"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    found: dict[str, list[str]] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("entry", entries("learner"), ids=lambda entry: entry.kind)
def test_forged_receipts_do_no_harm(entry: Entry, faults: dict[str, list[str]]):
    assert not faults[entry.kind], f"{len(faults[entry.kind])} in all, first: {faults[entry.kind][0]}"


def test_every_part_of_a_receipt_is_forged():
    session = Session(build("rtopk"), Problem(n_features=0, n_items=3, depth=1))
    receipt = session.rank(Query.of([[], [], []])).receipt
    forged = [what.split(" ")[0] for what, _ in forgeries(receipt)]
    assert set(forged) == {"receipt.block", "receipt.cell"}
    assert len(forged) > 20
