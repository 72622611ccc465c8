"""What a ranker is: its learner, its problem and its names, checked once, when it is created."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.batch.estimator import NORMALISED
from rankloop.core.adapter import INVALID_ID, Adapter, is_valid_id
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.kernels import scores_of
from rankloop.core.plain import receipt_type
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import build, spec_of
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Floats, Problem
from rankloop.learners.wrappers.base_score import BaseScore
from rankloop.logs.context import Encoding
from rankloop.measures.dcg import MAX_EXPONENT
from rankloop.service.requests import BaseBody, CreateBody, ProblemBody

MAX_FEATURES = 10_000
MAX_WINDOW = 30 * 86400.0


class RankerConfig(NamedTuple):
    """A checked `CreateBody`."""

    body: CreateBody
    learner: AnyLearner
    problem: Problem
    adapter: Adapter  # the names of what requests bring
    base_column: int | None
    base_weights: Floats | None
    encoding: Encoding | None  # of a context by names

    def with_base_score(self, features: Floats) -> Floats:
        """The features as the learner sees them: where today's ranker is given by weights, its score is added."""
        if self.base_weights is None:
            return features
        return np.ascontiguousarray(np.column_stack([features, scores_of(features, self.base_weights)]))

    def notes(self) -> dict[str, Any]:
        """The names that a saved file keeps beside its numbers."""
        notes: dict[str, Any] = {"items": list(self.adapter.items)} if self.adapter.items else {}
        if self.encoding is not None:
            notes |= {"context": self.encoding.context_names, "encoding": self.encoding.to_plain()}
        return notes


def config_of(body: CreateBody) -> RankerConfig:
    """What a request says, or `Rejected` with the field that is wrong; its `body` is the request in normal form."""
    _check_numbers(body)
    encoding = _encoding(body.problem)
    problem, given = _problem(body.problem, encoding)
    learner: AnyLearner = build(body.learner, "learner")
    column, weights = _base(body.base, problem, given)
    if column is not None:
        learner = BaseScore(inner=learner, feature=column)
    if weights is not None:
        names = (*problem.feature_names, "base score") if problem.feature_names else ()
        problem = problem._replace(n_features=given + 1, feature_names=names)
    _check_together(body, learner, column)
    normal = msgspec.structs.replace(body, learner=spec_of(build(body.learner, "learner")))
    items, names = tuple(body.problem.items or ()), tuple(body.problem.feature_names or ())
    adapter = Adapter(names, given, items, problem.n_context, encoding=encoding)
    return RankerConfig(normal, learner, problem, adapter, column, weights, encoding)


def config_of_session(session: Session, notes: Mapping[str, Any]) -> CreateBody:
    """A saved session as a request would bring it: a file may hold what no request can, and what no log could hold."""
    if notes.get(NORMALISED):
        raise Rejected(
            "state", "this model ranks features that were scaled inside each query, which a service does not"
        )
    known, items = session.problem.to_plain(), notes.get("items")
    n_items, names = known.pop("n_items"), list(known.pop("feature_names"))
    encoding = Encoding.from_plain(notes["encoding"]).to_plain() if notes.get("encoding") is not None else None
    known["items"] = None if n_items is None else items or list(range(n_items))
    known["feature_names"] = names or None
    known["context"] = encoding and {name: encoding[name] for name in ("columns", "values", "means")}
    try:
        problem = msgspec.convert(known, ProblemBody)
    except msgspec.ValidationError as error:
        raise Rejected("problem", f"the file says what no ranker can be: {error}") from None
    if problem.items is not None and len(problem.items) != n_items:
        raise Rejected("problem.items", f"the file names {len(problem.items)} items for a set of {n_items}")
    return CreateBody(learner=spec_of(session.learner), problem=problem, seed=session.seed)


def _encoding(body: ProblemBody) -> Encoding | None:
    if body.context is None:
        return None
    try:
        ads = map(str, body.items or ())
        encoding = Encoding.from_plain(msgspec.to_builtins(body.context) | {"ads": ads})
    except InvalidInput as error:
        raise Rejected("problem.context", str(error)) from None
    names = encoding.context_names
    if len(set(names)) != len(names):
        raise Rejected("problem.context", "a column or one of its values is given twice")
    if body.n_context not in (0, len(names)):
        raise Rejected("problem.n_context", f"{body.n_context}, but the context makes {len(names)} numbers")
    return encoding


