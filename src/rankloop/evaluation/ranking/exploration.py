"""Cost of exploration: how much worse the shown ranking is than the predicted one."""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import discounts, scores_of
from rankloop.core.protocols import Measure
from rankloop.core.types import Floats, Ints, Query


class ExplorationCost(NamedTuple):
    """The loss of one round, in the learner's own utility and in the measure; both 0 when nothing was explored."""

    utility: float  # w · φ(x, predicted) − w · φ(x, shown)
    measure: float


def utility_of(weights: Floats, query: Query, ranking: Ints) -> float:
    """Return w · φ(x, y) = Σ_p (w · φ(x, y[p])) / log₂(p + 2), the utility of coactive learning.

    Args:
      weights: The weights.
      query: The query.
      ranking: The ranking, best first.
    """
    scores = scores_of(query.features, weights)
    return float(np.sum(discounts(len(ranking)) * scores[ranking]))


def exploration_cost(
    measure: Measure, query: Query, relevance: Floats, shown: Ints, predicted: Ints, weights: Floats
) -> ExplorationCost:
    """Return how much a round lost by showing `shown` instead of what the `weights` predict.

    Args:
      measure: The measure.
      query: The query.
      relevance: The grades of all items.
      shown: The ranking that was shown.
      predicted: The ranking without exploration.
      weights: The weights.
    """
    sign = 1.0 if measure.higher_is_better else -1.0
    return ExplorationCost(
        utility_of(weights, query, predicted) - utility_of(weights, query, shown),
        sign * (measure(predicted, relevance) - measure(shown, relevance)),
    )
