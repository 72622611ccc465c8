"""Clicks weighed by how unlikely their positions were examined."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import estimate_examination, rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers, layers_of, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, finite_floats, item_indices
from rankloop.data.dataset import offsets_of
from rankloop.evaluation.list_estimate import Interval, Verdict
from rankloop.evaluation.list_evaluation import ListOptions, LogJudge
from rankloop.evaluation.list_pages import PageTable
from rankloop.learners.click_regression import N_OFFSETS
from rankloop.learners.wrappers.hashed_weights import BaseScore
from rankloop.logs.columns import Mask
from rankloop.logs.list_log import ClickArrays, ShownList, numbers_of, propensity_of
from rankloop.measures.base import mean_of, parse_measure

HELD_OUT_SHARE = 5  # one list in so many chooses the regularisation or the number of passes
GAIN_MEASURE = "DCG(gain='linear')@10"  # of the weighted clicks on held-out lists
UNKNOWN_BIAS = (
    "no item stands at two positions (for the same query, where there are queries), so the position bias cannot be "
    "estimated: give --position-bias 1,0.5,… (1,1,…: all positions alike), or name the column of the item, "
    "--column item=NAME"
)
LOGGED_ORDER_WEIGHT = 0.3  # of `click_regression` without a base score, for pages that another system ordered
NO_CLICK = "the log has no click, so there is nothing to learn from"


def weighted_clicks(clicked: Floats, position: Ints, examined: ArrayLike, clip: float) -> Floats:
    """Return each click's weight in the log times min(clip, 1 / examined[position]), 0 without a click.

    Args:
      clicked: The weight of each row's click in the log.
      position: Of each row, from 0.
      examined: The probability of each position to be examined.
      clip: The largest weight of a position.

    References:
      Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback.
    """
    weights, rows = np.zeros(len(clicked)), np.flatnonzero(clicked > 0.0)
    positions, probabilities = item_indices(position[rows], "position"), finite_floats(examined, 1, "examined")
    if not clip > 0.0:
        raise InvalidInput(f"clip = {clip} must be a weight above 0")
    if len(positions) and (positions.min() < 0 or positions.max() >= len(probabilities)):
        raise InvalidInput(f"a clicked position is outside 0 … {len(probabilities) - 1}: give a probability for each")
    faults = np.flatnonzero(~(probabilities[positions] > 0.0))
    if len(faults):
        bad = positions[int(faults[0])]
        fault = f"position {bad} has a click, but is examined with probability {probabilities[bad]}"
        raise InvalidInput(f"row {rows[faults[0]]}: {fault}: give one above 0")
    weights[rows] = np.minimum(clip, 1.0 / probabilities[positions]) * clicked[rows]
    return weights


def pages_as_log(lists: Sequence[ShownList]) -> ClickArrays:
    """Return what was shown and clicked on pages, in the form that examination is estimated from."""
    pair = numbers_of([(page.query_id, id) for page in lists for id in page.ids])
    position, clicked = (np.concatenate([getattr(page, name) for page in lists]) for name in ("position", "clicked"))
    offsets, queries = offsets_of([len(page.ids) for page in lists]), [page.query_id for page in lists]
    visitors = [page.visitor for page in lists]
    return rows_as_log(pair, position, clicked, offsets, queries, propensity_of(lists), visitors)


def estimate_examined(log: ClickArrays) -> Floats | None:
    """Return the examination of each position by the shared estimate; None where no (query, item) pair moved."""
    examination = estimate_examination(log)
    return np.minimum(examination.curve, 1.0) if examination.n_units or log.n_positions <= 1 else None


def not_below_click_rates(examined: Floats, log: ClickArrays) -> Floats:
    """Return an examination that is not below the clicks: noise would else turn the order that a learner starts from.

    Args:
      examined: The examination of each position.
      log: What was shown and clicked.
    """
    shown = np.bincount(log.position, minlength=log.n_positions) + 1.0
    click_rate = (np.bincount(log.position, log.clicked, minlength=log.n_positions) + 0.5) / shown
    return np.minimum(np.maximum(examined, click_rate / click_rate[0]), 1.0)  # type: ignore[no-any-return]


def required_bias(examined: Floats | None) -> Floats:
    """Return an estimate of the position bias, or raise `InvalidInput` where it could not be made."""
    if examined is None:
        raise InvalidInput(UNKNOWN_BIAS)
    return examined


def with_examination(learner: AnyLearner, examined: Floats) -> AnyLearner:
    """Return a learner whose `click_regression` has fixed offsets, for pages that another system ordered.

    A learner that has an examination keeps it. One with a base score, which holds the order, learns offsets instead.

    Args:
      learner: The learner, perhaps in wrappers.
      examined: The examination of each position.
    """
    examination = from_layers(learner, "examination")
    if examination is None or any(isinstance(layer, BaseScore) for layer in layers_of(learner)):
        return learner
    if examination == ():
        learner = with_in_layers(learner, "examination", tuple(examined[:N_OFFSETS].tolist()))
    order_weight = from_layers(learner, "order_weight") or LOGGED_ORDER_WEIGHT
    return cast(AnyLearner, with_in_layers(learner, "order_weight", order_weight))


def ready_for_use(session: Session) -> Session:
    """Return a session that learned from logged pages as one whose own positions are no evidence about items."""
    if not from_layers(session.learner, "order_weight"):
        return session
    return with_learner(session, with_in_layers(session.learner, "order_weight", 0.0))


def with_learner(session: Session, learner: AnyLearner) -> Session:
    """Return a session that continues with another recipe of the same learner; one without updates begins anew.

    Args:
      session: The session so far.
      learner: The learner with other parameters.
    """
    continued = Session(learner, session.problem, session.seed)
    state, generator, learned, refused = session.snapshot()
    if from_layers(learner, "examination") and from_layers(session.learner, "examination") == ():
        # Offsets were learned so far: the intercept continues with that of the first position, where a = b.
        state = with_in_layers(state, "intercept", float(from_layers(state, "offsets")[0]))
    continued.restore(state if learned else continued.state, generator, learned, refused)
    return continued


def bias_of_offsets(offsets: Floats, n_positions: int) -> Floats:
    """Return the probability of each position to be examined, from the log odds of a click there and at the first.

    Args:
      offsets: The log odds of each position; later positions have the last ones.
      n_positions: The length of the result.
    """
    by_position = offsets[np.minimum(np.arange(n_positions), len(offsets) - 1)]
    return np.minimum(1.0, np.exp(by_position - by_position[0]))  # type: ignore[no-any-return]


def held_out_lists(n_lists: int, seed: int) -> Mask:
    """Draw the lists on which a choice is made: true for those that are held out.

    Args:
      n_lists: The number of lists.
      seed: Of the draw.
    """
    held_out: Mask = np.random.default_rng(seed).permutation(n_lists) % HELD_OUT_SHARE == 0
    if held_out.all():
        raise InvalidInput(f"the log has {n_lists} list(s); there must be at least two to learn and to choose")
    return held_out


def mean_gain(scores: Floats, weights: Floats, offsets: Ints | Sequence[int]) -> float:
    """Return the mean over lists of the weighted clicks that a ranking gains.

    Args:
      scores: Of all items.
      weights: The weight of each item's click.
      offsets: List q has the items from offsets[q] to offsets[q + 1].
    """
    return mean_of(parse_measure(GAIN_MEASURE).of_scores(scores, weights, np.asarray(offsets)))


class HeldOutJudgement(NamedTuple):
    """The judgement of `evaluate` about the trained order of the held-out lists, by what these lists alone tell."""

    gain: Interval  # clicks per list more than as logged, with their interval of 95 %
    verdict: Verdict
    reasons: tuple[str, ...]  # why the lists do not answer; empty: they do

    @classmethod
    def of(cls, log: ClickArrays, scores: Floats, held_out: Mask, bias: ArrayLike | None) -> "HeldOutJudgement":
        """Judge the order by scores of all rows on the lists that are held out."""
        scores, log = scores[np.repeat(held_out, np.diff(log.offsets))], log.pages(np.flatnonzero(held_out))
        if not log.clicked.any():
            return cls(Interval(0.0, -np.inf, np.inf), "cannot tell", ("no held-out list has a click",))
        order = np.lexsort((log.position, log.page))
        propensity = None if log.propensity is None else log.propensity[order]
        pair, position, clicked = log.pair[order], log.position[order], log.clicked[order]
        table = PageTable.of_clicks(log._replace(pair=pair, position=position, clicked=clicked, propensity=propensity))
        examined = None if bias is None else finite_floats(bias, 1, "position_bias")
        answer = LogJudge(table, ListOptions(position_bias=examined)).judge(table.slots_by(scores[order]))
        return cls(answer.ranker.gain["clicks"], answer.verdict, answer.reasons)
