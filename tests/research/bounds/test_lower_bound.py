"""The adversary against every learner: scales, refusals, and that its relevance follows what is shown."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Stream
from rankloop.core.registry import build, spec_of
from rankloop.simulate.streams.drift import Drift
from research.bounds.lower_bound import LowerBound


def test_it_is_a_stream_by_name() -> None:
    stream = build("lower_bound(margin=0.5)", "stream")
    assert isinstance(stream, Stream)
    assert isinstance(stream, LowerBound)
    assert build(spec_of(stream), "stream") == stream


@pytest.mark.parametrize("parameters", ["margin=1e-200", "margin=5e-324", "margin=2.0", "n_features=15"])
def test_impossible_parameters(parameters: str) -> None:
    with pytest.raises(InvalidInput):
        build(f"lower_bound({parameters})", "stream")


def test_the_adversary_of_extreme_scale_is_that_of_the_plain_one() -> None:
    plain = LowerBound(margin=0.25)
    for scale in (2.0**600, 2.0**-600):
        assert LowerBound(radius=scale, margin=0.25 * scale).n_queries == plain.n_queries == 1 / 0.25**2
    assert LowerBound(radius=1e200, margin=1e200).n_queries == 1


def test_drift_turns_an_adversary_too() -> None:
    stream = Drift(inner=LowerBound(), at=1, change="reverse")
    (_, first), (_, second) = islice(stream.rounds(np.random.default_rng(0)), 2)
    assert callable(first)
    assert callable(second)
    assert first(np.array([0, 1])).tolist() == [0, 1]
    assert second(np.array([0, 1])).tolist() == [1, 0]
