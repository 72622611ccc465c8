"""How likely people are to look at each place, learned from clicks: what propensity weights are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.rankings import ranking_of
from rankloop.core.types import Arrival, Clicks, Floats, Ints, finite_floats, item_indices

LEAST = 1e-6


class Bias(NamedTuple):
    """Relative chances to be looked at; the first place has 1."""

    looked_at: Floats
    rounds: int  # of EM; 0 where there was none


class Impressions(NamedTuple):
    """Every shown item of every shown ranking: who it is, where it stood, and whether it was clicked."""

    pair: Ints  # the number of its (query, item) pair
    place: Ints
    clicked: Floats


def impressions(pair: ArrayLike, place: ArrayLike, clicked: ArrayLike) -> Impressions:
    """Check and copy: pairs and places count from 0, clicks are 0 or 1."""
    pairs, places, clicks = (
        item_indices(pair, "pair"),
        item_indices(place, "place"),
        finite_floats(clicked, 1, "clicked"),
    )
    if not len(pairs) == len(places) == len(clicks) > 0:
        raise InvalidInput("pair, place and clicked need the same length, at least 1")
    if pairs.min() < 0 or places.min() < 0 or not np.isin(clicks, (0.0, 1.0)).all():
        raise InvalidInput("pairs and places count from 0, clicked is 0 or 1")
    return Impressions(pairs, places, clicks)


def any_moved(log: Impressions) -> bool:
    """Whether a pair stands at two places, without which `bias_by_em` has nothing to compare."""
    one_place = np.zeros(int(log.pair.max()) + 1, dtype=np.int64)
    one_place[log.pair] = log.place
    return bool((one_place[log.pair] != log.place).any())


def bias_from_swaps(
    places: ArrayLike, clicked: ArrayLike, chances: ArrayLike, n_places: int, smoothing: float = 1.0
) -> Bias:
    """Position bias from neighbours that were swapped at random, as `3pr` does anyway.

    Each entry is an item of such a pair: the place where it stood, whether it was clicked, and the chance that it stood
    there rather than one place up or down. Every pair of neighbouring places p, p + 1 compares the same items, so
    looked_at[p + 1] / looked_at[p] = Σ_(at p+1) clicked / chance ÷ Σ_(at p) clicked / chance, and the ratios multiply
    up from the top. An item belongs to the comparison of its pair alone: `places` holds (upper place of the pair,
    own place). `smoothing` clicks are added to either side.
    Reference: Agarwal, Zaitsev, Wang, Li, Najork and Joachims (2019), Estimating Position Bias without Intrusive
    Interventions.
    """
    both = np.asarray(places, dtype=np.int64)
    hits, shares = finite_floats(clicked, 1, "clicked"), finite_floats(chances, 1, "chances")
    if both.ndim != 2 or both.shape[1] != 2 or not len(both) == len(hits) == len(shares):
        raise InvalidInput("places holds (upper place of the pair, own place) for each entry of clicked and chances")
    if len(shares) and not ((shares > 0) & (shares <= 1)).all():
        row = int(np.flatnonzero(~((shares > 0) & (shares <= 1)))[0])
        raise InvalidInput(f"row {row}: the chance is {shares[row]}; what happened had one above 0 and at most 1")
    upper, lower = (_clicks_at(both, hits / shares, step, n_places) for step in (0, 1))
    looked_at = np.ones(n_places)
    for place in range(n_places - 1):
        ratio = (lower[place] + smoothing) / (upper[place] + smoothing)
        looked_at[place + 1] = max(LEAST, looked_at[place] * ratio)
    return Bias(looked_at, 0)


def swap_entries(log: Iterable[Arrival], n_places: int) -> tuple[Ints, Floats, Floats]:
    """Entries for `bias_from_swaps` from the decisions of `3pr` and their clicks.

    Its receipts tell the pairs, the scores, hence which order each pair had before, and the swap probability p: an item
    that kept its place had the chance 1 − p, one that changed it p. Rounds without chance (p = 0 or 1) tell nothing.
    """
    places: list[tuple[int, int]] = []
    clicked: list[float] = []
    chances: list[float] = []
    for _, decision, feedback in log:
        receipt = decision.receipt
        if not isinstance(feedback, Clicks) or not hasattr(receipt, "swap"):
            raise InvalidInput("swaps are told by the receipts of 3pr with clicks as feedback")
        hit, before = set(feedback.items.tolist()), ranking_of(receipt.scores)
        if 0.0 < receipt.swap < 1.0 and receipt.first >= 0:
            for upper in range(receipt.first, min(receipt.end, n_places) - 1, 2):
                for own in (upper, upper + 1):
                    item = int(decision.ranking[own])
                    places.append((upper, own))
                    clicked.append(float(item in hit))
                    chances.append(1.0 - receipt.swap if int(before[own]) == item else receipt.swap)
    return np.array(places, np.int64).reshape(-1, 2), np.array(clicked), np.array(chances)


@kernel
def _em_round(pair: Ints, place: Ints, clicked: Floats, looked_at: Floats, attractive: Floats) -> float:
    """One round in place: expected looks and attractions given the clicks, then their means; the largest change."""
    looks, shown_at = np.zeros(len(looked_at)), np.zeros(len(looked_at))
    attractions, shown_of = np.zeros(len(attractive)), np.zeros(len(attractive))
    for row in range(len(pair)):
        i, p = pair[row], place[row]
        both = looked_at[p] * attractive[i]
        missed = max(1.0 - both, 1e-12)
        looks[p] += 1.0 if clicked[row] > 0.0 else looked_at[p] * (1.0 - attractive[i]) / missed
        attractions[i] += 1.0 if clicked[row] > 0.0 else attractive[i] * (1.0 - looked_at[p]) / missed
        shown_at[p] += 1.0
        shown_of[i] += 1.0
    change = 0.0
    for p in range(len(looked_at)):
        if shown_at[p] > 0.0:
            change = max(change, abs(looks[p] / shown_at[p] - looked_at[p]))
            looked_at[p] = looks[p] / shown_at[p]
    for i in range(len(attractive)):
        if shown_of[i] > 0.0:
            attractive[i] = attractions[i] / shown_of[i]
    return change


def bias_by_em(log: Impressions, max_rounds: int = 1000, tolerance: float = 1e-6) -> Bias:
    """Position bias by expectation maximisation of P(click) = looked_at[place] · attractive[(query, item)].

    Needs the same pairs at different places, as any log has whose rankings changed; otherwise the two factors cannot be
    told apart. References: Wang, Golbandi, Bendersky, Metzler and Najork (2018), Position Bias Estimation for Unbiased
    Learning to Rank in Personal Search (without its regression); Richardson, Dominowska and Ragno (2007).
    """
    looked_at = np.linspace(0.9, 0.5, int(log.place.max()) + 1)
    attractive = np.full(int(log.pair.max()) + 1, 0.5)
    done, change = 0, np.inf
    while change >= tolerance and done < max_rounds:
        change = _em_round(log.pair, log.place, log.clicked, looked_at, attractive)
        done += 1
    relative: Floats = np.maximum(looked_at / max(looked_at[0], LEAST), LEAST)
    return Bias(relative, done)


def _clicks_at(places: Ints, weights: Floats, step: int, n_places: int) -> Floats:
    """The weighted clicks at the upper (step 0) or lower (step 1) place of each pair of places."""
    chosen = places[:, 1] - places[:, 0] == step
    counts: Floats = np.bincount(places[chosen, 0], weights[chosen], n_places).astype(np.float64)
    return counts
