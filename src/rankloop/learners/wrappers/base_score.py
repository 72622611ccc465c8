"""Start from today's ranker, whose score is one of the features."""

import dataclasses
from typing import Any, ClassVar, cast

from rankloop.core.checks import Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers, layers_of, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, register
from rankloop.core.types import Problem
from rankloop.learners.wrappers.base import Wrapper


@register("base_score")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseScore(Wrapper):
    """A linear learner that starts as today's ranker, whose score is one of the features.

      w_feature = `weight` at first, and every other weight 0.

    Before the first update the rankings are today's; then the learner changes the weight of the base score as that of
    any other feature. A larger `weight` makes the learner slower to leave today's order.

    Args:
      inner: A learner with `start` weights, or a wrapper such as `standardised` around one.
      feature: The column of the base score, counted from the end when negative; with a schema, among the numbers of
        declared scale.
      weight: The first weight of the base score.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("base_score(inner='newton_pairs', feature=0)", "web_search", "dcm", "nDCG@10"), 3)
      0.486
    """

    inner: AnyLearner
    feature: int = -1
    weight: Positive = 1.0

    examples: ClassVar[tuple[Spec, ...]] = (
        {"inner": "online_gradient"},
        {"inner": "standardised(inner='online_gradient')"},
    )

    def __post_init__(self) -> None:
        _started_at(self.inner, ())

    def init(self, problem: Problem) -> Any:
        n_features = problem.n_dense  # hashed columns cannot hold it
        if not -n_features <= self.feature < n_features:
            raise InvalidInput(f"feature = {self.feature} is to be the base score, but there are {n_features} features")
        start = [0.0] * n_features
        start[self.feature] = self.weight
        return _started_at(self.inner, tuple(start)).init(problem)


def _started_at(learner: AnyLearner, start: tuple[float, ...]) -> AnyLearner:
    """Return the learner with other start weights; wrappers pass them on to the learner inside."""
    if from_layers(learner, "start") is None:
        *_, innermost = layers_of(learner)
        raise InvalidInput(f"{type(innermost).__name__} has no start weights: base_score needs a linear learner inside")
    return cast(AnyLearner, with_in_layers(learner, "start", start))
