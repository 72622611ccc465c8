"""What `rankloop demo` and `rankloop reproduce` compute, called from Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rankloop.core.errors import NotFound
from rankloop.engine import Here
from rankloop.experiments.demo import demo_experiment
from rankloop.experiments.report.model import Finding
from research.registry import Reproduction, Setting, reproduce_into


def test_the_demo_counts_its_seeds_from_the_first() -> None:
    assert demo_experiment().seeds == (0, 1, 2, 3)
    other = demo_experiment(seed=7, rounds=50)
    assert (other.seeds, other.horizon) == ((7, 8, 9, 10), 50)


@contextmanager
def _silent(id: str) -> Iterator[Any]:
    yield lambda finished, of: None


def test_one_that_fails_is_skipped_only_if_asked(tmp_path: Path) -> None:
    def missing(setting: Setting) -> Finding:
        raise NotFound("there is no data set here")

    items = [Reproduction("a", "A", missing), Reproduction("b", "B", lambda setting: Finding("b", "B"))]
    with pytest.raises(NotFound):
        reproduce_into(tmp_path, items, Here(), _silent)
    findings, report = reproduce_into(tmp_path, items, Here(), _silent, skip_failing=True)
    assert [finding.missing for finding in findings] == [("there is no data set here",), ()]
    assert report.exists()
    assert (tmp_path / "summary.json").exists()
