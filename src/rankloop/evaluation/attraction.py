"""A model of attraction: what the features of an item, its clicks on other pages and its usual position say of it."""

from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.click_models.conditional_fit import inverse_of, sums_by_cluster
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.list_pages import PageTable

N_FOLDS = 4
RIDGE_PENALTY = 1.0  # one pseudo-observation against each weight of a standardised feature
MAX_STEPS = 30
MAX_PROBABILITY = 1.0 - 1e-9
MAX_LOG_ODDS = 30.0
PRIOR_EXAMINATIONS = 2.0  # by which the click rate of a pair elsewhere is pulled to the mean
MAX_SPREAD = 0.5  # standard error of the log-odds beyond which the model knows nothing of a row
MAX_DISTANCE = 1.0  # standard deviations outside the range of what was shown


class AttractionModel:
    """P(click | examined) = σ(features · weights), each page judged by the fit without its fold."""

    def __init__(self, table: PageTable, log_examined: Floats, cluster: Ints, seed: int = 0) -> None:
        """Fit the model, given examination."""
        self.table, self.rows, self.examined = table, table.shown, np.exp(np.minimum(log_examined, 0.0))
        self.row_cluster, self.n_clusters = cluster[table.page], int(cluster.max()) + 1
        fold = default_rng(seed).permutation(table.n_pages) % N_FOLDS
        self.fold = fold[table.page] if table.n_pages >= N_FOLDS else np.zeros(len(table.page), np.int64)
        self.features = self._features()
        self.fits = [_Fit(self, number) for number in range(int(self.fold.max()) + 1)]
        folds = [np.flatnonzero(self.fold == number) for number in range(len(self.fits))]
        self.parts = [(rows, self.features[rows]) for rows in folds]

    def slopes(self, design: Floats) -> list[Floats]:
        """Return by fold (n_parameters, n_features): how the gradient of the weights falls with the parameters."""
        return [design[fit.used].T @ fit.weighted for fit in self.fits]

    def attraction(self, weights: Floats | None = None, steps: Floats | None = None, slopes: Any = ()) -> Floats:
        """Return the attraction of every row when clusters weigh more and parameters move, to one step."""
        values = np.empty(len(self.fold))
        for number, (fit, (rows, part)) in enumerate(zip(self.fits, self.parts)):
            moved = fit.weights
            if weights is not None:
                moved = moved + fit.inverse @ (weights @ fit.scores - steps @ slopes[number])
            values[rows] = _logistic(part @ moved)
        return values

    def unlike_shown(self) -> Floats:
        """Return by row 1 where it was not shown and the model has met nothing like it."""
        table, spread = self.table, np.empty(len(self.fold))
        for fit, (rows, part) in zip(self.fits, self.parts):
            spread[rows] = np.sqrt(((part @ fit.inverse) * part).sum(axis=1))
        low, high = self.features[self.rows].min(axis=0), self.features[self.rows].max(axis=0)
        far = ((self.features < low - MAX_DISTANCE) | (self.features > high + MAX_DISTANCE)).any(axis=1)
        strange = (spread > MAX_SPREAD) | far | (table.unknown > 0.5)
        if not self.has_features:
            times = np.bincount(table.pair[self.rows], minlength=int(table.pair.max()) + 1)
            strange |= times[table.pair] == 0
        unlike: Floats = np.where(strange & (table.position < 0), 1.0, 0.0)
        return unlike

    def calibration(self, exposed: Floats) -> tuple[float, float]:
        """Return clicks by what the model expects of the shown rows, as an order has them examined, and the error."""
        a = self.attraction()[self.rows]
        weight = np.minimum(exposed[self.rows] / self.examined, 100.0)
        clicks, expected = weight * self.table.clicked[self.rows], weight * self.examined * a
        total = max(float(expected.sum()), 1e-12)
        ratio = float(clicks.sum()) / total
        by_cluster = np.bincount(self.row_cluster[self.rows], clicks - ratio * expected, self.n_clusters)
        return ratio, float(np.sqrt((by_cluster**2).sum())) / total

    def _features(self) -> Floats:
        """Return a constant, standardised features, the clicks of the pair in other folds, and its usual position."""
        table, rows = self.table, self.rows
        shown = table.features[rows]
        mean, spread = shown.mean(axis=0), shown.std(axis=0)
        used = spread > 1e-12
        self.has_features = bool(used[:-1].any())  # the last is where the ranker itself puts the item
        standardised = (table.features[:, used] - mean[used]) / spread[used]
        n_pairs, key = int(table.pair.max()) + 1, table.pair * N_FOLDS + self.fold

        def elsewhere(values: Floats) -> Floats:
            by_pair = np.bincount(table.pair[rows], values, n_pairs)
            by_fold = np.bincount(key[rows], values, n_pairs * N_FOLDS)
            others: Floats = by_pair[table.pair] - by_fold[key]
            return others

        examined, clicks = elsewhere(self.examined), elsewhere(table.clicked[rows])
        times, depth = elsewhere(np.ones(len(rows))), elsewhere(np.log1p(table.position[rows]))
        mean = float(table.clicked[rows].sum() / self.examined.sum())
        rate = (np.maximum(clicks, 0.0) + PRIOR_EXAMINATIONS * mean) / (np.maximum(examined, 0.0) + PRIOR_EXAMINATIONS)
        rate = np.clip(rate, 1e-4, 1.0 - 1e-4)
        usual = float(np.log1p(table.position[rows]).mean())
        height = np.where(times > 0, depth / np.maximum(times, 1.0) - usual, 0.0)
        memory = np.column_stack([np.log(rate / (1.0 - rate)), height])
        spread = memory[rows].std(axis=0)
        memory, spread = memory[:, spread > 1e-9], spread[spread > 1e-9]
        memory = (memory - memory[rows].mean(axis=0)) / spread
        return np.ascontiguousarray(np.hstack([np.ones((len(table.page), 1)), standardised, memory]))