def _problem(body: ProblemBody, encoding: Encoding | None) -> tuple[Problem, int]:
    names = tuple(body.feature_names or ())
    if len(set(names)) != len(names):
        raise Rejected("problem.feature_names", "a name is given twice")
    if body.n_features is None and not names and body.items is None:
        raise Rejected("problem.n_features", "say how many features an item has, or name them in feature_names")
    n_features = len(names) if body.n_features is None else body.n_features
    if not 0 <= n_features <= MAX_FEATURES:
        raise Rejected("problem.n_features", f"must be from 0 to {MAX_FEATURES}, got {n_features}")
    if names and len(names) != n_features:
        raise Rejected("problem.feature_names", f"{len(names)} names for {n_features} features")
    items = body.items
    if items is not None and (not items or len({str(item) for item in items}) != len(items)):
        raise Rejected("problem.items", "a fixed set has at least one item, and each item once")
    n_context = body.n_context if encoding is None else encoding.n_context
    smallest = {"n_context": 0, "shown": 1, "depth": 1, "max_grade": 0}
    for name, least in smallest.items():
        value = n_context if name == "n_context" else getattr(body, name)
        if value is not None and not least <= value <= MAX_FEATURES:
            raise Rejected(f"problem.{name}", f"must be from {least} to {MAX_FEATURES}, got {value}")
    n_items = None if items is None else len(items)
    return (Problem(n_features, n_items, n_context, body.shown, body.depth, body.max_grade, names), n_features)


def _base(base: BaseBody | None, problem: Problem, given: int) -> tuple[int | None, Floats | None]:
    if base is None:
        return None, None
    if (base.feature is None) == (base.weights is None):
        raise Rejected("base", "give either the feature that holds today's score, or the weights of today's ranker")
    if base.weights is not None:
        if len(base.weights) != given or not all(map(math.isfinite, base.weights)):
            raise Rejected("base.weights", f"must be {given} finite numbers, one per feature")
        return given, np.array(base.weights, dtype=np.float64)
    feature: Any = base.feature
    if isinstance(feature, str):
        if feature not in problem.feature_names:
            raise Rejected("base.feature", f"{feature!r} is not one of the feature_names")
        return problem.feature_names.index(feature), None
    if not 0 <= feature < given:
        raise Rejected("base.feature", f"must be from 0 to {given - 1}, got {feature}")
    return int(feature), None


def _check_numbers(body: CreateBody) -> None:
    check_seed_and_window(body.seed, body.window)
    if not 1 <= body.snapshot_every <= 10**9:
        raise Rejected("snapshot_every", f"must be a number of updates from 1, got {body.snapshot_every}")
    if not 0 <= body.evaluation_share <= 1:
        raise Rejected("evaluation_share", f"must be a share from 0 to 1, got {body.evaluation_share}")


def check_seed_and_window(seed: int, window: float) -> None:
    """Of a ranker or a comparison."""
    if not 0 <= seed < 2**63:
        raise Rejected("seed", f"must be a whole number from 0 and of at most 63 bits, got {seed!r:.80}")
    if not 0 < window <= MAX_WINDOW:
        raise Rejected("window", f"must be seconds above 0 and at most {MAX_WINDOW:.0f}, got {window}")


def _check_together(body: CreateBody, learner: AnyLearner, column: int | None) -> None:
    if body.default_feedback == "not_clicked" and Clicks not in learner.accepts:
        raise Rejected("default_feedback", "not_clicked is for learners that learn from clicks; this one does not")
    for name, wanted in (("shadow", body.shadow), ("evaluation_share", body.evaluation_share), ("guard", body.guard)):
        if wanted and column is None:
            raise Rejected(name, "needs a base to show or to compare with")
    if body.guard and not body.evaluation_share:
        raise Rejected("guard", "needs an evaluation_share above 0: it judges by the comparison with the base")


def check_weights(weights: list[float], n_features: int, field: str) -> Floats:
    """Finite weights, one per feature."""
    if len(weights) != n_features or not all(map(math.isfinite, weights)):
        raise Rejected(field, f"must be {n_features} finite numbers, one per feature")
    return np.array(weights, dtype=np.float64)


def check_new(config: RankerConfig) -> None:
    """Refuse a learner that cannot begin with this problem, and what only a new ranker is not allowed.

    Here and not in `config_of`: rankers that are in a log begin again, whatever is refused today.
    """
    if config.problem.max_grade > MAX_EXPONENT:
        raise Rejected("problem.max_grade", f"must be at most {MAX_EXPONENT:.0f}, got {config.problem.max_grade}")
    if not all(map(is_valid_id, config.adapter.items)):
        raise Rejected("problem.items", INVALID_ID)
    try:
        receipt_type(config.learner)
        config.learner.init(config.problem)
    except InvalidInput as error:
        raise Rejected("learner", str(error)) from None
