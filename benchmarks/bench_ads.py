"""The sorted AUC objective beside passes over the same data, pair-sampling descent, and estimates from a long log."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.environment import numpy_extension
from benchmarks.measurement import Row, alone, best_of, row, seconds_of, timed
from rankloop.bandits.auc_ranker import objective, sampled_weights
from rankloop.core.kernels import scores_of
from rankloop.evaluation import ChoiceLog, Options, estimate

N_EXAMPLES, N_FEATURES, CLICK_RATE = 1_000_000, 20, 0.005
N_PAIRS = 2_000_000
N_ROWS, ROW_GROUP = 10_000_000, 1_000_000


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    features, clicked = rng.normal(size=(N_EXAMPLES, N_FEATURES)), rng.random(N_EXAMPLES) < CLICK_RATE
    positive, negative = features[clicked], features[~clicked]
    return [*_objective(features, positive, negative), _descent(positive, negative), _streamed()]


def _objective(features: Any, positive: Any, negative: Any) -> list[Row]:
    weights = np.random.default_rng(1).normal(size=N_FEATURES)
    scores = scores_of(features, weights)
    rows = []
    for loss in ("hinge", "squared_hinge"):
        of = objective(positive, negative, loss, 0.01)
        calls = (lambda of=of: of(weights)), (lambda: scores_of(features, weights)), (lambda: np.sort(scores))
        of(weights)  # compiles
        repeats = np.array([[seconds_of(call) for call in calls] for _ in range(5)])
        ours, one_pass, one_sort = repeats.T
        note = (
            f"beside 3 passes of {1e3 * np.median(one_pass):.0f} ms and a sort of {1e3 * np.median(one_sort):.0f} ms; "
        )
        note += f"numpy sorts with {numpy_extension()}, without AVX2 in some 60 ms"
        times = timed(list(zip(ours, 3.0 * one_pass + one_sort)))
        rows.append(row(f"AUC {loss} and gradient, 10⁶ × {N_FEATURES}", times, target="≥ 1×", note=note))
    return rows


def _descent(positive: Any, negative: Any) -> Row:
    def go() -> Any:
        rng = np.random.default_rng(2)
        return sampled_weights(positive, negative, loss="logistic", ridge=0.01, n_pairs=N_PAIRS, rng=rng)

    seconds = best_of(go)
    name = f"pair-sampling descent, {N_PAIRS:,} pairs, d = {N_FEATURES}"
    return alone(name, seconds, target="≥ 10⁶ pairs/s", note=f"{N_PAIRS / seconds:,.0f} pairs per second")


def _streamed() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        _write(path)
        before = _peak()
        start = perf_counter()
        estimated = estimate(ChoiceLog(path).rows(), "ips", Options(bound="bootstrap"))
        seconds = perf_counter() - start
    grown = (_peak() - before) / 1024
    note = f"{estimated.n / seconds:,.0f} rows per second, peak memory grew by {grown:.0f} MB"
    return alone(f"IPS with bootstrap, {estimated.n:,} rows of Parquet", seconds, target="constant memory", note=note)


def _write(path: Path) -> None:
    rng = np.random.default_rng(3)
    columns = ("ad", "click", "propensity", "target")
    schema = pa.schema([(name, pa.int64() if name == "ad" else pa.float64()) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(N_ROWS // ROW_GROUP):
            ad, propensity = rng.integers(0, 5, ROW_GROUP), rng.uniform(0.05, 1.0, ROW_GROUP)
            click, target = (rng.random(ROW_GROUP) < CLICK_RATE).astype(float), rng.random(ROW_GROUP)
            writer.write_table(pa.table([ad, click, propensity, target], schema=schema))


def _peak() -> int:
    """The largest memory of this process so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
