"""The weighted sum by which a saved ranker orders items, with what such a sum cannot hold of the ranker."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.cells import Cells
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers, layers_of
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.core.types import Floats, Query
from rankloop.evaluation.ranking.saved_model import NORMALISED
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.standardisation import NOISE
from rankloop.logs.list_log import ListLog

TRIED, ITEMS = 40, 8  # queries by which a model is checked against the ranker, and their items
EXPLORATION = "exploration: it always shows the order that it thinks best, so its log teaches little"
CONTEXT = "whoever asks: {n} numbers of context"
INSIDE = "scaling inside each query (--normalise): features must come as they were learned from"
HASHED = "hashed columns: values by a schema, their crosses and the memory of ids"
ROUNDING = 1e-9


class Term(NamedTuple):
    """A feature, what it counts for, and how it is scaled before: (value − mean) / deviation."""

    name: str
    weight: float
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def is_scaled(self) -> bool:
        return self.mean != 0.0 or self.deviation != 1.0


class LinearModel(NamedTuple):
    """score = Σ weight · (feature − mean) / deviation; `lost` says what of the ranker is not in it."""

    terms: tuple[Term, ...]
    lost: tuple[str, ...] = ()
    agreement: float = 1.0  # pairs of items that it orders as the ranker does, where it only resembles it

    def scores(self, features: Floats) -> Floats:
        """Of rows of features, in the order of the terms."""
        _, weights, means, deviations = zip(*self.terms)
        found: Floats = (features - np.array(means)) / np.array(deviations) @ np.array(weights)
        return found


class HashedModel(NamedTuple):
    """The weights of a ranker with a schema, by column; `lost` as above."""

    schema: Schema
    columns: dict[int, float]
    lost: tuple[str, ...] = ()


def saved_model(path: str | Path) -> LinearModel | HashedModel:
    """What a saved ranker orders by; refused where that is no weighted sum."""
    session, notes = load_with_notes(path)
    name, lost = Path(path).name, list[str]()
    if _explores(session):
        lost.append(EXPLORATION)
    if session.problem.n_context:
        lost.append(CONTEXT.format(n=session.problem.n_context))
    if notes.get(NORMALISED):
        lost.append(INSIDE)
    if session.problem.n_features == 0:
        raise InvalidInput(f"{name} remembers single items and has no features: there is no model to export")
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas") or ()]
    if schemas:
        newest = max(schemas, key=lambda schema: schema.version)
        return HashedModel(newest, _columns(from_layers(session.state, "cells")), tuple(lost))
    model = LinearModel(_terms(session, name), tuple(lost))
    _check(session, model, name)
    return model


def resembling(model: HashedModel, table: ListLog, path: str | Path) -> LinearModel:
    """A sum of the columns of numbers that orders the lists of a table as nearly as can be as the ranker does.

    By least squares of the ranker's scores inside each list.
    """
    encoder, kinds = Encoder(model.schema), model.schema.features
    names = [name for name in kinds if name in table.values and _numbers(table.values[name])]
    if not names:
        raise InvalidInput(f"{table.name} has no column of numbers among the ranker's fields: {', '.join(kinds)}")
    rows, wanted, sizes = [], [], []
    for one in table.lists(model.schema):
        query = one.query(encoder)
        values = np.array([[float(row.get(name, math.nan)) for name in names] for row in one.rows])
        rows.append(values)
        wanted.append(_hashed_scores(model, query))
        sizes.append(len(values))
    features = np.concatenate(rows)
    mean, deviation = np.nanmean(features, axis=0), np.nanstd(features, axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    scaled = np.nan_to_num((features - mean) / deviation)
    scores = np.concatenate(wanted)
    of_list = np.repeat(np.arange(len(sizes)), sizes)
    centred, target = _centred(scaled, of_list), _centred(scores[:, None], of_list)[:, 0]
    weights = np.linalg.lstsq(centred.T @ centred + 1e-6 * np.eye(len(names)), centred.T @ target, rcond=None)[0]
    terms = tuple(Term(*term) for term in zip(names, weights.tolist(), mean.tolist(), deviation.tolist()))
    return LinearModel(terms, (*model.lost, HASHED), _agreement(scaled @ weights, scores, sizes))


def _terms(session: Session, name: str) -> tuple[Term, ...]:
    """Weights and the moments of `standardised`, from the layers of the state."""
    problem = session.problem
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    weights = from_layers(session.state, "weights")
    if not isinstance(weights, np.ndarray) or weights.shape != (problem.n_features,):
        raise InvalidInput(f"{name}: {type(session.learner).__name__} has no weight for each feature to export")
    means, deviations, own = np.zeros(len(names)), np.ones(len(names)), np.array(weights, dtype=np.float64)
    for layer in layers_of(session.state):
        if hasattr(layer, "squares") and layer.n_rows:
            means, deviations = layer.mean, np.sqrt(layer.squares / layer.n_rows)
            own = np.where(deviations > NOISE * np.abs(means), own, 0.0)
            deviations = np.where(deviations > NOISE * np.abs(means), deviations, 1.0)
    return tuple(Term(*term) for term in zip(names, own.tolist(), means.tolist(), deviations.tolist()))


def _check(session: Session, model: LinearModel, name: str) -> None:
    """Refuse a ranker that orders items in another way than by its weights."""
    rng, learner = np.random.default_rng(0), session.learner
    means, deviations = (np.array([term[i] for term in model.terms]) for i in (2, 3))
    for _ in range(TRIED):
        features = means + deviations * rng.normal(size=(ITEMS, len(means)))
        context = np.zeros(session.problem.n_context)
        wanted = learner.predict(session.state, Query("", features, context))
        scores = model.scores(features)
        if np.diff(scores[wanted]).max(initial=-1.0) > ROUNDING * max(1.0, float(np.abs(scores).max())):
            raise InvalidInput(
                f"{name}: {type(learner).__name__} does not order items by a weighted sum of their features, which is "
                "all that these formats hold"
            )


def _explores(session: Session) -> bool:
    if session.problem.n_hashed:
        learner = from_layers(session.learner, "inner") or session.learner
        return type(learner).__name__ not in ("FixedWeights", "ClickRegression", "OnlineGradient")
    query = Query("", np.random.default_rng(0).normal(size=(3, session.problem.n_features)), np.empty(0))
    query = query._replace(context=np.zeros(session.problem.n_context))
    order = session.learner.predict(session.state, query)
    certain = session.learner.log_prob(session.state, query, order)
    return not abs(certain) <= ROUNDING


def _columns(cells: Cells) -> dict[int, float]:
    columns, values = cells.used()
    return {int(column): float(weight) for column, weight in zip(columns, values[:, 0]) if weight != 0.0}


def _hashed_scores(model: HashedModel, query: Query) -> Floats:
    rows = query.features
    weights = np.array([model.columns.get(int(column), 0.0) for column in rows.columns])
    dense = [model.columns.get(model.schema.n_hashed + slot, 0.0) for slot in range(rows.dense.shape[1])]
    return np.asarray(rows.to_array() @ np.concatenate([weights, dense]))


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values if value is not None)


def _centred(values: Floats, of_list: Any) -> Floats:
    sums = np.stack([np.bincount(of_list, column) for column in values.T], axis=1)
    centred: Floats = values - (sums / np.bincount(of_list)[:, None])[of_list]
    return centred


def _agreement(own: Floats, wanted: Floats, sizes: list[int]) -> float:
    """Which share of the pairs of a list both order alike."""
    alike = total = 0
    start = 0
    for size in sizes:
        one, other = own[start : start + size], wanted[start : start + size]
        first, second = np.triu_indices(size, 1)
        apart = other[first] != other[second]
        alike += int((np.sign(one[first] - one[second]) == np.sign(other[first] - other[second]))[apart].sum())
        total += int(apart.sum())
        start += size
    return alike / total if total else 1.0
