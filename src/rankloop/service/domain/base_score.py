"""The base: the existing ranker, given by a feature, weights, a booster or the order of the request."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankloop.adapter import MAX_ID_LENGTH, QueryRequest
from rankloop.core.errors import InvalidInput, Rejected, rejected_as
from rankloop.core.kernels import ranking_of, scores_of
from rankloop.core.types import Floats, Ints, Problem, Rows
from rankloop.features.schema import Schema
from rankloop.logs.list_log import LOGGED_SCORE
from rankloop.service.errors import Unavailable
from rankloop.service.records import Values
from rankloop.service.request_bodies import BaseBody, CreateBody

if TYPE_CHECKING:
    from rankloop.training.trees.booster_file import NamedBooster

BASE_SCORE = "base score"  # the feature that is added if the base is given by weights or by a booster


class Base(NamedTuple):
    """The base of a ranker, which computes the score of each item unless requests have it; by default there is none."""

    column: int | None = None  # of the score among the features
    weights: Floats | None = None
    model: str = ""  # computes the score, unless a request names another
    booster: "NamedBooster | None" = None  # computes the score before it is logged
    computed_score: str = ""  # the feature that the service computes, if there is one

    @classmethod
    def of(cls, body: BaseBody | None, problem: Problem, schema: Schema | None) -> "Base":
        """Check the base of a request for a problem without a score that is computed; its booster is read later.

        The schema has the field of a computed score; it is None if features are plain numbers.
        """
        if body is None:
            return cls()
        if [body.feature, body.weights, body.booster, body.kind].count(None) != 3:
            raise Rejected(
                "base", "give exactly one of feature (that holds the existing score), weights, booster and kind"
            )
        column = _numeric_column(body, problem) if schema is None else _schema_column(body, schema)
        weights = checked_weights(body.weights, problem.n_features, "base.weights")
        model = ""
        if body.model is not None:
            if body.feature is None and body.booster is None:
                reason = "names the model that computes base.feature; a base given by weights needs no model"
                raise Rejected("base.model", reason)
            model = _checked_model(body.model, "base.model")
        return cls(column, weights, model, computed_score="" if column is None else score_name(body))

    def with_score(self, request: QueryRequest) -> QueryRequest:
        """Return a request of plain numbers with the score as its last feature, if it is computed."""
        if not self.computed_score:
            return request
        features = np.ascontiguousarray(np.column_stack([request.features, self._scores_of(request)]))
        ranked = features if request.candidates is None else np.ascontiguousarray(features[request.candidates])
        return request._replace(features=features, query=request.query._replace(features=ranked))

    def with_values(self, rows: Sequence[Values], query_id: str) -> list[Values]:
        """Return values by name with the score, if it is computed; a given `logged_score` stays."""
        if not self.computed_score:
            return list(rows)
        scores = self._scores_of_values(rows, query_id)
        return [{self.computed_score: score, **row} for row, score in zip(rows, scores.tolist())]

    def order(self, request: QueryRequest) -> Ints:
        """Return the candidates of a request in the order of the base."""
        query = request.query
        if self.column is not None:
            numbers = query.features.dense if type(query.features) is Rows else query.features
            return ranking_of(np.ascontiguousarray(numbers[:, self.column]))
        if request.values is not None:
            scores = self._scores_of_values(request.values.rows, query.id)
        else:
            scores = self._scores_of(request)
        return ranking_of(scores if request.candidates is None else scores[request.candidates])

    def model_named(self, model: str) -> str:
        """Return the model that a request names for the score, or refuse it."""
        if self.booster is not None:
            raise Rejected("base_model", "the booster of this ranker computes the base score: leave the field out")
        if not self.model:
            raise Rejected("base_model", "this ranker was created without base.model: leave the field out")
        return _checked_model(model, "base_model")

    def _scores_of(self, request: QueryRequest) -> Floats:
        if self.weights is not None:
            return scores_of(request.features, self.weights)
        # Values that the request did not have are missing values to the booster.
        rows = request.features if request.present is None else np.where(request.present, request.features, np.nan)
        return self._scored(lambda booster: booster.scores(rows, request.query.id), len(rows))

    def _scores_of_values(self, rows: Sequence[Values], query_id: str) -> Floats:
        return self._scored(lambda booster: booster.scores_of_values(rows, query_id), len(rows))

    def _scored(self, score: Callable[[Any], Floats], n_items: int) -> Floats:
        """Return the scores of the booster; without one those of the given order, as the field `logged_score` has."""
        if self.booster is None:
            return -1.0 - np.arange(n_items, dtype=np.float64)
        try:
            return score(self.booster)
        except InvalidInput as error:  # its library was uninstalled
            raise Unavailable(f"the booster of this ranker cannot be used here: {error}") from None


def _numeric_column(body: BaseBody, problem: Problem) -> int | None:
    """Return the column of the score among plain numbers; a score that is computed comes after them."""
    names, feature = problem.feature_names, body.feature
    if body.booster is not None and not names:
        raise Rejected("base.booster", "needs features by name: give problem.feature_names, or a schema")
    if score_name(body) in names:
        raise Rejected("problem.feature_names", f"{score_name(body)!r} is added by the base: leave it out")
    if feature is None:
        return problem.n_features if body.weight else None
    if isinstance(feature, str):
        if feature not in names:
            raise Rejected("base.feature", f"{feature!r} is not one of the feature_names")
        return names.index(feature)
    if not 0 <= feature < problem.n_features:
        raise Rejected("base.feature", f"must be from 0 to {problem.n_features - 1}, got {feature}")
    return feature


def _schema_column(body: BaseBody, schema: Schema) -> int | None:
    """Return the column of the score among the declared numbers of a schema."""
    if body.weights is not None:
        field = '{"score": {"kind": "number", "scale": "linear"}}'
        advice = f"add the score of the existing ranker to the features as a declared number, {field}"
        raise Rejected("base.weights", f"are not possible with a schema: {advice}, and name it in base.feature")
    computed = score_name(body)
    if computed and not body.weight:
        return None
    with rejected_as("problem.schema" if computed else "base.feature"):
        return schema.slot(computed or str(body.feature))


def score_name(base: BaseBody | None) -> str:
    """Return the name of the score that the service computes for a base; empty if requests have the score."""
    if base is None or base.feature is not None:
        return ""
    return BASE_SCORE if base.kind is None else LOGGED_SCORE


def _checked_model(model: str, field: str) -> str:
    if not model or len(model) > MAX_ID_LENGTH or not model.isprintable():
        raise Rejected(field, f"must be a name or a hash of 1 to {MAX_ID_LENGTH} printable characters")
    return model


def check_booster_file(body: CreateBody) -> None:
    """Refuse a request whose booster file cannot be read. It may take a second: run it on a thread."""
    from rankloop.training.trees.booster_file import check_booster

    with rejected_as("base.booster"):
        check_booster((body.base and body.base.booster) or b"")


def checked_weights(weights: list[float] | None, n_features: int, field: str) -> Floats | None:
    """Return weights as an array, or refuse them; None stays None.

    Args:
      weights: One finite number per feature.
      n_features: The number of features.
      field: The field of the request, for the error.
    """
    if weights is None:
        return None
    if len(weights) != n_features or not all(map(math.isfinite, weights)):
        raise Rejected(field, f"must be {n_features} finite numbers, one per feature")
    return np.array(weights, dtype=np.float64)
