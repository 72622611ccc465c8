"""Excess risk against the length of the lists: flat holds, growing does not."""

import numpy as np

from research.papers.thesis import list_length

LENGTHS = np.array([10, 100, 1000])


def test_flat_excess_holds_and_growing_excess_does_not():
    noise = 1 + 0.01 * np.random.default_rng(0).normal(size=(6, 3))
    flat, growing = noise * 0.1, noise * 0.01 * np.sqrt(LENGTHS)
    assert list_length.verdict(LENGTHS, flat).word == "holds"
    assert list_length.verdict(LENGTHS, growing).word == "does not hold"
    found = list_length.finding(LENGTHS, flat)
    assert found.claims[0].word == "holds"
    assert len(found.tables[0].rows) == 3


def test_one_task_is_small_and_positive():
    task = list_length.Task(10, 0)
    excess = list_length.excess_risk(task)
    assert 0 < excess < 0.5
    assert excess == list_length.excess_risk(task)
