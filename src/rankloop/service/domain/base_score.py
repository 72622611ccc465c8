"""The base: the existing ranker, given by a feature, weights, a booster or the order of the request."""

import dataclasses
import math
from typing import Any

import numpy as np

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.registry import spec_of
from rankloop.core.types import Floats, Problem
from rankloop.features.schema import Schema
from rankloop.logs.list_log import LOGGED_SCORE, with_logged_score
from rankloop.service.requests import BaseBody, CreateBody

BASE_SCORE = "base score"  # the feature that is added if the base is given by weights or by a booster
LINEAR_NUMBER = {"kind": "number", "scale": "linear"}


def base_column(base: BaseBody | None, problem: Problem, n_features: int) -> tuple[int | None, Floats | None]:
    """Return the column of the base score among the features, and the weights of the base if it has any.

    Args:
      base: The base of a request; None if there is none.
      problem: The problem of the request.
      n_features: The number of features of a request; a score computed here is added after them.
    """
    if base is None:
        return None, None
    _check_one_base(base)
    if base.booster is not None and not problem.feature_names:
        raise Rejected("base.booster", "needs features by name: give problem.feature_names, or a schema")
    if score_name(base) in problem.feature_names:
        raise Rejected("problem.feature_names", f"{score_name(base)!r} is added by the base: leave it out")
    weights = None if base.weights is None else check_weights(base.weights, n_features, "base.weights")
    if score_name(base):
        return (n_features if base.weight else None), weights
    feature: Any = base.feature
    if isinstance(feature, str):
        if feature not in problem.feature_names:
            raise Rejected("base.feature", f"{feature!r} is not one of the feature_names")
        return problem.feature_names.index(feature), None
    if not 0 <= feature < n_features:
        raise Rejected("base.feature", f"must be from 0 to {n_features - 1}, got {feature}")
    return int(feature), None


def base_slot(base: BaseBody | None, schema: Schema) -> int | None:
    """Return the column of the base score among the declared numbers of a schema.

    Args:
      base: The base of a request; None if there is none.
      schema: The schema of the request.
    """
    if base is None:
        return None
    _check_one_base(base)
    if score_name(base) and base.weights is None:
        if not base.weight:
            return None
        try:
            return schema.slot(score_name(base))
        except InvalidInput as error:
            raise Rejected("problem.schema", f"the base's score has this name: {error}") from None
    example = '{"kind": "number", "scale": "linear"}'
    if base.weights is not None:
        advice = f'add the score of the existing ranker to the features as a declared number, {{"score": {example}}}'
        raise Rejected("base.weights", f"are not possible with a schema: {advice}, and name it in base.feature")
    name = base.feature
    kind = schema.features.get(name) if isinstance(name, str) else None
    if kind is None:
        fields = ", ".join(schema.features)
        raise Rejected("base.feature", f"{name!r} is not one of the fields of the items, which are {fields:.300}")
    if spec_of(kind)["kind"] != "number" or not kind.size:
        raise Rejected("base.feature", f"{name!r} must be a number with a declared scale, as in {example}")
    return int(schema.slots[str(name)])


def score_name(base: BaseBody | None) -> str:
    """Return the name of the score that the service computes for a base; empty if requests have the score."""
    if base is None or base.feature is not None:
        return ""
    return BASE_SCORE if base.kind is None else LOGGED_SCORE


def with_base_score(schema: Schema, base: BaseBody | None) -> Schema:
    """Return the schema of a request with a field for the score of the base, if the service computes it.

    Args:
      schema: The schema.
      base: The base of the request.
    """
    name = score_name(base)
    if base is None or not name or not base.weight or name in schema.features or name in schema.context:
        return schema
    if base.kind is not None:
        return with_logged_score(schema)
    return dataclasses.replace(schema, features={**schema.features, BASE_SCORE: LINEAR_NUMBER})


def given_scores(n_items: int) -> Floats:
    """Return the scores of items in their given order: minus the position, from 1, as the field `logged_score` has."""
    return -1.0 - np.arange(n_items, dtype=np.float64)


def base_model(base: BaseBody | None) -> str:
    """Return the name or hash of the model that computes the base score; empty if none is named."""
    if base is None or base.model is None:
        return ""
    if base.feature is None and base.booster is None:
        reason = "names the model that computes base.feature; a base given by weights needs no model"
        raise Rejected("base.model", reason)
    check_model(base.model, "base.model")
    return base.model


def check_model(model: str, field: str) -> None:
    """Refuse a name of a model that is empty, too long or not printable.

    Args:
      model: The name or hash.
      field: The field of the request, for the error.
    """
    if not model or len(model) > MAX_ID_LENGTH or not model.isprintable():
        raise Rejected(field, f"must be a name or a hash of 1 to {MAX_ID_LENGTH} printable characters")


def check_booster_file(body: CreateBody) -> None:
    """Refuse a request whose booster file cannot be read. It may take a second: run it on a thread."""
    from rankloop.training.trees.booster_file import check_booster

    try:
        check_booster((body.base and body.base.booster) or b"")
    except InvalidInput as error:
        raise Rejected("base.booster", str(error)) from None


def _check_one_base(base: BaseBody) -> None:
    if sum(part is not None for part in (base.feature, base.weights, base.booster, base.kind)) != 1:
        raise Rejected("base", "give exactly one of feature (that holds the existing score), weights, booster and kind")


def check_weights(weights: list[float], n_features: int, field: str) -> Floats:
    """Return weights as an array, or refuse them.

    Args:
      weights: One finite number per feature.
      n_features: The number of features.
      field: The field of the request, for the error.
    """
    if len(weights) != n_features or not all(map(math.isfinite, weights)):
        raise Rejected(field, f"must be {n_features} finite numbers, one per feature")
    return np.array(weights, dtype=np.float64)
