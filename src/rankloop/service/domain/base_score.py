"""Today's ranker, whose score another begins with and is compared with: a feature, weights, or a booster."""

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

BASE_SCORE = "base score"  # the feature that a base by its weights or a booster adds
LINEAR = {"kind": "number", "scale": "linear"}


def base_column(base: BaseBody | None, problem: Problem, given: int) -> tuple[int | None, Floats | None]:
    """Where its score stands among the features, and its weights where it is given by them."""
    if base is None:
        return None, None
    _check_one_base(base)
    if base.booster is not None:
        if not problem.feature_names:
            raise Rejected("base.booster", "takes features by name: give them in problem.feature_names, or a schema")
        if BASE_SCORE in problem.feature_names:
            raise Rejected("problem.feature_names", f"{BASE_SCORE!r} is what the booster adds: leave it out")
        return given, None
    if base.weights is not None:
        return given, check_weights(base.weights, given, "base.weights")
    feature: Any = base.feature
    if isinstance(feature, str):
        if feature not in problem.feature_names:
            raise Rejected("base.feature", f"{feature!r} is not one of the feature_names")
        return problem.feature_names.index(feature), None
    if not 0 <= feature < given:
        raise Rejected("base.feature", f"must be from 0 to {given - 1}, got {feature}")
    return int(feature), None


def base_slot(base: BaseBody | None, schema: Schema) -> int | None:
    """Where the score of today's ranker stands among the declared numbers."""
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
            "with a schema there is no list of numbers to weigh: add today's score to the features as a declared "
            'number, {"score": {"kind": "number", "scale": "linear"}}, and name it in base.feature',
        )
    name = base.feature
    kind = schema.features.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(schema.features)
        raise Rejected("base.feature", f"{name!r} is not one of the fields of the items, which are {known:.300}")
    if spec_of(kind)["kind"] != "number" or not kind.size:
        example = '{"kind": "number", "scale": "linear"}'
        raise Rejected("base.feature", f"{name!r} must be a number with a declared scale, as in {example}")
    return int(schema.slots[str(name)])


def with_base_score(schema: Schema) -> Schema:
    """The schema with a field for the score of a booster."""
    if BASE_SCORE in schema.features or BASE_SCORE in schema.context:
        return schema
    return dataclasses.replace(schema, features={**schema.features, BASE_SCORE: LINEAR})


def base_weight(base: BaseBody) -> float:
    if not 0 < base.weight < math.inf:
        raise Rejected("base.weight", f"must be a number above 0, got {base.weight}")
    return base.weight


def base_model(base: BaseBody | None) -> str:
    if base is None or base.model is None:
        return ""
    if base.feature is None and base.booster is None:
        raise Rejected("base.model", "names what computes base.feature; a base by its weights needs no model")
    check_model(base.model, "base.model")
    return base.model


def check_model(model: str, field: str) -> None:
    if not model or len(model) > MAX_ID_LENGTH or not model.isprintable():
        raise Rejected(field, f"must be a name or a hash of 1 to {MAX_ID_LENGTH} printable characters")


def check_booster_file(body: CreateBody) -> None:
    """Refuse a request whose booster is none; on a thread, as it may take a second."""
    from rankloop.training.trees.booster_file import check_booster

    try:
        check_booster((body.base and body.base.booster) or b"")
    except InvalidInput as error:
        raise Rejected("base.booster", str(error)) from None


def _check_one_base(base: BaseBody) -> None:
    if sum(part is not None for part in (base.feature, base.weights, base.booster)) != 1:
        raise Rejected(
            "base", "give either the feature that holds today's score, the weights of today's ranker, or its booster"
        )


def check_weights(weights: list[float], n_features: int, field: str) -> Floats:
    """Finite weights, one per feature."""
    if len(weights) != n_features or not all(map(math.isfinite, weights)):
        raise Rejected(field, f"must be {n_features} finite numbers, one per feature")
    return np.array(weights, dtype=np.float64)
