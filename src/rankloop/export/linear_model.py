"""The weighted sum by which a saved ranker orders items, with what such a sum cannot hold of the ranker."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.learner import RobustState, from_layers, layers_of
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.core.types import Features, Floats, Problem, Query, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.evaluation.ranking.saved_model import NORMALISED_NOTE
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.standardisation import MIN_RELATIVE_DEVIATION

N_CHECKED_QUERIES, N_CHECKED_ITEMS = 40, 8  # random queries by which a model is compared with the ranker
LOST_EXPLORATION = "exploration: it always shows its best order, so its log is of little use for training"
LOST_CONTEXT = "the user's features: {n} numbers of context"
LOST_NORMALISATION = "scaling inside each query (--normalise): features must come as they were learned from"
LOST_RANGES = "ranges: values outside of the range that the ranker has learned for a feature count as they are"
MAX_ROUNDING_ERROR = 1e-9


class Term(NamedTuple):
    """A feature, its weight, and its scaling (value − mean) / deviation."""

    name: str
    weight: float
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def is_scaled(self) -> bool:
        """True where mean or deviation is not the default."""
        return self.mean != 0.0 or self.deviation != 1.0


class LinearModel(NamedTuple):
    """score = Σ weight · (feature − mean) / deviation; `lost` says what of the ranker is not in it."""

    terms: tuple[Term, ...]
    lost: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [term.name for term in self.terms]

    def scores(self, features: Floats) -> Floats:
        """Return the scores of rows of features, in the order of the terms."""
        _, weights, means, deviations = zip(*self.terms)
        scores: Floats = (features - np.array(means)) / np.array(deviations) @ np.array(weights)
        return scores


class HashedModel(NamedTuple):
    """The weights of a ranker with a schema, by column; `lost` as above."""

    schema: Schema
    columns: dict[int, float]
    lost: tuple[str, ...] = ()


def saved_model(path: str | Path) -> LinearModel | HashedModel:
    """Read the weighted sum that a saved ranker orders items by.

    Returns:
      A weight per named feature, or per hashed column where the ranker has a schema.
    """
    session, notes = load_with_notes(path)
    name, lost = Path(path).name, list[str]()
    if explores(session):
        lost.append(LOST_EXPLORATION)
    if session.problem.n_context:
        lost.append(LOST_CONTEXT.format(n=session.problem.n_context))
    if notes.get(NORMALISED_NOTE):
        lost.append(LOST_NORMALISATION)
    if session.problem.n_features == 0:
        raise InvalidInput(f"{name} remembers single items and has no features: there is no model to export")
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas") or ()]
    if schemas:
        newest = max(schemas, key=lambda schema: schema.version)
        return HashedModel(newest, _columns(from_layers(session.state, "table")), tuple(lost))
    if isinstance(session.state, RobustState):
        lost.append(LOST_RANGES)
        session = _without_ranges(session)
    model = LinearModel(_terms(session, name), tuple(lost))
    _check(session, model, name)
    return model


def _without_ranges(session: Session) -> Session:
    """Return the session of the learner inside of `robust`."""
    inner = Session(session.learner.inner, session.problem, session.seed)  # type: ignore[attr-defined]
    state, generator, learned, refused = session.snapshot()
    inner.restore(state.inner, generator, learned, refused)
    return inner


def explores(session: Session) -> bool:
    """Return true if a ranker may show another order than the one that it thinks best.

    The exact probability of that order on a random query tells it, whatever the learner and its wrappers are.
    """
    problem = session.problem
    if problem.n_features == 0:
        return True
    query = Query("", _random_features(problem), np.zeros(problem.n_context))
    best = session.learner.predict(session.state, query)
    return not abs(session.learner.log_prob(session.state, query, best)) <= MAX_ROUNDING_ERROR


def _random_features(problem: Problem) -> Features:
    rng, n_items = np.random.default_rng(0), problem.n_items or 3
    dense = rng.normal(size=(n_items, problem.n_dense))
    if not problem.n_hashed:
        return dense
    columns = np.sort(rng.choice(problem.n_hashed, size=min(n_items, problem.n_hashed), replace=False))
    positions = np.arange(n_items) % len(columns)
    return Rows(np.arange(n_items + 1), positions, np.ones(n_items), columns, dense)


def _terms(session: Session, name: str) -> tuple[Term, ...]:
    """Weights and the moments of `standardised`, from the layers of the state."""
    problem = session.problem
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    weights = from_layers(session.state, "weights")
    if not isinstance(weights, np.ndarray) or weights.shape != (problem.n_features,):
        raise InvalidInput(f"{name}: {type(session.learner).__name__} has no weight for each feature to export")
    means, deviations, scaled = np.zeros(len(names)), np.ones(len(names)), np.array(weights, dtype=np.float64)
    for layer in layers_of(session.state):
        if hasattr(layer, "squares") and layer.n_rows:
            means, deviations = layer.mean, np.sqrt(layer.squares / layer.n_rows)
            scaled = np.where(deviations > MIN_RELATIVE_DEVIATION * np.abs(means), scaled, 0.0)
            deviations = np.where(deviations > MIN_RELATIVE_DEVIATION * np.abs(means), deviations, 1.0)
    return tuple(map(Term, names, scaled.tolist(), means.tolist(), deviations.tolist()))


def _check(session: Session, model: LinearModel, name: str) -> None:
    """Refuse a ranker that orders items in another way than by its weights."""
    rng, learner = np.random.default_rng(0), session.learner
    means, deviations = (np.array([term[i] for term in model.terms]) for i in (2, 3))
    for _ in range(N_CHECKED_QUERIES):
        features = means + deviations * rng.normal(size=(N_CHECKED_ITEMS, len(means)))
        order = learner.predict(session.state, Query("", features, np.zeros(session.problem.n_context)))
        scores = model.scores(features)
        if np.diff(scores[order]).max(initial=-1.0) > MAX_ROUNDING_ERROR * max(1.0, float(np.abs(scores).max())):
            raise InvalidInput(
                f"{name}: {type(learner).__name__} does not order items by a weighted sum of their features, which is "
                "all that these formats hold"
            )


def _columns(table: WeightTable) -> dict[int, float]:
    columns, values = table.used()
    return {int(column): float(weight) for column, weight in zip(columns, values[:, 0]) if weight != 0.0}
