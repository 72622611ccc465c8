"""A log as a rehearsal needs it, and the posterior of its users: attraction by fields and clicks, with examination."""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from rankloop.click_models.base import ALIKE_ROWS, MIN_PROBABILITY, ClickModel, Prior, clipped, row_log_likelihoods
from rankloop.click_models.examination import Examination
from rankloop.click_models.fit import UserFit
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, Ints
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import MONEY, PURCHASES, ClickArrays, ListLog, ShownList
from rankloop.logs.schema_guess import guessed_schema

PRIOR_CLICKS = 10.0  # of the belief about what a click on an item sells: that of all items
TODAY_FIELD = "todays_position"  # the field that tells learners, and this model, where an item stands today
RIDGE_CHOICES = (300.0, 100.0, 30.0, 10.0, 3.0)  # how strongly fields are taken to say nothing; the strongest first
HELD_OUT_SHARE = 4  # one visit in so many chooses the ridge
MIN_PRIOR_ROWS = 0.5  # of the belief about a pair
MAX_STEPS = 80


class RehearsalLog(NamedTuple):
    """Lists in today's order; rows of `pages` and `worth` are those of the lists, one after the other."""

    name: str
    lists: list[ShownList]
    schema: Schema
    pages: ClickArrays
    worth: dict[str, Floats]  # by row: what a click is worth, in clicks (1), purchases and money
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: ListLog, schema: Schema | None = None) -> Self:
        """Prepare a log; the schema of its columns is guessed from a table, or that of an export, unless given."""
        log = log if schema is None else log.typed_by(schema)
        pages, notes = log.clicks(), list(log.notes)
        if log.export is None:
            notes.append(str(log.columns))
        if schema is None and log.export is not None:
            schema = log.schemas[-1] if log.schemas else Schema(dict.fromkeys(log.values, "number"))
        elif schema is None:
            guess = guessed_schema(log)
            schema, log = guess.schema, log.typed_by(guess.schema)
            if guess.outcomes:
                notes.append(f"outcomes, so not learned from: {', '.join(guess.outcomes)}")
        return cls(log.name, log.lists(schema), schema, pages, _worth(log, pages), tuple(notes))


def _worth(log: ListLog, pages: ClickArrays) -> dict[str, Floats]:
    """Return what a click on each row is worth; purchases by the item's own share, drawn to that of all items."""
    worth = {"clicks": np.ones(len(pages.pair))}
    if log.export is not None and not log.export.outcomes:
        return worth
    (brought, prices), item, clicked = log.outcomes(), pages.by_item().pair, pages.clicked

    def per_click(values: Floats) -> Floats:
        """Return for each row the mean worth of its item's clicks, with that of all clicks as if seen ten times."""
        values = values[log.order] * clicked
        mean = values.sum() / max(clicked.sum(), 1.0)
        sums, counts = np.bincount(item, values), np.bincount(item, clicked)
        by_row: Floats = ((sums + PRIOR_CLICKS * mean) / (counts + PRIOR_CLICKS))[item]
        return by_row

    if PURCHASES in brought:
        worth[PURCHASES] = per_click((brought[PURCHASES] > 0).astype(np.float64))
    if log.columns.revenue:
        worth[MONEY] = per_click(brought[MONEY])
    elif PURCHASES in brought and MONEY in prices:
        worth[MONEY] = worth[PURCHASES] * prices[MONEY][log.order]
    return worth | {name: per_click(values) for name, values in brought.items() if name not in (PURCHASES, MONEY)}


