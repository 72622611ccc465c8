"""How attractive each shown item is: what its fields say, and what its own clicks say beyond that."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import optimize, sparse
from scipy.special import expit

from rankloop.click_models.base import ALIKE_ROWS, MIN_PROBABILITY, ClickModel, Prior
from rankloop.click_models.fit import MODELS
from rankloop.core.types import Floats
from rankloop.experiments.rehearsal.log_view import RehearsalLog
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ShownList

TODAY = "todays_position"  # the field that tells learners, and this model, where an item stands today
RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0)  # how strongly fields are taken to say nothing; the strongest first
HELD_OUT = 4  # one visit in so many chooses
MAX_STEPS = 80


class Attraction(NamedTuple):
    """The people of a log, and what to believe about every row."""

    fitted: ClickModel
    by_fields: Floats  # by row: attraction as the fields say
    pair_mean: Floats  # by pair: the mean of it
    fields_matter: bool
    pair: Any  # by row

    def mean(self) -> Floats:
        """By row: what is most likely."""
        return self._rows(self.fitted.attraction)

    def drawn(self, rng: Generator) -> Floats:
        """By row: a world that may be, the pairs being drawn from what their clicks leave open."""
        prior, hits = self.fitted.evidence.prior, self.fitted.evidence.clicks
        if prior.rows >= ALIKE_ROWS:
            return self.mean()
        misses = np.maximum(self.fitted.evidence.examined - hits, 0.0)
        own = rng.beta(prior.rows * prior.mean + hits + 1e-9, prior.rows * (1.0 - prior.mean) + misses + 1e-9)
        return self._rows(own)

    def _rows(self, by_pair: Floats) -> Floats:
        found: Floats = np.clip(by_pair[self.pair] * self.by_fields / self.pair_mean[self.pair], 0.0, 1.0)
        return found


def attraction_of(log: RehearsalLog, model: str, seed: int = 0) -> Attraction:
    """Fit a click model whose belief about items is what their fields, and their position today, say of them.

    Today's order may know what no field tells, so the mean position of a pair is a field too. Fields count as far as
    they foresee clicks of held-out visits; what pairs differ in beyond that is as much as their rows err together.
    """
    pages, click_model = log.pages, MODELS[model]
    examined = click_model.fit(pages).probabilities(pages, given_clicks=True).examined
    examined = np.clip(examined, MIN_PROBABILITY, 1.0)
    means, matters = _by_fields(log, examined, seed)
    if not matters:
        prior = click_model.fit_alike(pages).prior_of(pages)
        flat = np.full(len(pages.pair), float(prior.mean[0]))
        return Attraction(click_model.fit(pages, prior), flat, prior.mean, False, pages.pair)
    counts = np.maximum(np.bincount(pages.pair, minlength=pages.n_pairs), 1)
    pair_mean = np.clip(np.bincount(pages.pair, means, pages.n_pairs) / counts, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    prior = click_model.fit_alike(pages, pair_mean).prior_of(pages)
    fitted = click_model.fit(pages, Prior(pair_mean, prior.rows))
    return Attraction(fitted, means, pair_mean, True, pages.pair)


def _by_fields(log: RehearsalLog, examined: Floats, seed: int) -> tuple[Floats, bool]:
    """Attraction of each row by its fields, and whether these matter at all."""
    pages = log.pages
    design, typical = _designs(log)
    visits = np.random.default_rng(seed).permutation(int(pages.session.max()) + 1) % HELD_OUT == 0
    out = np.repeat(visits[pages.session], np.diff(pages.offsets))
    if out.all() or not out.any():
        return np.empty(0), False
    constant = _fitted(design[~out][:, :1], pages.clicked[~out], examined[~out], 0.0)
    losses = {np.inf: _losses(design[out][:, :1], pages.clicked[out], examined[out], constant)}
    weights = np.concatenate([constant, np.zeros(design.shape[1] - 1)])
    for ridge in RIDGES:
        weights = _fitted(design[~out], pages.clicked[~out], examined[~out], ridge, weights)
        losses[ridge] = _losses(design[out], pages.clicked[out], examined[out], weights)
    best = min(losses, key=lambda ridge: float(losses[ridge].mean()))
    gain = losses[np.inf] - losses[best]
    if not gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)):
        return np.empty(0), False
    weights = _fitted(design, pages.clicked, examined, best, weights)
    found: Floats = np.clip(expit(typical @ weights), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return found, True


def _fitted(design: Any, clicked: Floats, examined: Floats, ridge: float, begin: Floats | None = None) -> Floats:
    """Minimise −log P(clicks), P(click) = examined · σ(x · w), with ridge/2 · |w|²; the constant goes free."""
    free = np.ones(design.shape[1])
    free[0] = 0.0

    def loss(weights: Floats) -> tuple[float, Floats]:
        share = expit(design @ weights)
        missed = examined * share * (1.0 - share) / (1.0 - examined * share + 1e-12)
        slope = np.where(clicked > 0.0, share - 1.0, missed)
        value = _rowwise(share, clicked, examined).sum() + 0.5 * ridge * float((free * weights**2).sum())
        return float(value), design.T @ slope + ridge * free * weights

    start = np.zeros(design.shape[1]) if begin is None else begin
    found: Floats = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS}).x
    return found


def _losses(design: Any, clicked: Floats, examined: Floats, weights: Floats) -> Floats:
    return _rowwise(expit(design @ weights), clicked, examined)


def _rowwise(share: Floats, clicked: Floats, examined: Floats) -> Floats:
    p = np.clip(examined * share, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return -np.where(clicked > 0.0, np.log(p), np.log1p(-p))


def _designs(log: RehearsalLog) -> tuple[Any, Any]:
    """A column of ones and those of the fields; of the rows as they stood, and where their pairs stand on average."""
    pages = log.pages
    counts = np.maximum(np.bincount(pages.pair, minlength=pages.n_pairs), 1)
    typical = (np.bincount(pages.pair, pages.position, pages.n_pairs) / counts)[pages.pair]
    encoder = Encoder(without_memory(with_today(log.schema)))
    parts = [_encoded(log.lists, encoder, stands) for stands in (pages.position.astype(np.float64), typical)]
    columns = np.unique(np.concatenate([part[1] for part in parts]))
    return tuple(_matrix(*part, columns) for part in parts)


def _encoded(lists: Sequence[ShownList], encoder: Encoder, stands: Floats) -> tuple[Any, Any, Floats, Floats]:
    starts, columns, values, dense, row = [np.zeros(1, np.int64)], [], [], [], 0
    for one in lists:
        features = standing_at(one, stands[row : row + len(one.ids)]).query(encoder).features
        starts.append(starts[-1][-1] + features.starts[1:])
        columns.append(features.columns[features.positions])
        values.append(features.values)
        dense.append(features.dense)
        row += len(one.ids)
    return np.concatenate(starts), np.concatenate(columns), np.concatenate(values), np.concatenate(dense)


def _matrix(starts: Any, columns: Any, values: Floats, dense: Floats, known: Any) -> Any:
    n_rows = len(starts) - 1
    hashed = sparse.csr_matrix((values, np.searchsorted(known, columns), starts), shape=(n_rows, max(len(known), 1)))
    scale = np.maximum(dense.std(axis=0), 1e-9) if dense.size else np.ones(dense.shape[1])
    plain = sparse.csr_matrix((dense - dense.mean(axis=0)) / scale) if dense.size else sparse.csr_matrix((n_rows, 0))
    return sparse.hstack([sparse.csr_matrix(np.ones((n_rows, 1))), hashed, plain], format="csr")


def standing_at(one: ShownList, stands: Sequence[float] | Floats) -> ShownList:
    """The list with where its items stand as a field of each."""
    return one._replace(rows=[dict(row) | {TODAY: float(stand)} for row, stand in zip(one.rows, stands)])


def with_today(schema: Schema) -> Schema:
    """The schema with the position of today's order as a number."""
    return Schema(dict(schema.features) | {TODAY: "number"}, schema.context, schema.crosses, schema.bits)


def without_memory(schema: Schema) -> Schema:
    """The schema without ids, which say nothing of an item that is new, and without their crosses."""
    features = {name: kind for name, kind in schema.features.items() if not kind.memory}
    context = {name: kind for name, kind in schema.context.items() if not kind.memory}
    known = features.keys() | context.keys()
    crosses = tuple(cross for cross in schema.crosses if known >= set(cross.split("*")))
    used = {name for cross in crosses for name in cross.split("*")}
    return Schema(features, {name: kind for name, kind in context.items() if name in used}, crosses, schema.bits)
