"""The value of an order on the pages of a log, by examination: clicks reweighted, and a model for what was not shown.

An item that an order has examined with probability e' instead of e brings e'/e times its clicks. Where clicks above
change what is examined below, or where the order shows items that the log did not, a model of attraction joins in, and
the clicks correct it: V(â) + Σ_shown ∂V/∂a · (click − e · â) / e (doubly robust, one step).
References: Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback; Oosterhuis
(2023), Doubly-Robust Estimation for Correcting Position-Bias in Click Feedback for Unbiased Learning to Rank.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.click_models import reading as readings
from rankloop.click_models.conditional_fit import inverse_of, sums_by_cluster
from rankloop.click_models.examination import matrix_root
from rankloop.click_models.reading import Reading, appeal_of_last_click, group_of_distance, groups_of_last_clicks
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.list_pages import NOT_SHOWN, PageTable

N_FOLDS = 4
RIDGE_PENALTY = 1.0  # one pseudo-observation against each weight of a standardised feature
MAX_STEPS = 30
MAX_PROBABILITY = 1.0 - 1e-9
MAX_LOG_ODDS = 30.0
PRIOR_EXAMINATIONS = 2.0  # by which the click rate of a pair elsewhere is pulled to the mean
MAX_SPREAD = 0.5  # standard error of the log-odds beyond which the model knows nothing of a row
MAX_DISTANCE = 1.0  # standard deviations outside the range of what was shown
MAX_WEIGHT = 100.0  # at which the ratio of two examinations is cut
MIN_AFTER_CLICK = 0.1  # factor of examination below a click, under which a row does not correct the model
MAX_PARAMETER_STEP = 3.0  # of a logarithm in one resample


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


class OrderValues(NamedTuple):
    """Means per page by outcome, clicks first, of an order and of the log; (n_resamples, n_outcomes)."""

    order: Floats
    log: Floats
    misfit: Floats | float = 0.0  # by outcome, how clicks correct the model where clicks above count: noise if it holds


@kernel
def _walk_pages(slots: Ints, table: Floats, attraction: Floats, worth: Floats, factor: Floats) -> tuple[Floats, Floats]:
    """Return by row P(examined) over all draws, and by outcome what its attraction changes below it."""
    # reading[j] is the probability that the last click was at position j − 1 (0: none), and later[i, j] the value of
    # the positions from i on in that case: e (v + a later[i + 1, i + 1]) + (1 − e a) later[i + 1, j], with e = table[i,
    # distance to the last click] times the factor of the item that was clicked last; `worth` (n_outcomes, n_rows) is
    # what an examined row brings.
    n_draws, n_pages, k = slots.shape
    n_outcomes, n = worth.shape
    examined, effect_below = np.zeros(n), np.zeros((n_outcomes, n))
    reading, later, chance = np.zeros(k + 1), np.zeros((n_outcomes, k + 1, k + 1)), np.zeros((k, k))
    for draw in range(n_draws):
        for page in range(n_pages):
            rows = slots[draw, page]
            for i in range(k - 1, -1, -1):
                row = rows[i]
                if row < 0:
                    later[:, i, : i + 1] = later[:, i + 1, : i + 1]
                    continue
                a = attraction[row]
                for j in range(i + 1):
                    e = table[i, i - j + 1] * factor[rows[j - 1]] if j > 0 else table[i, 0]
                    chance[i, j] = e
                    for o in range(n_outcomes):
                        click = worth[o, row] + a * later[o, i + 1, i + 1]
                        later[o, i, j] = e * click + (1.0 - e * a) * later[o, i + 1, j]
            reading[:] = 0.0
            reading[0] = 1.0
            for i in range(k):
                row = rows[i]
                if row < 0:
                    continue
                a = attraction[row]
                for j in range(i + 1):
                    probability = reading[j] * chance[i, j]
                    examined[row] += probability
                    for o in range(n_outcomes):
                        effect_below[o, row] += probability * (later[o, i + 1, i + 1] - later[o, i + 1, j])
                    reading[i + 1] += probability * a
                    reading[j] *= 1.0 - chance[i, j] * a
    return examined / n_draws, effect_below / n_draws


class OrderJudge:
    """Values orders on the pages of a table, each with its resamples."""

    def __init__(self, table: PageTable, reading: Reading, cluster: Ints) -> None:
        """Prepare the pages."""
        self.table, self.reading = table, reading
        self.n_clusters = int(cluster.max()) + 1
        self.page_cluster, self.row_cluster = cluster, cluster[table.page]
        self.pages_in = np.bincount(cluster, minlength=self.n_clusters).astype(np.float64)
        self.outcomes = np.stack([table.clicked, *table.outcomes.values()])
        self.shown = table.shown
        self.logged_slots = np.full((table.n_pages, table.n_positions), NOT_SHOWN)
        self.logged_slots[table.page[self.shown], table.position[self.shown]] = self.shown
        log = table.clicks()
        self.group = groups_of_last_clicks(log)
        # By resample, the value of the logged order, with which that of every order is compared.
        self._logged: dict[tuple[int, int, int], tuple[Floats, Floats]] = {}
        self.last_click_appeal = appeal_of_last_click(log, np.exp(reading.parameters[: table.n_positions]))

    def needs_model(self, slots: Ints) -> bool:
        """Return true where clicks alone do not value an order: items were not shown, or clicks above count."""
        return self.reading.has_memory or bool((self.table.position[slots[slots != NOT_SHOWN]] == NOT_SHOWN).any())

    def resampled_parameters(self, n: int, seed: int) -> tuple[Floats, Floats]:
        """Draw the weights of clusters, and the parameters that go with them; the first are those of the log itself."""
        rng, reading = default_rng(seed), self.reading
        weights = np.vstack([np.ones(self.n_clusters), rng.exponential(size=(n, self.n_clusters))])
        noise = rng.standard_normal((n + 1, len(reading.parameters))) @ matrix_root(reading.prior_covariance)
        noise[0] = 0.0
        steps = np.clip((weights - 1.0) @ reading.influence + noise, -MAX_PARAMETER_STEP, MAX_PARAMETER_STEP)
        return weights, reading.parameters + steps

    def clicks_reweighted(self, slots: Ints, n: int, seed: int) -> OrderValues:
        """Value an order of shown items by its reweighted clicks, on the log itself and then on `n` resamples."""
        table, k = self.table, self.table.n_positions
        rows = self.shown[(self.outcomes[:, self.shown] != 0.0).any(axis=0)]
        weights, parameters = self.resampled_parameters(n, seed)
        target, position = _target_positions(slots, rows, len(table.page)), table.position[rows]
        powers = self._powers(n, seed)
        if self.reading.trusts:  # by cluster, how many rows the order moves from each position to each other one
            draw, page, new = np.nonzero(slots != NOT_SHOWN)
            old = table.position[slots[draw, page, new]]
            key = (self.page_cluster[page] * k + old) * k + new
            counts = np.bincount(key, minlength=self.n_clusters * k * k)
            moves = counts.reshape(self.n_clusters, k * k) / len(slots)
        pages = np.maximum(weights @ self.pages_in, 1e-12)[:, None]
        order, log = np.empty((2, n + 1, len(self.outcomes)))
        for number in range(n + 1):
            curve = np.exp(parameters[number, :k])
            logs = np.append(parameters[number, :k], -np.inf)  # the last one: not placed
            power = powers[number][table.page[rows]]
            ratio = np.minimum(np.exp(power * (logs[target] - logs[position])).mean(axis=0), MAX_WEIGHT)
            weighted_values = weights[number, self.row_cluster[rows]] * self.outcomes[:, rows]
            log[number] = weighted_values.sum(axis=1)
            order[number] = (weighted_values * ratio).sum(axis=1)
            if self.reading.trusts:
                # Clicks by trust in a position stay there whatever item stands in it.
                background = self.reading.background * curve / np.exp(self.reading.parameters[:k])
                factors = background[:, None] * (curve / curve[:, None] - 1.0)
                by_trust = float((weights[number] @ moves) @ factors.ravel())
                order[number] -= by_trust * log[number] / max(log[number, 0], 1e-12)
        return OrderValues(order / pages, log / pages)

    def _powers(self, n: int, seed: int) -> list[Floats]:
        """Return by resample the power of the curve for each page; the first is the mean."""
        steepness = self.reading.steepness
        if steepness is None:
            return [np.ones(self.table.n_pages)] * (n + 1)
        noise = default_rng([seed, 1]).standard_normal((n + 1, len(steepness.mean)))
        noise[0] = 0.0
        return list(np.maximum(steepness.mean + noise * steepness.deviation, 0.0)[:, steepness.query])

    def doubly_robust(self, slots: Ints, model: AttractionModel, n: int, seed: int) -> OrderValues:
        """Value an order by the model of attraction, corrected by the clicks; as `clicks_reweighted`.

        What the same formula says of the pages as they were shown is compared with what they brought, and the
        difference is taken off.
        """
        weights, parameters = self.resampled_parameters(n, seed)
        pages = np.maximum(weights @ self.pages_in, 1e-12)[:, None]
        order, log = np.empty((2, n + 1, len(self.outcomes)))
        # The log examination of the shown rows is linear in the parameters.
        design, k = np.zeros((len(self.shown), len(self.reading.parameters))), self.reading.n_positions
        rows = np.arange(len(design))
        design[rows, self.table.position[self.shown]] = design[rows, k + self.group] = 1.0
        design[:, -1] = self.last_click_appeal
        misfit, slopes = np.zeros(len(self.outcomes)), model.slopes(design)
        for number in range(n + 1):
            a = model.attraction(weights[number] - 1.0, parameters[number] - self.reading.parameters, slopes)
            row_weights = weights[number, self.row_cluster]
            log[number] = (row_weights * self.outcomes).sum(axis=1)
            modelled, correction = self._robust(slots, parameters[number], a, row_weights)
            order[number] = modelled + correction
            if self.reading.has_memory:
                key = n, seed, number
                if key not in self._logged:
                    self._logged[key] = self._robust(self.logged_slots[None], parameters[number], a, row_weights)
                logged, logged_correction = self._logged[key]
                order[number] += log[number] - logged - logged_correction
                misfit = correction - logged_correction if number == 0 else misfit
        return OrderValues(order / pages, log / pages, misfit / pages[0])

    def log_examined(self, parameters: Floats) -> Floats:
        """Return the log examination of the shown rows, given the clicks above them."""
        n, position = self.reading.n_positions, self.table.position[self.shown]
        power = self._powers(0, 0)[0][self.table.page[self.shown]]
        logs: Floats = power * parameters[position] + parameters[n + self.group]
        logs += parameters[-1] * self.last_click_appeal
        return logs

    def exposure(self, slots: Ints, parameters: Floats, attraction: Floats, worth: Floats) -> tuple[Floats, Floats]:
        """Return by row how likely an order has it examined, and what its attraction changes below it by outcome."""
        table, k = self.table, self.table.n_positions
        if not self.reading.has_memory:
            draw, page, position = np.nonzero(slots != NOT_SHOWN)
            rows = slots[draw, page, position]
            logs = self._powers(0, 0)[0][page] * parameters[position]
            examined = np.bincount(rows, np.exp(logs), len(table.page)) / len(slots)
            return examined, np.zeros(worth.shape)
        reading = np.exp(parameters[:k, None] + parameters[k + group_of_distance(np.arange(k + 1))])
        factor = np.exp(parameters[-1] * readings.appeal_of(attraction, table.clicked))
        return _walk_pages(slots, reading, attraction, worth, factor)

    def _robust(self, slots: Ints, parameters: Floats, a: Floats, row_weights: Floats) -> tuple[Floats, Floats]:
        """Return the sums over pages of the modelled value and of its correction by clicks, by outcome."""
        table, rows = self.table, self.shown
        worth = np.stack([np.ones(len(a)), *(table.worth[name] for name in table.outcomes)])
        clicks = (row_weights * table.clicked * worth).sum(axis=1)
        rates = (row_weights * self.outcomes).sum(axis=1) / np.maximum(clicks, 1e-12)
        rates[0] = 1.0
        value = a * rates[:, None] * worth
        examined, effect_below = self.exposure(slots, parameters, a, value)
        logged = np.exp(self.log_examined(parameters))
        # Below a click after which nearly everybody stops, a row says nothing, and a small error of e counts much.
        k = table.n_positions
        read = np.where(np.exp(parameters[k + self.group]) >= MIN_AFTER_CLICK, 1.0, 0.0)
        direct = read * np.minimum(examined[rows] / logged, MAX_WEIGHT)
        indirect = read * np.clip(effect_below[:, rows] / logged, -MAX_WEIGHT, MAX_WEIGHT)
        correction = direct * (self.outcomes[:, rows] - logged * value[:, rows])
        correction += indirect * (table.clicked[rows] - logged * a[rows])
        return (row_weights * examined * value).sum(axis=1), (row_weights[rows] * correction).sum(axis=1)


def _target_positions(slots: Ints, rows: Ints, n_rows: int) -> Ints:
    """Return (n_draws, n): where each draw of an order puts each of the chosen rows; −1: nowhere."""
    target = np.full((len(slots), n_rows), NOT_SHOWN)
    draw, page, position = np.nonzero(slots != NOT_SHOWN)
    target[draw, slots[draw, page, position]] = position
    return target[:, rows]
