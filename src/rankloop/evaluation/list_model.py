"""What a ranker would earn by examination: inverse propensities, doubly robust, and with the known swaps of a log."""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.random import default_rng

from rankloop.click_models.feature_fit import (
    MAX_LOG,
    MAX_PROBABILITY,
    N_GOING,
    AttractionFit,
    ClickFit,
    FeatureRows,
    ReadingPosterior,
    attractive,
    cells_by_last_click,
    cells_by_position,
    fit_attraction,
    fit_clicks,
    last_clicks,
    logistic,
    reading_posterior,
)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.list_pages import NOWHERE, PageTable

ListMethod = Literal["examination_ips", "examination_dr", "swap_dr", "cascade_dr", "browsing_dr"]
CLICKS = "clicks"
N_FOLDS = 4
RESAMPLES = 200
DEPENDENT = 8.0  # by so much must the log-likelihood be higher for people to leave after a click
ROUNDS = 4
PRIOR_EXAMINED = 2.0  # examinations by which what is known of an item elsewhere is pulled to the mean
MIN_SHARED = 0.05  # of the rows: so many must be known elsewhere for that to be a feature
MAX_SPREAD = 0.5  # of the log-odds of a click, beyond which a click model knows nothing
BENDS = (0.2, 0.5, 0.8)  # of the log-odds of what was shown
FAR = 1.0  # standard deviations beyond the range of what was shown


def list_method_of(name: str) -> ListMethod:
    """The estimator of this name."""
    if name not in get_args(ListMethod):
        raise InvalidInput(f"estimator = {name!r} is not known{nearest(name, get_args(ListMethod))}")
    return name  # type: ignore[return-value]


class Values(NamedTuple):
    """Means per page by outcome, clicks first: of the ranker, and what the log itself brought."""

    ranker: Floats
    log: Floats
    misfit: Floats  # what the same formula says of the pages as they were shown, less what they brought

    def gain(self) -> Floats:
        return self.ranker - self.log


class Exposure(NamedTuple):
    """By row: how likely the ranker has it examined, and what its attraction costs the rows below it, by outcome."""

    examined: Floats  # ∂ value / ∂ its own worth
    by_attraction: Floats  # (n_outcomes, n_rows): ∂ value / ∂ its attraction, through what is examined below


@kernel
def _walk(slots: Ints, table: Floats, attraction: Floats, worth: Floats, going: Floats) -> tuple[Floats, Floats]:
    """P(examined) of each row over all draws and pages, and what its attraction changes below it, by outcome.

    f[j] is how likely the person is there with the last click at j − 1 (0: none), and ahead[i, j] what they then bring
    from position i on: e (v + a g ahead[i + 1, i + 1]) + (1 − e a) ahead[i + 1, j], where e = table[i, j].
    """
    n_draws, n_pages, k = slots.shape
    n_outcomes, n = worth.shape
    examined, through = np.zeros(n), np.zeros((n_outcomes, n))
    f, ahead = np.zeros(k + 1), np.zeros((n_outcomes, k + 1, k + 1))
    for draw in range(n_draws):
        for page in range(n_pages):
            own = slots[draw, page]
            for i in range(k - 1, -1, -1):
                row = own[i]
                for j in range(i + 1):
                    for o in range(n_outcomes):
                        if row < 0:
                            ahead[o, i, j] = ahead[o, i + 1, j]
                            continue
                        e, a = table[i, j], attraction[row]
                        further = a * going[row] * ahead[o, i + 1, i + 1]
                        ahead[o, i, j] = e * (worth[o, row] + further) + (1.0 - e * a) * ahead[o, i + 1, j]
            f[:] = 0.0
            f[0] = 1.0
            for i in range(k):
                row = own[i]
                if row < 0:
                    continue
                for j in range(i + 1):
                    seen = f[j] * table[i, j]
                    examined[row] += seen
                    for o in range(n_outcomes):
                        through[o, row] += seen * (going[row] * ahead[o, i + 1, i + 1] - ahead[o, i + 1, j])
                    f[i + 1] += seen * attraction[row] * going[row]
                    f[j] *= 1.0 - table[i, j] * attraction[row]
    return examined / n_draws, through / n_draws


