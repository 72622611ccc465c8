"""Logs of shown ads made from labelled sets, and what users do to such logs before they learn from them."""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.bandits.ad_log import AdLog
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from research.datasets.labelled import LabelledSet

Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def bandit_log(labelled: LabelledSet, rng: Generator) -> AdLog:
    """Classes become ads: one is shown to each example uniformly at random, and clicked if it is the true one.

    Reference: Dudík, Langford and Li (2011), Doubly Robust Policy Evaluation and Learning.
    """
    n, n_ads = len(labelled.labels), len(labelled.class_names)
    ads = (rng.random(n) * n_ads).astype(np.int64)
    clicks = (ads == labelled.labels).astype(np.float64)
    return AdLog(labelled.features, ads, clicks, np.full(n, 1.0 / n_ads), n_ads)


def split(labelled: LabelledSet, rng: Generator, share: float = 0.7) -> tuple[LabelledSet, LabelledSet]:
    """A random `share` of the examples for training, the others for testing."""
    order = np.argsort(rng.random(len(labelled.labels)), kind="stable")
    cut = round(share * len(order))
    train, test = (
        LabelledSet(labelled.features[rows], labelled.labels[rows], labelled.class_names)
        for rows in (order[:cut], order[cut:])
    )
    return train, test


def undersampled(clicked: ArrayLike, ratio: float, rng: Generator) -> Ints:
    """The rows of all clicked examples and of at most `ratio` unclicked ones for each, in order."""
    positive = np.asarray(clicked) > 0
    if not ratio > 0:
        raise InvalidInput(f"ratio = {ratio} must be a number of unclicked examples per clicked one, above 0")
    unclicked = np.flatnonzero(~positive)
    keep = min(len(unclicked), round(ratio * int(positive.sum())))
    drawn = unclicked[np.argsort(rng.random(len(unclicked)), kind="stable")[:keep]]
    return np.asarray(np.sort(np.concatenate([np.flatnonzero(positive), drawn])), dtype=np.int64)


def information_gain(features: ArrayLike, clicked: ArrayLike, bins: int = 10) -> Floats:
    """H(click) − H(click | feature) in bits, of each feature cut at its quantiles into at most `bins` pieces."""
    columns, positive = finite_floats(features, 2, "features"), np.asarray(clicked) > 0
    if positive.shape != (len(columns),) or not len(columns):
        raise InvalidInput(f"{positive.shape} labels for {len(columns)} rows")
    total_entropy = _entropy(np.array([positive.mean()]))[0]
    return np.array([total_entropy - _remaining(column, positive, bins) for column in columns.T])


def most_informative(features: ArrayLike, clicked: ArrayLike, share: float = 0.2) -> Ints:
    """The `share` of features with the largest information gain, at least one, in ascending order."""
    gains = information_gain(features, clicked)
    keep = max(1, round(share * len(gains)))
    return np.asarray(np.sort(np.argsort(-gains, kind="stable")[:keep]), dtype=np.int64)


def most_shown(ads: Ints, n: int = 5) -> Ints:
    """The `n` ads with most impressions, the most shown first."""
    return np.asarray(np.argsort(-np.bincount(ads), kind="stable")[:n], dtype=np.int64)


def only_ads(log: AdLog, ads: Ints) -> AdLog:
    """The rows that showed one of these ads, renumbered by their position in `ads`; propensities stay as logged."""
    position = np.full(log.n_ads, -1)
    position[ads] = np.arange(len(ads))
    is_kept = position[log.ads] >= 0
    return AdLog(
        log.contexts[is_kept], position[log.ads[is_kept]], log.rewards[is_kept], log.propensities[is_kept], len(ads)
    )


def _remaining(column: Floats, positive: Mask, bins: int) -> float:
    edges = np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))
    piece = np.searchsorted(edges, column, side="left")
    sizes = np.bincount(piece, minlength=len(edges) + 1)
    clicks = np.bincount(piece, positive.astype(np.float64), len(edges) + 1)
    filled = sizes > 0
    return float((sizes[filled] * _entropy(clicks[filled] / sizes[filled])).sum() / len(column))


def _entropy(p: Floats) -> Floats:
    inside = np.clip(p, 1e-300, 1.0)
    outside = np.clip(1.0 - p, 1e-300, 1.0)
    bits: Floats = -(p * np.log2(inside) + (1.0 - p) * np.log2(outside))
    return bits
