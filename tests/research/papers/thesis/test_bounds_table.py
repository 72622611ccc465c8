"""The claims about generalisation follow the numbers: flipped data flip the verdict."""

from research.bounds.generalisation_table import sample_of
from research.papers.thesis import bounds_table, list_length


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
