"""Values of an experiment's runs by arm: one row per seed, one column per checkpoint."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints
from rankloop.experiments.run.recorder import Series
from rankloop.experiments.run.runner import Run
from rankloop.experiments.spec.model import CEILING, Experiment


class Curves:
    """Lookup of an arm's values on a stream; rows are seeds, in the same order for every arm."""

    def __init__(self, experiment: Experiment, runs: list[Run]) -> None:
        self.experiment = experiment
        self.rounds: Ints = np.array(runs[0].checkpoints)
        self.seeds = sorted({run.seed for run in runs})
        self.streams = list(dict.fromkeys(run.stream for run in runs))
        self.arms = list(dict.fromkeys(run.arm for run in runs))
        self.measures = list(runs[0].values)
        self._runs = {run.key: run for run in runs}

    @property
    def runs(self) -> list[Run]:
        """Return all runs."""
        return list(self._runs.values())

    def of(self, stream: str, arm: str, measure: str, quantity: str) -> Floats | None:
        """Return the values as (n_seeds, n_checkpoints), or None if the arm has no such quantity."""
        return _stacked(self._runs[stream, arm, seed].values[measure].get(quantity) for seed in self.seeds)

    def at(self, arm: str, measure: str, quantity: str, stream: str = "", column: int = -1) -> Floats:
        """Return one value per seed at a checkpoint (default: the last) of a stream (default: the first).

        The values are nan if the arm has no such quantity.
        """
        rows = self.of(stream or self.streams[0], arm, measure, quantity)
        return np.full(len(self.seeds), np.nan) if rows is None else rows[:, column]

    def report(self, stream: str, arm: str, path: str) -> Floats | None:
        """Return values that a learner reports, as (n_seeds, n_checkpoints), or None if it does not report them."""
        return _stacked(self._runs[stream, arm, seed].reports.get(path) for seed in self.seeds)

    def reported(self) -> list[str]:
        """Return the names of all reported values."""
        return list(dict.fromkeys(path for run in self._runs.values() for path in run.reports))

    def refused(self) -> dict[str, int]:
        """Return the number of refused updates of each arm that has some, over all streams and seeds."""
        counts = {arm: sum(run.refused for run in self._runs.values() if run.arm == arm) for arm in self.arms}
        return {arm: count for arm, count in counts.items() if count}

    def from_best(self, stream: str, measure: str) -> list[str]:
        """Return the arms by their mean over all rounds, the ceiling first, arms without a value last."""
        sign = 1.0 if build(measure, "measure").higher_is_better else -1.0
        worth = {arm: sign * estimate(self.at(arm, measure, "average", stream)).mean for arm in self.arms}
        return sorted(self.arms, key=lambda arm: (arm != CEILING, math.isnan(worth[arm]), -worth[arm]))

    def column_of(self, round: int | None) -> int:
        """Return the column of a checkpoint; the last for None."""
        return -1 if round is None else int(np.searchsorted(self.rounds, round))


def _stacked(series: Iterable[Series | None]) -> Floats | None:
    present = [values for values in series if values is not None]
    return np.array(present, dtype=np.float64) if present else None


class SeedMean(NamedTuple):
    """Mean over seeds and its standard error, nan if there is one seed."""

    mean: float
    error: float

    def __str__(self) -> str:
        if math.isnan(self.error):
            return number(self.mean)
        return f"{number(self.mean)} ± {number(self.error, _digits_of(self.mean))}"


def estimate(values: Floats) -> SeedMean:
    """Return mean and standard error of one value per seed; seeds without a value are left out."""
    counted = values[~np.isnan(values)]
    if not len(counted):
        return SeedMean(math.nan, math.nan)
    error = float(counted.std(ddof=1)) / math.sqrt(len(counted)) if len(counted) > 1 else math.nan
    return SeedMean(float(counted.mean()), error)


def number(value: float, digits: int | None = None) -> str:
    """Format a number for a table, with about four significant digits and a typographic minus sign.

    Args:
      value: The number.
      digits: The number of decimals; by default from the size of the number.
    """
    if math.isnan(value):
        return "–"
    size = abs(value)
    plain = size >= 5e-4 or size == 0 or digits is not None
    text = f"{value:.{_digits_of(value) if digits is None else digits}f}" if plain else f"{value:.1e}"
    return text.replace("-", "−")


def _digits_of(value: float) -> int:
    """Return the number of decimals to print for a number of this size."""
    size = abs(value)
    return 4 if size < 1 else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
