"""The base: the existing ranker, given by a feature, weights or a booster, whose score a learner starts from."""

import dataclasses
import math
from typing import Any

import numpy as np

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.registry import spec_of
from rankloop.core.types import Floats, Problem
from rankloop.features.schema import Schema
from rankloop.service.requests import BaseBody, CreateBody

BASE_SCORE = "base score"  # the feature that is added if the base is given by weights or by a booster
LINEAR_NUMBER = {"kind": "number", "scale": "linear"}


def base_column(base: BaseBody | None, problem: Problem, n_features: int) -> tuple[int | None, Floats | None]:
    """Return the column of the base score among the features, and the weights of the base if it has any.

    Args:
      base: The base of a request; None if there is none.
      problem: The problem of the request.
      n_features: The number of features of a request; a score computed here is added after them.

    Raises:
      Rejected: If a field of the base is wrong.
    """
    if base is None:
        return None, None
    _check_one_base(base)
    if base.booster is not None:
        if not problem.feature_names:
            raise Rejected("base.booster", "needs features by name: give problem.feature_names, or a schema")
        if BASE_SCORE in problem.feature_names:
            raise Rejected("problem.feature_names", f"{BASE_SCORE!r} is added by the booster: leave it out")
        return n_features, None
    if base.weights is not None:
        return n_features, check_weights(base.weights, n_features, "base.weights")
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

    Raises:
      Rejected: If a field of the base is wrong.
    """
    if base is None:
        return None
    _check_one_base(base)
    if base.booster is not None:
        try:
            return schema.slot(BASE_SCORE)
        except InvalidInput as error:
            raise Rejected("problem.schema", f"the booster's score has this name: {error}") from None
    if base.weights is not None:
        raise Rejected(
            "base.weights",
            "are not possible with a schema: add the score of the existing ranker to the features as a declared "
            'number, {"score": {"kind": "number", "scale": "linear"}}, and name it in base.feature',
        )
    name = base.feature
    kind = schema.features.get(name) if isinstance(name, str) else None
    if kind is None:
        fields = ", ".join(schema.features)
        raise Rejected("base.feature", f"{name!r} is not one of the fields of the items, which are {fields:.300}")
    if spec_of(kind)["kind"] != "number" or not kind.size:
        example = '{"kind": "number", "scale": "linear"}'
        raise Rejected("base.feature", f"{name!r} must be a number with a declared scale, as in {example}")
    return int(schema.slots[str(name)])


def with_base_score(schema: Schema) -> Schema:
    """Return the schema with a field for the score of a booster."""
    if BASE_SCORE in schema.features or BASE_SCORE in schema.context:
        return schema
    return dataclasses.replace(schema, features={**schema.features, BASE_SCORE: LINEAR_NUMBER})


def base_weight(base: BaseBody) -> float:
    """Return the initial weight of the base score."""
    if not 0 < base.weight < math.inf:
        raise Rejected("base.weight", f"must be a number above 0, got {base.weight}")
    return base.weight


def base_model(base: BaseBody | None) -> str:
    """Return the name or hash of the model that computes the base score; empty if none is named."""
    if base is None or base.model is None:
        return ""
    if base.feature is None and base.booster is None:
        raise Rejected(
            "base.model", "names the model that computes base.feature; a base given by weights needs no model"
        )
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
    if sum(part is not None for part in (base.feature, base.weights, base.booster)) != 1:
        raise Rejected("base", "give exactly one of feature (that holds the existing score), weights and booster")


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