class Attraction(NamedTuple):
    """The posterior of the users of a log: worlds are drawn from it."""

    fitted: ClickModel
    examination: Examination  # the shared estimate
    by_fields: Floats  # by row, attraction by the fields alone
    pair_mean: Floats  # by pair, the mean of that
    fields_matter: bool  # they predict clicks
    pair: Ints  # by row, its (query, item) pair
    position: Ints  # by row

    @classmethod
    def of(cls, log: RehearsalLog, users: UserFit, seed: int = 0) -> Self:
        """Fit the posterior of attraction: a prior by fields and by the usual position, then the clicks of each pair.

        Today's order may know what no field tells, so the mean position of a pair is a field too. Fields count as far
        as they predict clicks of held-out visits, which `seed` draws; what pairs differ in beyond that is as much as
        their rows err together.
        """
        pages, click_model = log.pages, type(users.fitted)
        table = click_model.examination_table(pages, users.examination)
        examined = np.clip(users.fitted.probabilities(pages, given_clicks=True).examined, MIN_PROBABILITY, 1.0)
        means, matters = _by_fields(log, examined, seed)
        if matters:
            pair_mean = clipped(pages.mean_of_pairs(means))
            prior = Prior(pair_mean, click_model.fit_alike(pages, pair_mean, table=table).prior_of(pages).rows)
        else:
            prior = click_model.fit_alike(pages, table=table).prior_of(pages)
            means = prior.mean[pages.pair]
        fitted = click_model.fit(pages, prior, table=table)
        return cls(fitted, users.examination, means, prior.mean, matters, pages.pair, pages.position)

    def draw(self, rng: Generator) -> tuple[Floats, dict[str, Any]]:
        """Draw a world: attraction by row, and users."""
        # Examination is drawn from its estimate. Given the draw, so much of each pair was examined, and its attraction
        # is drawn from what its clicks leave open.
        fitted, factor = self.fitted, np.ones(len(self.position))
        if fitted.browsing:
            curve = np.clip(self.examination.draws(rng, 1)[0], MIN_PROBABILITY, 1.0)
            change = curve / np.clip(self.examination.curve, MIN_PROBABILITY, 1.0)
            table = np.clip(fitted.examination * change[:, None], MIN_PROBABILITY, 1.0)
            fitted, factor = replace(fitted, examination=table), change[self.position]
        hits, prior = fitted.evidence.clicks, fitted.evidence.prior
        shown = np.maximum(np.bincount(self.pair, minlength=len(hits)), 1)
        examined = fitted.evidence.examined * np.bincount(self.pair, factor, len(hits)) / shown
        scale = float(fitted.evidence.examined.sum() / max(examined.sum(), 1e-12))  # clicks stay as many as they were
        mean = clipped(prior.mean * scale)
        if prior.rows >= ALIKE_ROWS:
            return self._rows(mean), fitted.spec(by_grade=False)
        # The belief about a pair counts for so many rows that pairs differ from it by a share of its mean. The variance
        # that the log shows is that of pairs that are examined often. Were it the same for all, pairs that the fields
        # and today's order take for poor would be drawn as good far too often.
        noise = float(np.average(mean * (1.0 - mean), weights=fitted.evidence.examined + 1e-12))
        clicks = (prior.rows + 1.0) * float(np.average(mean**2, weights=fitted.evidence.examined**2 + 1e-12)) / noise
        rows, misses = np.maximum(clicks / mean, MIN_PRIOR_ROWS), np.maximum(examined - hits, 0.0)
        drawn = rng.beta(rows * mean + hits + 1e-9, rows * (1.0 - mean) + misses + 1e-9)
        return self._rows(drawn), fitted.spec(by_grade=False)

    def _rows(self, by_pair: Floats) -> Floats:
        """Return the attraction of each row: that of its pair, as its fields differ from the mean of the pair."""
        rows: Floats = np.clip(by_pair[self.pair] * self.by_fields / self.pair_mean[self.pair], 0.0, 1.0)
        return rows


