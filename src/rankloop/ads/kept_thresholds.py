"""The threshold of an ad from samples of those who clicked it and those who did not: `threshold`, compiled."""

from __future__ import annotations

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Floats

CRITERIA = {"f1": 0, "accuracy": 1, "midpoint": 2, "click_rate": 3}
MIDPOINT, CLICK_RATE = 2, 3
MOST_STEPS = 100


@kernel
def _at_click_rate(scores: Floats, n_clicked: int, own: float, other: float, rate: float) -> float:
    """The s at which the mean of 1 / (1 + e^(s − score)) is the rate: Newton's steps, halving where they leave."""
    log_odds = np.log(rate / (1.0 - rate))
    low, high = scores.min() - log_odds, scores.max() - log_odds
    s = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        mean, slope, total = 0.0, 0.0, 0.0
        for place in range(len(scores)):
            weight = own if place < n_clicked else other
            chance = 1.0 / (1.0 + np.exp(s - scores[place]))
            mean += weight * chance
            slope += weight * chance * (1.0 - chance)
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
def kept_threshold(clicked: Floats, unclicked: Floats, n_clicked: float, n_unclicked: float, criterion: int) -> float:
    """The best cut between the kept examples' scores, each standing for as many as were seen of its kind."""
    own, other = n_clicked / max(len(clicked), 1), n_unclicked / max(len(unclicked), 1)
    if criterion == CLICK_RATE:
        rate = min(max(n_clicked, 0.5), n_clicked + n_unclicked - 0.5) / (n_clicked + n_unclicked)
        return _at_click_rate(np.concatenate((clicked, unclicked)), len(clicked), own, other, rate)
    if len(unclicked) == 0:
        return float(clicked.min())
    if criterion == MIDPOINT:
        return 0.5 * float(clicked.mean() + unclicked.mean())
    scores = np.concatenate((clicked, unclicked))
    order = ranking_of(scores)
    hits, taken, best, cut = 0.0, 0.0, -np.inf, len(scores) - 1
    for place in range(len(scores)):
        is_click = order[place] < len(clicked)
        hits += own if is_click else 0.0
        taken += own if is_click else other
        last = place == len(scores) - 1
        if last or scores[order[place + 1]] < scores[order[place]]:
            quality = 2.0 * hits / (taken + n_clicked) if criterion == 0 else 2.0 * hits - taken
            if quality >= best:
                best, cut = quality, place
    if cut == len(scores) - 1:
        return float(scores[order[cut]])
    return 0.5 * float(scores[order[cut]] + scores[order[cut + 1]])
