"""The claims about generalisation follow the numbers: flipped data flip the verdict."""

import numpy as np

from rankloop.bounds.generalisation_table import sample_of
from rankloop.experiments.papers.thesis import bounds_table, list_length

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


def test_the_order_of_the_constants_decides_the_verdict():
    data = list_length.queries(50, 10, 0)
    rows = bounds_table.rows_of(data)
    assert bounds_table.verdict([rows]).word == "holds"
    values = {"Theorem 35": 3.0, "Theorem 36": 2.0, "Theorem 38": 1.0}
    flipped = [row._replace(value=values.get(row.name, row.value)) for row in rows]
    assert bounds_table.verdict([flipped]).word == "does not hold"
    assert bounds_table.verdict([rows, flipped]).word == "partly"
    table = bounds_table.finding({"synthetic": (sample_of(data), rows)}).tables[0]
    assert {row[0] for row in table.rows} >= {"Theorem 35", "Theorem 38", "Theorem 44", "Theorem 40"}