def _by_fields(log: RehearsalLog, examined: Floats, seed: int) -> tuple[Floats, bool]:
    """Attraction of each row by its fields, and whether these matter at all."""
    pages, design = log.pages, _design(log)
    visits = np.random.default_rng(seed).permutation(int(pages.session.max()) + 1) % HELD_OUT_SHARE == 0
    out = visits[pages.session][pages.page]
    if out.all() or not out.any():
        return np.empty(0), False
    constant = _fitted(design[~out][:, :1], pages.clicked[~out], examined[~out], 0.0)

    def losses_of(log_odds: Floats) -> Floats:
        return -row_log_likelihoods(examined[out] * _logistic(log_odds), pages.clicked[out])

    losses = {np.inf: losses_of(design[out][:, :1] @ constant)}
    weights = np.concatenate([constant, np.zeros(design.shape[1] - 1)])
    for ridge in RIDGE_CHOICES:
        weights = _fitted(design[~out], pages.clicked[~out], examined[~out], ridge, weights)
        losses[ridge] = losses_of(design[out] @ weights)
    best = min(losses, key=lambda ridge: float(losses[ridge].mean()))
    gain = losses[np.inf] - losses[best]
    if not gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)):
        return np.empty(0), False
    weights = _fitted(design, pages.clicked, examined, best, weights)
    return clipped(_logistic(design @ weights)), True


def _fitted(design: Any, clicked: Floats, examined: Floats, ridge: float, begin: Floats | None = None) -> Floats:
    """Minimise −log P(clicks), P(click) = examined · σ(x · w), with ridge/2 · |w|²; the constant goes free."""
    free = np.ones(design.shape[1])
    free[0] = 0.0

    def loss(weights: Floats) -> tuple[float, Floats]:
        share = _logistic(design @ weights)
        missed = examined * share * (1.0 - share) / (1.0 - examined * share + 1e-12)
        slope = np.where(clicked > 0.0, share - 1.0, missed)
        value = -row_log_likelihoods(examined * share, clicked).sum() + 0.5 * ridge * float((free * weights**2).sum())
        return float(value), design.T @ slope + ridge * free * weights

    start = np.zeros(design.shape[1]) if begin is None else begin
    minimize = import_extra("scipy.optimize").minimize
    minimum: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS}).x
    return minimum


def _design(log: RehearsalLog) -> Any:
    """Return a column of ones, those of the fields, and where each pair stands on average."""
    # Where a row itself stood is by chance in part, which would hide how much today's order knows.
    pages, encoder = log.pages, Encoder(without_memory(log.schema.with_feature(TODAY_FIELD, "number")))
    typical = pages.mean_of_pairs(pages.position)[pages.pair]
    features = [
        page.with_value(TODAY_FIELD, typical[start : start + len(page.ids)]).query(encoder).features
        for page, start in zip(log.lists, pages.offsets.tolist())
    ]
    sizes = [np.zeros(1, np.int64), *(np.diff(rows.starts) for rows in features)]
    columns = np.concatenate([rows.columns[rows.positions] for rows in features])
    values, dense = (np.concatenate([getattr(rows, name) for rows in features]) for name in ("values", "dense"))
    used, sparse, n_rows = np.unique(columns), import_extra("scipy.sparse"), len(pages.pair)
    hashed = sparse.csr_matrix(
        (values, np.searchsorted(used, columns), np.cumsum(np.concatenate(sizes))), shape=(n_rows, max(len(used), 1))
    )
    scale = np.maximum(dense.std(axis=0), 1e-9) if dense.size else np.ones(dense.shape[1])
    plain = sparse.csr_matrix((dense - dense.mean(axis=0)) / scale) if dense.size else sparse.csr_matrix((n_rows, 0))
    return sparse.hstack([sparse.csr_matrix(np.ones((n_rows, 1))), hashed, plain], format="csr")


def _logistic(log_odds: Floats) -> Floats:
    probabilities: Floats = 0.5 * (1.0 + np.tanh(0.5 * log_odds))  # without overflow at either end
    return probabilities


def without_memory(schema: Schema) -> Schema:
    """Return the schema without ids, which say nothing of an item that is new, and without their crosses."""
    ids = {name for part in (schema.features, schema.context) for name, kind in part.items() if kind.memory}
    crosses = [cross.split("*") for cross in schema.crosses]
    crossed = {name for names in crosses if ids.isdisjoint(names) for name in names}
    return schema.without(ids.union(schema.context.keys() - crossed))
