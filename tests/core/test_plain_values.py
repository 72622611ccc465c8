"""Tests of states and decisions as plain values."""

import json
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop import Decision, InvalidInput
from rankloop.core.plain_values import (
    decision_from_plain,
    decision_to_plain,
    from_plain,
    receipt_type,
    to_plain,
    with_receipt,
)
from rankloop.core.types import Floats, Ints

R = TypeVar("R")


class Pair(NamedTuple):
    where: Ints
    how_much: Floats
    swapped: bool
    probability: float
    count: int


class Own(NamedTuple, Generic[R]):
    limit: int
    inner: R


@dataclass
class Plain:
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Pair]: ...


@dataclass
class Through:
    inner: Any

    def rank(self, state: Any, query: Any, rng: Any) -> Decision[R]: ...


@dataclass
class Around:
    inner: Any

    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Own[R]]: ...


def test_the_receipt_type_is_found_through_wrappers():
    assert receipt_type(Plain()) is Pair
    assert receipt_type(Through(Plain())) is Pair
    assert receipt_type(Around(Through(Plain()))) == Own[Pair]


@given(
    arrays(np.int64, st.integers(0, 5)),
    arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(0, 3)), elements=st.floats(-1e300, 1e300)),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**62), 2**62),
)
def test_receipts_come_back_from_json_as_they_were(where, how_much, swapped, probability, count):
    receipt = Own(3, Pair(where, how_much, swapped, probability, count))
    decision = Decision(np.array([1, 0]), float("nan"), receipt)
    learner = Around(Plain())
    back = with_receipt(decision_from_plain(json.loads(json.dumps(decision_to_plain(decision)))), learner)
    assert np.isnan(back.log_propensity)
    assert back.receipt.limit == 3
    for old, new in zip(receipt.inner, back.receipt.inner):
        np.testing.assert_array_equal(old, new)
        assert type(old) is type(new)
        assert getattr(old, "shape", ()) == getattr(new, "shape", ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"where": "x"}, "receipt.where must be a list"),
        ({"where": [1.5]}, "receipt.where must be a list of int64"),
        ({"where": [2**70]}, "receipt.where"),
        ({"how_much": [float("inf")]}, "not finite"),
        ({"how_much": {"shape": [2, 2], "values": [1.0]}}, "receipt.how_much"),
        ({"swapped": 1}, "receipt.swapped must be of type bool"),
        ({"probability": "high"}, "receipt.probability must be of type float"),
        ({"count": 1.0}, "receipt.count must be of type int"),
        ({"more": 1}, "receipt must be an object with"),
    ],
)
def test_a_receipt_of_another_form_is_refused(change, message):
    good = to_plain(Pair(np.array([1]), np.array([0.5]), True, 0.5, 1))
    with pytest.raises(InvalidInput, match=message):
        from_plain(good | change, Pair, "receipt")


def test_non_finite_values_are_not_written():
    with pytest.raises(InvalidInput, match="not finite"):
        to_plain(Pair(np.array([1]), np.array([np.nan]), True, 0.5, 1))
    with pytest.raises(InvalidInput, match="not finite"):
        to_plain(float("inf"))


@pytest.mark.parametrize("plain", [{}, [], None, {"ranking": [0]}])
def test_what_is_no_decision(plain):
    with pytest.raises(InvalidInput, match="a decision must have"):
        with_receipt(decision_from_plain(plain), Plain())
