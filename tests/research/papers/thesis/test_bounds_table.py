"""The claims about generalisation follow the numbers: flipped data flip the verdict."""

import pytest

from research.bounds.generalisation_table import sample_of
from research.papers.thesis import bounds_table, list_length


def test_the_table_has_every_bound_with_its_value_and_no_claim():
    data = list_length.queries(50, 10, 0)
    rows = bounds_table.rows_of(data)
    finding = bounds_table.finding({"small": (sample_of(data), rows)})
    assert finding.claims == ()
    [table] = finding.tables
    assert [row[0] for row in table.rows] == [row.name for row in rows]
    values = {row.name: row.value for row in rows}
    assert values["Theorem 35"] == pytest.approx(2.0 * bounds_table.RADIUS * sample_of(data).longest * (2 / 50) ** 0.5)
    assert [row[5] for row in table.rows] == ["yes" if row.meaningful else "no" for row in rows]
