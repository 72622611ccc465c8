"""The experiment of `rankloop demo`, called from Python."""

from __future__ import annotations

from rankloop.experiments.spec.load import demo_experiment


def test_the_demo_counts_its_seeds_from_the_first() -> None:
    assert demo_experiment().seeds == (0, 1, 2, 3)
    other = demo_experiment(seed=7, rounds=50)
    assert (other.seeds, other.horizon) == ((7, 8, 9, 10), 50)
