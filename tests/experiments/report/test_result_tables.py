"""Tables for a paper: what a program reads back, and LaTeX that compiles in the head."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

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


def bold_arms(curves: Curves, column: int) -> list[str]:
    lines = latex_table(curves).splitlines()
    body = lines[lines.index("\\midrule") + 1 : lines.index("\\bottomrule")]
    assert [line.split(" & ")[0] for line in body] == curves.arms
    assert all(line.endswith(r" \\") and line.count("&") == len(curves.measures) for line in body)
    return [line.split(" & ")[0] for line in body if "mathbf" in line.split(" & ")[column + 1]]


def test_latex_has_a_row_per_arm_and_bold_for_the_best(curves: Curves) -> None:
    for column, measure in enumerate(curves.measures):
        finals = {arm: curves.at(arm, measure, "average") for arm in curves.arms if arm != "best possible"}
        best = max(finals, key=lambda arm: float(np.mean(finals[arm])))
        level = {arm for arm in finals if ttest_rel(finals[arm], finals[best]).pvalue > 0.05}
        assert bold_arms(curves, column) == [arm for arm in curves.arms if arm in {best, *level}]


def test_an_arm_that_chance_keeps_from_the_best_is_bold_too(curves: Curves, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [arm for arm in curves.arms if arm not in {"best possible", "random order"}][:2]
    noise = np.linspace(-1.0, 1.0, len(curves.seeds))
    for gap, expected in ((0.1, {first, second}), (100.0, {first})):
        values = {first: np.full(len(noise), 5.0), second: 5.0 - gap + noise}
        monkeypatch.setattr(curves, "at", lambda arm, *_, values=values: values.get(arm, np.arange(len(noise)) * 0.1))
        assert set(bold_arms(curves, 0)) == expected


def test_latex_escapes_names(tmp_path: Path) -> None:
    arms = [{"name": "50%_of&all", "learner": {"kind": "fixed_weights", "weights": []}}]
    experiment = small(arms=arms, horizon=20, checkpoints=[10])
    curves = Curves(experiment, run_experiment(experiment, tmp_path, Here()))
    assert r"50\%\_of\&all & $" in latex_table(curves)
