"""Whatever comes from outside, a public function answers or says what is wrong: no crash, no stray exception."""

import math
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankloop import RankloopError
from tests.contracts.public_calls import CALLS

NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.5, 1.5, 0, 10**30]
PATIENT = {"passes", "n_pairs", "max_iterations"}  # 10^30 steps are what was asked for
TEXTS = ["", "x", "nDCG@0", "nDCG@99999999999999999999", "3pr(swap=2)", "../../x", "\0", "é" * 100]
DATA = [
    "", "x", 0, -1, 1.5, True, [], [[]], [None], ["a"], [1, [2]], [[1.0, 2.0], [3.0]], {}, {"a": 1}, {"a": {"b": 1}},
    {"kind": "nothing"}, (), [2**63] * 4, [0.5] * 4, [True, False], [10**400] * 8, {1: {2: {3: 4}}},
    np.full(4, np.nan), np.full((8, 3), np.inf), np.full((8, 3), 1e308), np.ones((2, 2, 2)), np.array(["a"]),
    np.array(5.0), np.empty(0), np.ones((0, 3)), np.ones((8, 0)), -np.ones(8), np.full(8, -1), np.full(8, 10**18),
    np.full(8, 1j), np.arange(4)[::-1], np.array([0, 1, 1, 2]), np.zeros(8), np.zeros(8, "M8[D]"),
    np.array([{}, {}], dtype=object), np.ones((8, 3), dtype=np.float32), np.asfortranarray(np.ones((8, 3))),
]  # fmt: skip
SPOILT = [(name, argument) for name, call in CALLS.items() for argument in call.arguments]


def junk_for(name: str, argument: str) -> list:
    """What could stand in the place of this argument without being of another kind altogether."""
    good = CALLS[name].arguments[argument]
    if isinstance(good, str):
        return TEXTS
    if isinstance(good, int | float):
        return [number for number in NUMBERS if argument not in PATIENT or number != 10**30]
    return DATA if isinstance(good, list | dict | np.ndarray) else []


def answers(name: str, arguments: dict) -> None:
    """The call ends well or is refused; it may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(RankloopError):
            CALLS[name].function(**arguments)


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if "nowhere" not in str(call.arguments)])
def test_the_good_call_is_good(name):
    CALLS[name].function(**CALLS[name].arguments)


@pytest.mark.parametrize(("name", "argument"), SPOILT, ids=[f"{name}-{argument}" for name, argument in SPOILT])
def test_a_spoilt_argument_is_refused_or_understood(name, argument):
    for junk in junk_for(name, argument):
        answers(name, CALLS[name].arguments | {argument: junk})


arrays = st.one_of(
    st.lists(st.floats(width=16), max_size=9),
    st.lists(st.integers(-3, 9), max_size=9),
    st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), max_size=9),
    st.dictionaries(st.text(max_size=3), st.dictionaries(st.sampled_from(["f", "g", "z"]), st.floats()), max_size=3),
)


@pytest.mark.parametrize("name", list(CALLS))
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_arguments_drawn_at_random_are_refused_or_understood(name, data):
    good = CALLS[name].arguments
    spoilable = [argument for argument, value in good.items() if isinstance(value, list | dict | np.ndarray)]
    if spoilable:
        argument = data.draw(st.sampled_from(spoilable))
        answers(name, good | {argument: data.draw(arrays)})