class ListModel:
    """Examination and attraction fitted to a table of pages, attraction on the sessions of other folds.

    With `dependent` people may leave after a click, more or less likely by how attractive the clicked item is; with
    `browsing` what they examine depends on how far their last click is. What is known of items comes from `like`.
    """

    def __init__(
        self,
        table: PageTable,
        *,
        told: Floats | None = None,
        dependent: bool = False,
        browsing: bool = False,
        like: "ListModel | None" = None,
        limit: float = 100.0,
        seed: int = 0,
    ) -> None:
        self.table, self.limit, self.dependent = table, limit, dependent
        self.names = (CLICKS, *table.outcomes)
        self.rows = table.shown
        self.row_session = table.session[table.page]
        self.log_told = None if told is None else np.log(np.maximum(told[: table.n_positions], 1e-6))
        self.cells = cells_by_position(table.n_positions)
        self.cell = np.zeros(len(table.page), dtype=np.int64)
        self.cell[self.rows] = table.position[self.rows]
        self.features = self._features()
        self.going = np.zeros((len(table.page), N_GOING))
        self.going[:, 0] = 1.0
        self.shown = self._shown(self.rows)
        self.features = self._told_by_others() if like is None else like.features
        if browsing:
            self.cells, at = cells_by_last_click(table.n_positions), self.rows
            last = last_clicks(table.position[at], table.clicked[at], table.page[at])
            self.cell[at] = self.cells.at[table.position[at], last + 1]
            self.shown = self._shown(self.rows)
        self.examination = self._examination(dependent)
        fold = default_rng(seed).permutation(table.n_sessions) % N_FOLDS
        self.fold = fold[self.row_session] if table.n_sessions >= N_FOLDS else np.zeros(len(table.page), np.int64)
        self.folds = self.fitted_folds(self.parameters)
        self.stood = np.full((1, table.n_pages, table.n_positions), NOWHERE)  # the rows as they were shown
        self.stood[0, table.page[self.rows], table.position[self.rows]] = self.rows
        self.earned = np.stack([table.clicked, *table.outcomes.values()])
        self.worth = np.stack([np.ones(len(table.page)), *table.worth.values()])

    @property
    def parameters(self) -> Floats:
        """log P(examined) by cell, then the log-odds of going on after a click."""
        return self.examination.parameters

    def _shown(self, at: Ints) -> FeatureRows:
        table = self.table
        return FeatureRows(
            position=table.position[at],
            clicked=table.clicked[at],
            page=table.page[at],
            session=self.row_session[at],
            going=self.going[at],
            cell=self.cell[at],
            n_pages=table.n_pages,
            n_sessions=table.n_sessions,
            cells=self.cells,
        )

    def chain(self, parameters: Floats, a: Floats) -> ReadingPosterior | None:
        """Who was still there at the shown rows; None where nobody leaves."""
        if not self.dependent:
            return None
        p = np.minimum(np.exp(parameters[self.shown.cell]) * a[self.rows], MAX_PROBABILITY)
        return reading_posterior(self.shown, p, self.shown.going @ parameters[self.cells.n :])

    def fitted_folds(self, parameters: Floats) -> list[AttractionFit]:
        """A click model without each fold, given examination."""
        k, there = self.cells.n, self._whole(parameters)[1]
        found = []
        for number in range(int(self.fold.max()) + 1):
            own = np.flatnonzero((self.fold[self.rows] != number) | (self.fold.max() == 0))
            at = self.rows[own]
            found.append(fit_attraction(self.features[at], self._shown(at), parameters[:k], there[own]))
        return found

    def attraction(self, weights: list[Floats]) -> Floats:
        """Of every row, by the model that has not seen its session."""
        found = np.empty(len(self.fold))
        for number, own in enumerate(weights):
            at = self.fold == number
            found[at] = attractive(self.features[at], own)
        return found

    def straight(self) -> Floats:
        """Attraction of every row by a click model without bends, given examination."""
        features, (_, there) = self.features[:, : -len(BENDS)], self._whole(self.parameters)
        fit = fit_attraction(features[self.rows], self.shown, self.parameters[: self.cells.n], there)
        return attractive(features, fit.weights)

    def values(
        self,
        method: ListMethod,
        parameters: Floats | None = None,
        weights: list[Floats] | None = None,
        counts: Floats | None = None,
        folds: list[AttractionFit] | None = None,
    ) -> Values:
        """The estimate: V(â) + Σ_shown ∂V/∂a · (click − examined · â) / examined, â being the click model.

        V is what the ranker earns where items attract as the model says. Where examination depends on the position
        alone it is Σ examined[position] · â, and this is the doubly robust estimator; without â, inverse propensities.
        Where clicks change what is examined below, what this formula says of the pages as they were shown may differ
        from what they brought; that difference is taken off. `counts` is how often each session counts.
        """
        table = self.table
        known = self.parameters if parameters is None else parameters
        times = np.ones(table.n_sessions) if counts is None else counts
        row_times, n = times[self.row_session], float(times[table.session].sum())
        fits = self.folds if folds is None else folds
        a = self.attraction([one.weights for one in fits] if weights is None else weights)
        rates = self.rates(row_times)
        v = a * rates[:, None] * self.worth
        rows, chain = self.rows, self.chain(known, a)
        seen = np.exp(known[self.shown.cell]) * (1.0 if chain is None else chain.from_above)
        base = seen if method != "swap_dr" else self._swapped(known)[rows]
        earned = (row_times * self.earned).sum(axis=1)

        def robust(exposure: Exposure) -> Floats:
            own = np.minimum(exposure.examined[rows] / base, self.limit)
            if method == "examination_ips":
                return np.asarray((row_times[rows] * own * self.earned[:, rows]).sum(axis=1))
            through = np.clip(exposure.by_attraction[:, rows] / base, -self.limit, self.limit)
            surprise = table.clicked[rows] - seen * a[rows]
            further = own * (self.earned[:, rows] - seen * v[:, rows]) + through * surprise
            return np.asarray((row_times * exposure.examined * v).sum(axis=1) + (row_times[rows] * further).sum(axis=1))

        ranker, again = robust(self.exposure(known, a, v)), earned
        if self.dependent:
            again = robust(self.exposure(known, a, v, self.stood))
        return Values((ranker + earned - again) / n, earned / n, (again - earned) / n)

    def exposure(self, parameters: Floats, a: Floats, v: Floats, slots: Ints | None = None) -> Exposure:
        """Who is examined under the ranker in question: by a walk from the top over where the last click may be."""
        n = self.cells.n
        going = logistic(self.going @ parameters[n:]) if self.dependent else np.ones(len(a))
        table = np.minimum(np.exp(parameters[self.cells.at]), 1.0)
        return Exposure(*_walk(self.table.slots if slots is None else slots, table, a, v, going))

    def beyond(self) -> Floats:
        """By row: whether it was not shown, so that only the click model speaks for it."""
        found: Floats = (self.table.position == NOWHERE).astype(np.float64)
        return found

    def novel(self) -> Floats:
        """By row: whether the click model has seen nothing like it."""
        table, spread = self.table, np.empty(len(self.fold))
        for number, one in enumerate(self.folds):
            at = self.fold == number
            spread[at] = np.sqrt(np.einsum("ij,jk,ik->i", self.features[at], one.inverse, self.features[at]))
        low, high = self.features[self.rows].min(axis=0), self.features[self.rows].max(axis=0)
        far = ((self.features < low - FAR) | (self.features > high + FAR)).any(axis=1)
        unknown = table.unknown > 0.5
        if not self.described:
            times = np.bincount(table.pair[self.rows], minlength=int(table.pair.max()) + 1)
            unknown = unknown | (times[table.pair] == 0)
        novel: Floats = np.where((spread > MAX_SPREAD) | far | unknown, self.beyond(), np.float64(0.0))
        return novel

    def resampled(self, method: ListMethod, resamples: int, seed: int) -> list[Values]:
        """The estimate on resamples of the sessions; all that was fitted moves with them, by one step each."""
        rng, n = default_rng(seed), self.table.n_sessions
        k = self.cells.n
        moves = self.examination.scores @ self.examination.inverse[:, : len(self.parameters)]
        found = []
        for _ in range(resamples):
            counts = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
            more = counts - 1.0
            step = np.clip(more @ moves, -2.0, 2.0)
            parameters = self.parameters + step
            parameters[:k] = np.minimum(parameters[:k], MAX_LOG)
            weights = [one.moved(more, parameters[:k] - self.parameters[:k]) for one in self.folds]
            found.append(self.values(method, parameters, weights, counts))
        return found

    def rates(self, row_times: Floats) -> Floats:
        """What a click brings of each outcome, by its worth."""
        clicks = (row_times * self.table.clicked * self.worth).sum(axis=1)
        brought = (row_times * self.earned).sum(axis=1)
        rates: Floats = brought / np.maximum(clicks, 1e-12)
        rates[0] = 1.0
        return rates

    def _swapped(self, parameters: Floats) -> Floats:
        """P(examined) of each row over what the log could have shown."""
        logged = self.table.logged
        if logged is None:
            raise InvalidInput("swap_dr needs the probability of each position, which this log does not tell")
        found: Floats = np.maximum(logged @ np.exp(parameters[: self.table.n_positions]), 1e-9)
        return found

    def _features(self) -> Floats:
        """Standardised over what was shown, with a constant."""
        shown = self.table.features[self.rows]
        mean, spread = shown.mean(axis=0), shown.std(axis=0)
        own = spread > 1e-12
        self.described = bool(own[:-1].any())  # the last is where the ranker itself puts the item
        scaled = (self.table.features[:, own] - mean[own]) / spread[own]
        return np.ascontiguousarray(np.column_stack([np.ones(len(scaled)), scaled]))

    def _told_by_others(self) -> Floats:
        """What is known of an item on the pages of others joins the features, where it is; then bends."""
        found = self._fit(False)
        elsewhere = self._elsewhere(found)
        if elsewhere is not None:
            self.features = np.ascontiguousarray(np.column_stack([self.features, elsewhere]))
            found = self._fit(False)
        return np.ascontiguousarray(np.column_stack([self.features, self._bends(found)]))

    def _examination(self, dependent: bool) -> ClickFit:
        """Fitted to all pages."""
        found = self._fit(False)
        if not dependent:
            return found
        weights, alone = found.weights[: self.features.shape[1]], found.likelihood
        for _ in range(3):  # who goes on depends on attraction, and attraction on who went on
            odds = self.features @ weights
            hits = odds[self.table.clicked > 0]
            self.going[:, 1] = (odds - hits.mean()) / max(float(hits.std()), 1e-9)
            self.shown = self._shown(self.rows)
            found = self._fit(True)
            if found.likelihood - alone < DEPENDENT:  # nobody leaves
                break
            weights = self._whole(found.parameters)[0].weights
        return found

    def _whole(self, parameters: Floats) -> tuple[AttractionFit, Floats]:
        """Attraction on all pages, and who was still there: expectation maximisation over that."""
        there = np.ones(len(self.rows))
        for _ in range(ROUNDS):
            fit = fit_attraction(self.features[self.rows], self.shown, parameters[: self.cells.n], there)
            chain = self.chain(parameters, attractive(self.features, fit.weights))
            if chain is None:
                break
            there = chain.after_all
        return fit, there

    def _fit(self, dependent: bool) -> ClickFit:
        """With the order before chance among the features, so that swaps alone tell examination where there are any."""
        features = self.features[self.rows]
        if self.swapped:
            own = np.eye(self.table.n_positions + 2)[self.table.before[self.rows]]  # the last: not known, or below
            features = np.hstack([features, own])
        return fit_clicks(features, self.shown, log_examined=self.log_told, dependent=dependent)

    @property
    def swapped(self) -> bool:
        """Whether the log tells where items stood before chance moved them."""
        before, position = self.table.before[self.rows], self.table.position[self.rows]
        return bool(((before != position) & (before != NOWHERE)).any())

    @property
    def moved(self) -> bool:
        """Whether something stood at two positions."""
        pair, position = self.table.pair[self.rows], self.table.position[self.rows]
        one = np.zeros(int(pair.max()) + 1, dtype=np.int64)
        one[pair] = position
        return bool((one[pair] != position).any())

    def _bends(self, fit: ClickFit) -> Floats:
        """Hinges along the fitted log-odds, so that attraction need not follow one logistic curve."""
        odds = self.features @ fit.weights[: self.features.shape[1]]
        knots, spread = np.quantile(odds[self.rows], BENDS), max(float(odds[self.rows].std()), 1e-9)
        found: Floats = np.maximum(odds[:, None] - knots, 0.0) / spread
        return found

    def _elsewhere(self, fit: ClickFit) -> Floats | None:
        """The log-odds of a click on the same item in other sessions; None where too few are known there."""
        table, at = self.table, self.rows
        pair, session = table.pair, self.row_session
        n_pairs, examined = int(pair.max()) + 1, np.zeros(len(pair))
        examined[at] = np.exp(fit.log_examined[table.position[at]])
        key = session * n_pairs + pair
        _, own = np.unique(key, return_inverse=True)
        seen, clicks = np.bincount(pair, examined, n_pairs), np.bincount(pair, table.clicked, n_pairs)
        others = seen[pair] - np.bincount(own, examined)[own]
        hits = clicks[pair] - np.bincount(own, table.clicked)[own]
        if float((others[at] > 0.5).mean()) < MIN_SHARED:
            return None
        mean = float(table.clicked[at].sum() / examined[at].sum())
        rate = np.clip(
            (np.maximum(hits, 0.0) + PRIOR_EXAMINED * mean) / (np.maximum(others, 0.0) + PRIOR_EXAMINED), 1e-4, 1 - 1e-4
        )
        odds: Floats = np.log(rate / (1 - rate)) - np.log(mean / (1 - mean))
        return odds
