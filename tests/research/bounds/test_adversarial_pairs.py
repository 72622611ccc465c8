"""The stream in which the item that is ranked first is the worse: its size, its refusals, its reverse."""

from itertools import islice

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.simulate.streams.drift import Drift
from research.bounds.adversarial_pairs import LowerBound


@pytest.mark.parametrize("parameters", [{"margin": 1e-200}, {"margin": 5e-324}, {"margin": 2.0}, {"n_features": 15}])
def test_impossible_parameters(parameters: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        LowerBound(**parameters)  # type: ignore[arg-type]


def test_a_stream_is_built_from_its_spec() -> None:
    stream = LowerBound(n_features=30, margin=0.2)
    assert build(spec_of(stream), "stream") == stream


def test_the_adversary_of_extreme_scale_is_that_of_the_plain_one() -> None:
    plain = LowerBound(margin=0.25)
    for scale in (2.0**600, 2.0**-600):
        assert LowerBound(radius=scale, margin=0.25 * scale).n_queries == plain.n_queries == 1 / 0.25**2
    assert LowerBound(radius=1e200, margin=1e200).n_queries == 1


def test_drift_turns_the_adversary_too() -> None:
    stream = Drift(inner=LowerBound(), at=1, change="reverse")
    first, second = (relevance for _, relevance in islice(stream.rounds(np.random.default_rng(0)), 2))
    assert callable(first)
    assert callable(second)
    assert first(np.array([0, 1])).tolist() == [0, 1]
    assert second(np.array([0, 1])).tolist() == [1, 0]
