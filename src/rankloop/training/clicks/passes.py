"""Training by passes over a log: a learner learns from the logged lists as if it had shown them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import checked_examined
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.learner import from_layers
from rankloop.core.plain_values import check_learns_from_other_pages
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Decision, Floats, Problem, Relevances
from rankloop.data.dataset import offsets_of
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.hashed_weights import BaseScore, with_hashed
from rankloop.logs.list_log import LOGGED_SCORE, ShownList
from rankloop.training.clicks import weights as click_weights
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.solution_path import Progress


class OnlinePasses(NamedTuple):
    """Passes of an online learner over the log; held-out lists choose how many.

    `click_regression` without a base takes the shared estimate of examination as its offsets. It learns them where no
    item moved, and with a base, which holds the logged order itself. For other learners clicks are weighed by it.
    Learners that need their own decisions cannot learn from the log of another ranker and are refused. The base is the
    field with the score of today's order, from which the learner starts; the default adds minus the position in the log
    to the schema.
    """

    learner: str | Spec | AnyLearner = "click_regression"  # linear if there is a base
    max_passes: int = 5  # the largest number of passes
    base: str = LOGGED_SCORE  # empty: start from nothing


def train_in_passes(
    lists: Sequence[ShownList],
    schema: Schema,
    solver: OnlinePasses,
    problem: Problem,
    *,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    seed: int = 0,
    progress: Progress = lambda pass_number, of: None,
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
        raise InvalidInput(click_weights.NO_CLICK)
    passes = solver.max_passes
    if passes < 1:
        raise InvalidInput(f"passes = {passes} must be at least 1")
    held_out = click_weights.held_out_lists(len(lists), seed)
    training, judged_pages = (
        [page for page, is_held_out in zip(lists, held_out) if is_held_out == is_judge] for is_judge in (False, True)
    )
    task = _PassesTask(lists, schema, solver, position_bias, clip)
    log, offsets = task.log, task.log.offsets
    session, orders = Session(task.learner, problem, seed), []
    for pass_number in range(1, passes + 1):
        task.go_over(session, training)
        orders.append([session.predict(page.query(task.encoder)) for page in judged_pages])
        progress(pass_number, 2 * passes)
    examined = task.examined_by(session)
    weights = [click_weights.weighted_clicks(page.clicked, page.position, examined, clip) for page in judged_pages]
    scores = [_scores([np.arange(len(page.ids)) for page in judged_pages]), *map(_scores, orders)]
    borders = offsets_of([len(page.ids) for page in judged_pages])
    logged_gain, *pass_gains = (click_weights.mean_gain(score, np.concatenate(weights), borders) for score in scores)
    gains = {float(pass_number): gain for pass_number, gain in enumerate(pass_gains, start=1)}
    best = max(range(1, passes + 1), key=lambda pass_number: gains[pass_number])
    judgement = None
    if not any(page.feedback == "relevances" for page in lists):
        row_scores = np.zeros(offsets[-1])
        row_scores[np.repeat(held_out, np.diff(offsets))] = scores[best]
        judgement = click_weights.HeldOutJudgement.of(log, row_scores, held_out, position_bias)
    session = Session(task.learner, problem, seed)
    for pass_number in range(best):
        task.go_over(session, lists)
        progress(passes + pass_number + 1, passes + best)
    return ClickTraining(
        session=click_weights.ready_for_use(session),
        choice="passes",
        chosen=best,
        gains=gains,
        logged_gain=logged_gain,
        judgement=judgement,
        examined=task.examined_by(session),
        examined_is_known=task.examined is not None,
        n_lists=len(lists),
        schema=schema,
        notes=(f"{session.refused:,} updates that would have been unstable were left out",) if session.refused else (),
    )


class _PassesTask:
    """The learner and the weights of clicks, equal in every pass."""

    def __init__(
        self, lists: Sequence[ShownList], schema: Schema, solver: OnlinePasses, bias: ArrayLike | None, clip: float
    ) -> None:
        self.encoder, self.clip = Encoder(schema), clip
        self.log = click_weights.pages_as_log(lists)
        self.n_positions = int(self.log.position.max()) + 1
        checked_bias = None if bias is None else checked_examined(bias, self.n_positions)
        self.examined = click_weights.estimate_examined(self.log) if checked_bias is None else checked_bias
        recipe = build(solver.learner, "learner")
        self.learns_bias = from_layers(recipe, "examination") is not None
        if not self.learns_bias:
            self.examined = click_weights.required_bias(self.examined)
        elif checked_bias is not None:
            recipe = click_weights.with_examination(recipe, checked_bias)
        elif self.examined is not None and not solver.base:
            examined = click_weights.not_below_click_rates(self.examined, self.log)
            recipe = click_weights.with_examination(recipe, examined)
        if solver.base:
            recipe = BaseScore(inner=recipe, feature=schema.slot(solver.base))
        self.learner = with_hashed(recipe)
        check_learns_from_other_pages(self.learner)

    def go_over(self, session: Session, lists: Sequence[ShownList]) -> None:
        """Learn from lists in the order of the log; unstable updates are left out and counted."""
        for page in lists:
            query, n_items = page.query(self.encoder), len(page.ids)
            decision = Decision(np.arange(n_items), page.log_propensity, ())
            weights = page.clicked
            if self.examined is not None and not self.learns_bias:
                weights = click_weights.weighted_clicks(page.clicked, page.position, self.examined, self.clip)
            items = np.flatnonzero(weights[: session.problem.shown])
            takes_clicks = Clicks in self.learner.accepts
            feedback = Clicks(items, weights[items]) if takes_clicks else Relevances(np.arange(n_items), weights)
            with suppress(UnstableUpdate):
                session.learn(query, decision, feedback)

    def examined_by(self, session: Session) -> Floats:
        """Return the probability of each position to be examined: estimated, or as the learner learned it."""
        if self.examined is not None:
            return self.examined
        return click_weights.bias_of_offsets(from_layers(session.state, "offsets"), self.n_positions)


def _scores(orders: Sequence[Any]) -> Floats:
    """Return by row minus its rank in the order of its list."""
    return np.concatenate([-np.argsort(order).astype(np.float64) for order in orders])
