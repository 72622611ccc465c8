"""Numbers as people write them."""

from __future__ import annotations

import math

from rankloop.experiments.analysis.curves import SeedMean, number


def test_numbers_as_people_write_them() -> None:
    assert [number(value) for value in (0.12345, 3.14159, -12.3456, 1234.5, 0.0, 1e-6, math.nan)] == [
        "0.1235",
        "3.142",
        "−12.35",
        "1234",
        "0.0000",
        "1.0e−06",
        "–",
    ]
    assert str(SeedMean(1.0, 0.00001)) == "1.000 ± 0.000"
