"""Tables for a paper: what a program reads back, and LaTeX that compiles in the head."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from rankloop.engine import Here
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.report.result_tables import csv_table, latex_table
from rankloop.experiments.run.runner import run_experiment
from tests.experiments.cases import small


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Curves:
    experiment = small()
    return Curves(experiment, run_experiment(experiment, tmp_path_factory.mktemp("runs"), Here()))


def test_csv_has_mean_and_standard_error_of_every_arm(curves: Curves) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(curves))))
    assert {row["arm"] for row in rows} == set(curves.arms)
    for row in rows:
        values = curves.of(row["stream"], row["arm"], row["measure"], row["quantity"])
        assert values is not None
        final = values[:, -1]
        assert float(row["mean"]) == pytest.approx(np.mean(final))
        assert float(row["standard_error"]) == pytest.approx(np.std(final, ddof=1) / np.sqrt(len(final)))
        assert int(row["seeds"]) == len(final)


def test_one_seed_has_no_error(tmp_path: Path) -> None:
    experiment = small(seeds=1)
    curves = Curves(experiment, run_experiment(experiment, tmp_path, Here()))
    assert {row["standard_error"] for row in csv.DictReader(io.StringIO(csv_table(curves)))} == {""}
    assert "\\pm" not in latex_table(curves)


def test_latex_has_a_row_per_arm_and_bold_for_the_best(curves: Curves) -> None:
    lines = latex_table(curves).splitlines()
    body = lines[lines.index("\\midrule") + 1 : lines.index("\\bottomrule")]
    assert [line.split(" & ")[0] for line in body] == curves.arms
    assert all(line.endswith(r" \\") and line.count("&") == len(curves.measures) for line in body)
    for column, measure in enumerate(curves.measures):
        bold = [line.split(" & ")[0] for line in body if "mathbf" in line.split(" & ")[column + 1]]
        means = {
            arm: float(np.mean(values[:, -1]))
            for arm in curves.arms
            if arm != "best possible" and (values := curves.of(curves.streams[0], arm, measure, "average")) is not None
        }
        assert bold == [max(means, key=lambda arm: means[arm])]


def test_latex_escapes_names(tmp_path: Path) -> None:
    arms = [{"name": "50%_of&all", "learner": {"kind": "fixed_weights", "weights": []}}]
    experiment = small(arms=arms, horizon=20, checkpoints=[10])
    curves = Curves(experiment, run_experiment(experiment, tmp_path, Here()))
    assert r"50\%\_of\&all & $" in latex_table(curves)
