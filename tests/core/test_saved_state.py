from typing import NamedTuple

import numpy as np
import pytest

from rankloop import InvalidInput
from rankloop.core.saved_state import MAX_COUNT, restored_state


class State(NamedTuple):
    weights: np.ndarray
    counts: np.ndarray
    examples: np.ndarray
    rate: float
    rounds: int
    shown: int
    averaged: bool

    def reachable(self, initial):
        return self.rounds % 2 == initial.rounds % 2


FIRST = State(np.zeros(2), np.array([-1, 0]), np.zeros((0, 2)), 0.5, 4, -1, False)
LATER = State(np.ones(2), np.array([7, -1]), np.ones((3, 2)), -2.5, 8, -1, True)


def again(first=FIRST, **changes):
    parts = LATER._replace(**changes)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    positions = {"array": 0}, {"array": 1}, {"array": 2}
    outline = dict(zip(State._fields, (*positions, *parts[3:])))
    return restored_state(outline, first, lambda position: arrays[position])


def test_what_learning_leads_to_is_restored():
    state = again()
    assert type(state) is State
    assert all(np.array_equal(part, other) for part, other in zip(state, LATER))
    assert again(rate=3).rate == 3.0
    assert again(rounds=MAX_COUNT).rounds == MAX_COUNT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 2}, r"state\.rounds holds a number that is too small"),
        ({"rounds": MAX_COUNT + 2}, "too large"),
        ({"rounds": 10**400}, "too large"),
        ({"rounds": True}, "type int"),
        ({"rounds": 5}, "no learning leads to"),
        ({"shown": 3}, "by the problem"),
        ({"averaged": 1}, "type bool"),
        ({"rate": "x"}, "type float"),
        ({"counts": np.array([0, -2])}, r"state\.counts holds a number that is too small"),
        ({"counts": np.array([0, MAX_COUNT + 1])}, "too large"),
        ({"weights": np.array([0.0, np.inf])}, "not finite"),
        ({"weights": np.zeros(3)}, "needs float64"),
        ({"weights": np.zeros(2, ">f8")}, "needs float64"),
        ({"weights": np.array(1.0)}, "needs float64"),
        ({"examples": np.zeros((3, 1))}, "needs float64"),
        ({"examples": np.array(1.0)}, "needs float64"),
    ],
    ids=str,
)
def test_what_no_learning_leads_to_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        again(**changes)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (4, 4)])
def test_what_is_empty_for_want_of_features_stays_empty(shape):
    bare = FIRST._replace(weights=np.zeros(0), examples=np.zeros((0, 0)))
    assert again(bare, weights=np.zeros(0), examples=np.zeros((0, 0))).rounds == 8
    with pytest.raises(InvalidInput, match="needs float64"):
        again(bare, weights=np.zeros(0), examples=np.zeros(shape))
    with pytest.raises(InvalidInput, match="needs float64"):
        again(bare, weights=np.zeros(1), examples=np.zeros((0, 0)))
