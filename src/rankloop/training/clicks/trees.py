"""Trees from yesterday's clicks, as a base score for the learner that goes on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import finite_floats
from rankloop.data.dataset import Dataset
from rankloop.training.clicks.reader import ClickLog
from rankloop.training.trees import N_FOLDS, TreeRanker, TreeSettings, fit_trees

SETTINGS = TreeSettings()


def trees_from_clicks(
    log: ClickLog,
    *,
    without: Sequence[str] = (),
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    n_folds: int = N_FOLDS,
    settings: TreeSettings = SETTINGS,
) -> TreeRanker:
    """Cross-fit trees to the clicks of a log, each click weighing as much as its position was unlikely to be examined.

    Every click puts its item above all others of its list, at its weight, as `clicked_pairs` has it. `position_bias` is
    how likely each position is examined, estimated from the log unless given; no click weighs more than `clip`. All
    lists of a query are in one fold. `without` names features that the trees do not get: the base score that was shown
    before above all, which knows the clicks of every fold.
    """
    bias = log.position_bias() if position_bias is None else position_bias
    weights = log.relevance(finite_floats(bias, 1, "position_bias"), clip)
    clicked = np.flatnonzero(weights)
    if not len(clicked):
        raise InvalidInput("the log has no click, so there is nothing to learn from")
    lists = np.searchsorted(log.offsets, clicked, "right") - 1
    sizes = np.diff(log.offsets)[lists]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(offsets[-1]) + np.repeat(log.offsets[lists] - offsets[:-1], sizes)
    names = log.query_ids or tuple(map(str, range(int(log.query.max()) + 1)))
    ids = tuple(names[number] for number in log.query[clicked])
    columns = _columns(log, without)
    features, known = log.features[:, columns], [log.feature_names[column] for column in columns if log.feature_names]
    copies = Dataset(features[rows], (rows == np.repeat(clicked, sizes)).astype(np.float64), offsets, ids)
    weights = np.repeat(weights[clicked], sizes)
    return fit_trees(copies, weights=weights, n_folds=n_folds, settings=settings, names=known)


def _columns(log: ClickLog, without: Sequence[str]) -> list[int]:
    unknown = next((name for name in without if name not in log.feature_names), None)
    if unknown is not None:
        raise InvalidInput(f"the log has no feature {unknown!r}{nearest(unknown, log.feature_names)}")
    names = log.feature_names or ("",) * log.features.shape[1]
    return [column for column, name in enumerate(names) if name not in without]
