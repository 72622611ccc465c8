"""A saved state that was tampered with is refused or harmless: no crash, no endless loop, no error of another kind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.hostile_states import tampered

from rankloop.core import saved_session as saving
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Entry, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Problem

ROOT = Path(__file__).parents[2]
NAME = "test_tampered_states_do_no_harm"


@pytest.fixture(scope="module", params=["compiled", "interpreted"])
def outcome(request: pytest.FixtureRequest) -> subprocess.CompletedProcess[str]:
    """What the program found: with the kernels as they are used, and as Python, which checks every access."""
    return _outcome(_selected(request.session.items), request.param == "interpreted")


def _outcome(kinds: list[str], interpreted: bool) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"NUMBA_DISABLE_JIT": str(int(interpreted)), "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-m", "tests.contracts.hostile_states", *kinds]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def _selected(tests: list[pytest.Item]) -> list[str]:
    """The kinds that are tested in this run: with `-k mine`, nobody waits for those of others."""
    ours = [test for test in tests if isinstance(test, pytest.Function) and test.originalname == NAME]
    return sorted({test.callspec.params["entry"].kind for test in ours})


@pytest.mark.parametrize("entry", entries("learner"), ids=lambda entry: entry.kind)
def test_tampered_states_do_no_harm(entry: Entry, outcome: subprocess.CompletedProcess[str]):
    faults = dict(json.loads(line) for line in outcome.stdout.splitlines()).get(entry.kind)
    assert faults is not None, f"the program ended with {outcome.returncode} on its way here: {outcome.stderr[-2000:]}"
    assert not faults, f"{len(faults)} in all, first: {faults[0]}"


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        ("top_rank", {"block": np.array([0, 2, 0])}),
        ("linear_thompson", {"precision": np.zeros((2, 2))}),
        ("precision_bandit", {"revealed": 3}),
    ],
    ids=str,
)
def test_what_only_the_state_itself_knows_is_asked(spec: str, changes: dict[str, Any]):
    session = Session(build(spec, "learner"), Problem(n_features=2, n_items=3, depth=1))
    assert saving.loads(saving.dumps(session)).learner == session.learner
    session.restore(session.state._replace(**changes), *session.snapshot()[1:])
    with pytest.raises(InvalidInput, match="no learning leads to"):
        saving.loads(saving.dumps(session))


def test_only_the_kinds_that_are_asked_for_are_tried():
    done = _outcome(["random_order", "ftpl"], interpreted=False)
    assert [json.loads(line)[0] for line in done.stdout.splitlines()] == ["ftpl", "random_order"]


def test_every_part_of_a_state_is_tampered_with():
    state = build("rtopk").init(Problem(n_features=0, n_items=3, depth=1))
    parts = {what.split(" ")[0] for what, _ in tampered(state)}
    assert {"state.inner.totals", "state.inner.rounds", "state.open.explored", "state.open.sums"} <= parts
    assert {"state.horizon", "state.blocks", "state.closed", "state.dropped", "state.inner.noise"} <= parts