class _Fit:
    """The weights without one fold, and how they move with clusters and with examination."""

    def __init__(self, model: AttractionModel, fold: int) -> None:
        in_fold = model.fold[model.rows] == fold
        self.used = np.flatnonzero(~in_fold) if not in_fold.all() else np.arange(len(in_fold))
        rows = model.rows[self.used]
        features, clicked, examined = model.features[rows], model.table.clicked[rows], model.examined[self.used]
        self.weights = np.zeros(features.shape[1])
        value, scale, step = -np.inf, 1.0, np.zeros(features.shape[1])
        for _ in range(MAX_STEPS):
            tried = self.weights + scale * step
            s = _logistic(features @ tried)
            p = np.minimum(examined * s, MAX_PROBABILITY)
            logs = np.where(clicked > 0, np.log(np.maximum(p, 1e-300)), np.log1p(-p))
            now = float(logs.sum() - 0.5 * RIDGE_PENALTY * tried @ tried)
            if now < value - 1e-9 and scale > 1e-3:
                scale /= 2.0
                continue
            done = now - value < 1e-7 * max(1.0, abs(now))
            self.weights, value, scale = tried, now, 1.0
            slope = np.where(clicked > 0, 1.0, -p / (1.0 - p))
            directions = (1.0 - s)[:, None] * features
            weighted = directions * (p / (1.0 - p))[:, None]
            self.inverse = inverse_of(weighted.T @ directions + RIDGE_PENALTY * np.eye(len(step)))
            step = self.inverse @ (slope @ directions - RIDGE_PENALTY * self.weights)
            if done:
                break
        self.scores = sums_by_cluster(slope[:, None] * directions, model.row_cluster[rows], model.n_clusters)
        self.weighted = weighted


def _logistic(odds: Floats) -> Floats:
    probability: Floats = 1.0 / (1.0 + np.exp(-np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)))
    return probability
