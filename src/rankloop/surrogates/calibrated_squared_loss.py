"""Squared distance to the normalised gains: calibrated for nDCG."""

import numpy as np

from rankloop.core.kernels import discount, exponential_gain, kernel
from rankloop.core.registry import register
from rankloop.core.types import Floats
from rankloop.surrogates.base import ListwiseSurrogate


@kernel
def normalised_gains(relevance: Floats) -> Floats:
    """(2^relevance − 1) / ideal DCG; negative grades count as 0, and all do when nothing is relevant."""
    gains = np.empty(len(relevance))
    for i in range(len(relevance)):
        gains[i] = exponential_gain(max(relevance[i], 0.0))
    ideal = 0.0
    for position, gain in enumerate(np.sort(gains)[::-1]):
        ideal += gain * discount(position)
    return gains / ideal if ideal > 0.0 else np.zeros(len(relevance))


@kernel
def _value_and_grad(scores: Floats, relevance: Floats) -> tuple[float, Floats]:
    gap = scores - normalised_gains(relevance)
    return np.sum(gap * gap), 2.0 * gap


@register("calibrated_squared")
class CalibratedSquared(ListwiseSurrogate):
    """Squared distance between scores and normalised gains: calibrated for nDCG.

    Σ_i (scores[i] − gain_i)² with gain = (2^relevance − 1) / ideal DCG. Its best scores order the items by their
    expected normalised gain, which is what maximises expected nDCG. The ideal DCG needs every grade, and no method can
    learn such a loss from the first grade alone.
    Reference: Ravikumar, Tewari and Yang (2011), On NDCG Consistency of Listwise Ranking Methods.
    """

    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]:
        return _value_and_grad(scores, relevance)
