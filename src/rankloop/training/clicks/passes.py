"""Training by passes over a log: a learner learns from the logged lists as if it had shown them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.learner import from_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build
from rankloop.core.serialisation import receipt_of_logged_page
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Problem, Relevances
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.base_score import BaseScore
from rankloop.learners.wrappers.hashed_weights import with_hashed
from rankloop.logs.list_log import LOGGED_SCORE, ClickArrays, ShownList, numbers_of, propensity_of
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.weights import (
    NO_CLICK,
    HeldOutJudgement,
    bias_of_offsets,
    checked_examined,
    estimate_examined,
    held_out_lists,
    mean_gain,
    not_below_click_rates,
    ready_for_use,
    required_bias,
    weighted_clicks,
    with_examination,
)

Lists = Sequence[ShownList]


class OnlinePasses(NamedTuple):
    """Passes of an online learner over the log; held-out lists choose how many.

    `click_regression` without a base takes the shared estimate of examination as its offsets. It learns them where no
    item moved, and with a base, which holds the logged order itself. For other learners clicks are weighed by it.
    Learners that need their own decisions cannot learn from the log of another ranker and are refused.

    Attributes:
      learner: The learner, linear if there is a base.
      max_passes: The largest number of passes.
      base: The field with the score of today's order, from which the learner starts. The default is minus the position
        in the log, which a field of this name adds to the schema. Empty: start from nothing.
    """

    learner: str | Spec | AnyLearner = "click_regression"
    max_passes: int = 5
    base: str = LOGGED_SCORE


def train_in_passes(
    lists: Lists,
    schema: Schema,
    solver: OnlinePasses,
    problem: Problem,
    *,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> ClickTraining:
    """Choose the number of passes over the log on held-out lists, and train on all lists.

    Args:
      lists: The shown lists.
      schema: By which values become features.
      solver: The learner, and the largest number of passes.
      problem: The problem of the schema.
      position_bias: The probability of each position to be examined; estimated or learned unless given.
      clip: No click weighs more than this.
      seed: Draws the held-out lists.
      progress: Called with the number of passes that are done, and of all.
    """
    if not any(page.clicked.any() for page in lists):
        raise InvalidInput(NO_CLICK)
    passes = solver.max_passes
    if passes < 1:
        raise InvalidInput(f"passes = {passes} must be at least 1")
    held_out = held_out_lists(len(lists), seed)
    training, judges = ([page for page, out in zip(lists, held_out) if out == part] for part in (False, True))
    task = _PassesTask(lists, schema, solver, position_bias, clip)
    session, orders = Session(task.learner, problem, seed), []
    for done in range(1, passes + 1):
        task.go_over(session, training)
        orders.append([session.predict(page.query(task.encoder)) for page in judges])
        progress(done, 2 * passes)
    examined = task.examined_by(session)
    weights = [weighted_clicks(page.clicked, page.position, examined, clip) for page in judges]
    scores = [_scores([np.arange(len(page.ids)) for page in judges]), *map(_scores, orders)]
    offsets = np.concatenate([[0], np.cumsum([len(page.ids) for page in judges])])
    logged_gain, *after = (mean_gain(score, np.concatenate(weights), offsets) for score in scores)
    gains = {float(done): gain for done, gain in enumerate(after, start=1)}
    best = max(range(1, passes + 1), key=lambda done: gains[done])
    by_row = np.zeros(task.log.offsets[-1])
    by_row[np.repeat(held_out, np.diff(task.log.offsets))] = scores[best]
    is_graded = any(page.feedback == "relevances" for page in lists)
    judgement = None if is_graded else HeldOutJudgement.of(task.log, by_row, held_out, position_bias)
    session = Session(task.learner, problem, seed)
    for done in range(best):
        task.go_over(session, lists)
        progress(passes + done + 1, passes + best)
    refused = session.refused
    return ClickTraining(
        session=ready_for_use(session),
        choice="passes",
        chosen=best,
        gains=gains,
        logged_gain=logged_gain,
        judgement=judgement,
        examined=task.examined_by(session),
        examined_is_known=task.examined is not None,
        n_lists=len(lists),
        schema=schema,
        notes=(f"{refused:,} updates that would have been unstable were left out",) if refused else (),
    )


class _PassesTask:
    """The learner and the weights of clicks, equal in every pass."""

    def __init__(self, lists: Lists, schema: Schema, solver: OnlinePasses, bias: ArrayLike | None, clip: float) -> None:
        self.encoder, self.clip = Encoder(schema), clip
        self.n_positions = max(int(page.position.max()) for page in lists) + 1
        recipe = build(solver.learner, "learner")
        self.learns_bias = from_layers(recipe, "examination") is not None
        self.log = log = _click_arrays(lists)
        self.examined = estimate_examined(log) if bias is None else checked_examined(bias, self.n_positions)
        if not self.learns_bias:
            self.examined = required_bias(self.examined)
        elif bias is not None:
            recipe = with_examination(recipe, checked_examined(bias, self.n_positions))
        elif self.examined is not None and not solver.base:
            recipe = with_examination(recipe, not_below_click_rates(self.examined, log))
        if solver.base:
            recipe = BaseScore(inner=recipe, feature=schema.slot(solver.base))
        self.learner = with_hashed(recipe)
        self.receipt = receipt_of_logged_page(self.learner)

    def go_over(self, session: Session, lists: Lists) -> None:
        """Learn from all lists in the order of the log; unstable updates are left out and counted."""
        for page in lists:
            query, n_items = page.query(self.encoder), len(page.ids)
            decision = Decision(np.arange(n_items), page.log_propensity, self.receipt(n_items))
            try:
                session.learn(query, decision, self._feedback(page, session.problem.shown))
            except UnstableUpdate:
                continue

    def examined_by(self, session: Session) -> Floats:
        """Return the probability of each position to be examined: estimated, or as the learner learned it."""
        if self.examined is not None:
            return self.examined
        return bias_of_offsets(from_layers(session.state, "offsets"), self.n_positions)

    def _feedback(self, page: ShownList, shown: int | None) -> Feedback:
        weights = page.clicked
        if self.examined is not None and not self.learns_bias:
            weights = weighted_clicks(page.clicked, page.position, self.examined, self.clip)
        if Clicks not in self.learner.accepts:
            return Relevances(np.arange(len(page.ids)), weights)
        items = np.flatnonzero(weights[:shown])
        return Clicks(items, weights[items])


def _click_arrays(lists: Lists) -> ClickArrays:
    pairs = numbers_of([(page.query_id, id) for page in lists for id in page.ids])
    position, clicked = (np.concatenate([getattr(page, name) for page in lists]) for name in ("position", "clicked"))
    offsets = np.concatenate([[0], np.cumsum([len(page.ids) for page in lists])])
    return rows_as_log(pairs, position, clicked, offsets, [page.query_id for page in lists], propensity_of(lists))


def _scores(orders: Sequence[Any]) -> Floats:
    """Return by row minus its rank in the order of its list."""
    return np.concatenate([-np.argsort(order).astype(np.float64) for order in orders])
