"""Thresholds: the score above which an ad is worth showing, per ad, so that scores of ads can be compared."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, finite_floats, real_numbers

Criterion = Literal["f1", "accuracy", "midpoint", "click_rate"]
CRITERIA: dict[Criterion, int] = {"f1": 0, "accuracy": 1, "midpoint": 2, "click_rate": 3}
MIDPOINT, CLICK_RATE = 2, 3
MAX_NEWTON_STEPS = 100


def threshold(scores: ArrayLike, clicked: ArrayLike, criterion: Criterion = "f1") -> float:
    """Return the threshold s for the rule "score ≥ s means click".

    `f1` and `accuracy` maximise that measure over the lowest score and the middles between neighbouring scores; ties go
    to the smallest s. Where clicks are rare this cut is far above most scores, which favours ads whose scores vary
    least. Two criteria avoid that: `midpoint` is halfway between the mean scores of clicked and unclicked examples;
    `click_rate` solves mean 1 / (1 + e^(s − score)) = share of clicks, so that an ad with more clicks stands higher
    (for scores of the logistic loss). There no clicks count as half a click, and all clicks as half a click less.

    Args:
      scores: The scores of examples.
      clicked: 1 for a clicked example, else 0.
      criterion: `f1`, `accuracy`, `midpoint` or `click_rate`.

    Raises:
      InvalidInput: If the criterion is unknown, or if there is not one label per score.
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"criterion = {criterion!r} is not known{nearest(criterion, CRITERIA)}")
    values, hits = finite_floats(scores, 1, "scores"), real_numbers(clicked, "clicked") > 0
    if hits.shape != values.shape or not len(values):
        raise InvalidInput(f"{hits.size} labels for {len(values)} scores; at least one of each is needed")
    n_hits = float(hits.sum())
    return sampled_threshold(values[hits], values[~hits], n_hits, len(values) - n_hits, CRITERIA[criterion])


@kernel
def _sampled_click_rate(scores: Floats, n_clicked: int, click_weight: float, other_weight: float, rate: float) -> float:
    """Solve mean 1 / (1 + e^(s − score)) = rate for s by Newton's steps, or by bisection."""
    log_odds = np.log(rate / (1.0 - rate))
    low, high = scores.min() - log_odds, scores.max() - log_odds
    s = 0.5 * (low + high)
    for _ in range(MAX_NEWTON_STEPS):
        mean, slope, total = 0.0, 0.0, 0.0
        for position in range(len(scores)):
            weight = click_weight if position < n_clicked else other_weight
            probability = 1.0 / (1.0 + np.exp(s - scores[position]))
            mean += weight * probability
            slope += weight * probability * (1.0 - probability)
            total += weight
        gap = mean / total - rate
        low, high = (s, high) if gap > 0.0 else (low, s)
        moved = s + gap * total / slope if slope > 0.0 else low
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - s) <= 1e-9 * (1.0 + abs(s)):
            return float(moved)
        s = moved
    return float(s)


@kernel
def sampled_threshold(
    clicked: Floats, unclicked: Floats, n_clicked: float, n_unclicked: float, criterion: int
) -> float:
    """Return the threshold from the scores of a sample.

    Args:
      clicked: The scores of sampled clicked examples.
      unclicked: The scores of sampled unclicked examples.
      n_clicked: The number of examples that the clicked ones stand for.
      n_unclicked: The number of examples that the unclicked ones stand for.
      criterion: The number of the criterion in `CRITERIA`.
    """
    click_weight, other_weight = n_clicked / max(len(clicked), 1), n_unclicked / max(len(unclicked), 1)
    if criterion == CLICK_RATE:
        rate = min(max(n_clicked, 0.5), n_clicked + n_unclicked - 0.5) / (n_clicked + n_unclicked)
        return _sampled_click_rate(np.concatenate((clicked, unclicked)), len(clicked), click_weight, other_weight, rate)
    if len(unclicked) == 0:
        return float(clicked.min())
    if len(clicked) == 0 and criterion == MIDPOINT:
        return float(unclicked.mean())
    if criterion == MIDPOINT:
        return 0.5 * float(clicked.mean() + unclicked.mean())
    scores = np.concatenate((clicked, unclicked))
    order = ranking_of(scores)
    hits, taken, best, cut = 0.0, 0.0, -np.inf, len(scores) - 1
    for position in range(len(scores)):
        is_click = order[position] < len(clicked)
        hits += click_weight if is_click else 0.0
        taken += click_weight if is_click else other_weight
        last = position == len(scores) - 1
        if last or scores[order[position + 1]] < scores[order[position]]:
            quality = 2.0 * hits / (taken + n_clicked) if criterion == 0 else 2.0 * hits - taken
            if quality >= best:
                best, cut = quality, position
    if cut == len(scores) - 1:
        return float(scores[order[cut]])
    return 0.5 * float(scores[order[cut]] + scores[order[cut + 1]])
