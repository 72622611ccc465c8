"""A saved state that was tampered with is refused or harmless: no crash, no endless loop, no error of another kind."""

from typing import Any

import numpy as np
import pytest

from rankloop.contracts.process import TrialResult, _tampered, run_isolated
from rankloop.core import saved_session as saving
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Entry, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Problem

NAME = "test_tampered_states_do_no_harm"


@pytest.fixture(scope="module", params=["compiled", "interpreted"])
def found(request: pytest.FixtureRequest) -> TrialResult:
    """What a process found: with the kernels as they are used, and as Python, which checks every access."""
    return run_isolated("hostile_states", _selected(request.session.items), interpreted=request.param == "interpreted")


def _selected(tests: list[pytest.Item]) -> list[str]:
    """The kinds that are tested in this run: with `-k mine`, nobody waits for those of others."""
    ours = [test for test in tests if isinstance(test, pytest.Function) and test.originalname == NAME]
    return sorted({test.callspec.params["entry"].kind for test in ours})


@pytest.mark.parametrize("entry", entries("learner"), ids=lambda entry: entry.kind)
def test_tampered_states_do_no_harm(entry: Entry, found: TrialResult):
    assert found.failure_of(entry.kind) is None


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
    with pytest.raises(InvalidInput, match="cannot be the result of learning"):
        saving.loads(saving.dumps(session))


def test_only_the_kinds_that_are_asked_for_are_tried():
    assert list(run_isolated("hostile_states", ["random_order", "ftpl"]).failures) == ["random_order", "ftpl"]


def test_every_part_of_a_state_is_tampered_with():
    state = build("rtopk").init(Problem(n_features=0, n_items=3, depth=1))
    parts = {what.split(" ")[0] for what, _ in _tampered(state)}
    assert {"state.inner.totals", "state.inner.rounds", "state.open.explored", "state.open.sums"} <= parts
    assert {"state.horizon", "state.blocks", "state.closed", "state.dropped", "state.inner.noise"} <= parts
