"""The score from which on an ad is worth showing, learned per ad so that rankers can be compared."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest
from rankloop.core.types import Floats, finite_floats

Criterion = Literal["f1", "accuracy", "midpoint", "precision", "recall"]


class DegenerateThreshold(UserWarning):
    """The criterion has a trivial best threshold."""


def threshold(scores: ArrayLike, clicked: ArrayLike, criterion: Criterion = "f1") -> float:
    """The s that maximises the criterion of "score ≥ s means click"; ties go to the smallest s.

    Candidates are the lowest score and the middles between neighbouring scores. `midpoint` is halfway between the mean
    scores of clicked and unclicked examples instead. `precision` and `recall` are degenerate: the first is perfect when
    only the top example is taken, if that was clicked, the second when everything is; they warn.
    """
    if criterion not in get_args(Criterion):
        raise InvalidInput(f"criterion = {criterion!r} is not known{nearest(criterion, get_args(Criterion))}")
    values, positive = finite_floats(scores, 1, "scores"), np.asarray(clicked) > 0
    if positive.shape != values.shape or not len(values):
        raise InvalidInput(f"{len(positive)} labels for {len(values)} scores; at least one of each is needed")
    if criterion == "midpoint":
        return _midpoint(values, positive)
    if criterion in ("precision", "recall"):
        warnings.warn(
            f"the threshold of best {criterion} is degenerate: it keeps nearly nothing or everything; use f1",
            DegenerateThreshold,
            stacklevel=2,
        )
    order = np.argsort(-values, kind="stable")
    ordered, hits = values[order], np.cumsum(positive[order], dtype=np.float64)
    ends = np.append(ordered[1:] != ordered[:-1], True)  # a cut never parts equal scores
    quality = _quality(hits, np.arange(1.0, len(values) + 1.0), float(hits[-1]), criterion)
    cut = int(np.flatnonzero(ends)[::-1][np.argmax(quality[ends][::-1])])
    last = len(values) - 1
    return float(ordered[last] if cut == last else 0.5 * (ordered[cut] + ordered[cut + 1]))


def _quality(hits: Floats, taken: Floats, positives: float, criterion: Criterion) -> Floats:
    """The criterion when the first `taken` by score are called clicks."""
    quality: Floats
    if criterion == "f1":
        quality = 2.0 * hits / (taken + positives)
    elif criterion == "accuracy":
        quality = 2.0 * hits - taken  # correct ones, up to a constant: hits + (negatives − (taken − hits))
    elif criterion == "precision":
        quality = hits / taken
    else:
        quality = hits
    return quality


def _midpoint(values: Floats, positive: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    if positive.all() or not positive.any():
        return float(values.mean())
    return 0.5 * float(values[positive].mean() + values[~positive].mean())
