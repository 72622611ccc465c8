"""A linear ranker from yesterday's clicks, weighted by how unlikely their positions were examined."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.saved_session import save
from rankloop.core.types import Floats, finite_floats
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.clicks.ips_weights import clicked_pairs, exponential_grades
from rankloop.training.clicks.reader import ClickLog, MergedLists, merged
from rankloop.training.estimator import session_of
from rankloop.training.rank_bundle import RankBundle
from rankloop.training.risks.base import risk_of
from rankloop.training.risks.structured_loss import NDCGLoss
from rankloop.training.solution_path import DEFAULT_PATH

HELD_OUT = 5  # one list in so many chooses the regularisation
GAIN = "DCG(gain='linear')@10"
IN_PAIRS = ("ordinal", "preferences")  # every click counts by itself, however often its query was asked
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class ClickRanker(NamedTuple):
    """The weights of a ranker, and how they were found."""

    weights: Floats
    loss: str
    tight: bool
    regularisation: float
    gains: dict[float, float]  # by regularisation: the weighted clicks gained on held-out lists
    examined: Floats  # the probability of each position to be examined
    feature_names: tuple[str, ...]
    weights_cancel: bool  # a normalised loss where no query came twice

    def save(self, path: Path) -> None:
        """As a file that `rankloop evaluate` and the service read."""
        how = {"loss": self.loss, "tight": self.tight, "regularisation": self.regularisation}
        notes = {**how, "looked_at": self.examined.tolist()}
        save(session_of(self.weights, feature_names=self.feature_names), path, notes)


def train_on_clicks(
    log: ClickLog,
    loss: str = "ordinal",
    *,
    tight: bool = False,
    path: Sequence[float] = DEFAULT_PATH,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> ClickRanker:
    """Weigh the clicks, choose the regularisation of the `path` on held-out lists, and train on all of them.

    `position_bias` is how likely each position is examined, estimated from the log unless given. The default loss is
    the weighted ranking SVM; for the loss of a measure all lists of a query are merged into one first (see `merged`).
    """
    bias = log.position_bias() if position_bias is None else position_bias
    examined = finite_floats(bias, 1, "position_bias")
    weights = log.relevance(examined, clip)
    if not np.any(weights):
        raise InvalidInput("the log has no click, so there is nothing to learn from")
    in_pairs = loss in IN_PAIRS
    lists = MergedLists(log.features, log.offsets, weights) if in_pairs else merged(log, weights)
    held_out = np.random.default_rng(seed).permutation(len(lists.offsets) - 1) % HELD_OUT == 0
    if held_out.all():
        raise InvalidInput(
            f"the log has {len(held_out)} list(s); there must be at least two to choose the regularisation"
        )
    gains: dict[float, float] = {}
    for done, regularisation in enumerate(path, start=1):
        model = _fit(_chosen(lists, ~held_out), loss, tight, regularisation)
        gains[regularisation] = _gain(model, _chosen(lists, held_out))
        progress(done, len(path))
    best = max(gains, key=lambda regularisation: gains[regularisation])
    cancel = not in_pairs and len(lists.offsets) == len(log.offsets)
    fitted = _fit(lists, loss, tight, best)
    return ClickRanker(fitted, loss, tight, best, gains, examined, log.feature_names, cancel)


def _chosen(lists: MergedLists, which: Mask) -> MergedLists:
    """Some of the lists."""
    sizes = np.diff(lists.offsets)
    own = np.repeat(which, sizes)
    return MergedLists(lists.features[own], np.concatenate([[0], np.cumsum(sizes[which])]), lists.weights[own])


def _fit(lists: MergedLists, loss: str, tight: bool, regularisation: float) -> Floats:
    if loss in IN_PAIRS:
        pairs = clicked_pairs(lists.offsets, lists.weights)
        return RankBundle("preferences", regularisation).fit_pairs(lists.features, pairs.pairs, pairs.costs).coef_
    qid = np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))
    exponential = isinstance(risk_of(loss), NDCGLoss)
    grades = exponential_grades(lists.weights) if exponential else lists.weights
    return RankBundle(loss, regularisation, tight=tight).fit(lists.features, grades, qid=qid).coef_


def _gain(model: Floats, lists: MergedLists) -> float:
    scores = scores_of(lists.features, model)
    return mean_of(parse_measure(GAIN).of_scores(scores, lists.weights, lists.offsets))
