"""Play one learner in worlds drawn from a log: what its pages earn while it learns, and what it has learned."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import UnstableUpdate
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.learners.wrappers.hashed_weights import with_hashed
from rankloop.simulate.users.fitted_users import FittedUsers

N_CURVE_POINTS = 20  # points of a learning curve
N_LATE_POINTS = N_CURVE_POINTS // 5  # of them, at the end: when it has learned


class ArmOutcome(NamedTuple):
    """Means per page, by world; the last axis is clicks, purchases, money, as far as the log has them.

    Attributes:
      shown: (worlds, blocks, measures), while it learns.
      learned: (worlds, measures), what its best rankings of the late pages would have earned.
      best: (worlds, blocks, measures), what the order by true attraction earns on the same pages.
      refused: How many updates were left out.
    """

    shown: Floats
    learned: Floats
    best: Floats
    refused: int = 0


class RehearsalArm(NamedTuple):
    """An arm: a learner and the pages as it sees them, in today's order.

    Attributes:
      name: In tables.
      learner: Its spec; empty for today's order.
      queries: By page.
      problem: Of the learner.
      users: By world, the spec of its users.
      attraction: (worlds, rows).
      worth: (rows, measures).
      offsets: Where pages begin, and the number of rows at the end.
      horizon: How many pages are played.
    """

    name: str
    learner: Any
    queries: Sequence[Query]
    problem: Problem
    users: Sequence[dict[str, Any]]
    attraction: Floats
    worth: Floats
    offsets: Ints
    horizon: int


def rehearse_arm(arm: RehearsalArm) -> ArmOutcome:
    """Play an arm in every world; two arms meet the same pages in the same world."""
    outcomes = [_play_world(arm, build(users, "feedback"), world) for world, users in enumerate(arm.users)]
    return ArmOutcome(
        shown=np.array([outcome.shown for outcome in outcomes]),
        learned=np.array([outcome.learned for outcome in outcomes]),
        best=np.array([outcome.best for outcome in outcomes]),
        refused=sum(outcome.refused for outcome in outcomes),
    )


def _play_world(arm: RehearsalArm, users: FittedUsers, world: int) -> ArmOutcome:
    pages, others = np.random.SeedSequence(world).spawn(2)
    rng, of_users = np.random.default_rng(pages), np.random.default_rng(others)
    session = None if not arm.learner else _session(arm, world)
    attraction, n_pages = arm.attraction[world], len(arm.offsets) - 1
    sums, best_sums = np.zeros((2, N_CURVE_POINTS, arm.worth.shape[1]))
    counts, learned = np.zeros(N_CURVE_POINTS), np.zeros(arm.worth.shape[1])
    for turn in range(arm.horizon):
        page = int(rng.random() * n_pages)
        rows = slice(arm.offsets[page], arm.offsets[page + 1])
        relevance, worth, block = attraction[rows], arm.worth[rows], turn * N_CURVE_POINTS // arm.horizon
        ranking = predicted = np.arange(len(relevance))
        if session is not None:
            query = arm.queries[page]
            predicted = session.predict(query) if block >= N_CURVE_POINTS - N_LATE_POINTS else predicted
            decision = session.rank(query)
            ranking = decision.ranking
            with suppress(UnstableUpdate):  # counted by the session
                session.learn(query, decision, users.observe(ranking, relevance, of_users))
        else:
            ideal = np.argsort(-relevance, kind="stable")
            best_sums[block] += users.click_probabilities(ideal, relevance) @ worth[ideal]
        sums[block] += users.click_probabilities(ranking, relevance) @ worth[ranking]
        counts[block] += 1
        if block >= N_CURVE_POINTS - N_LATE_POINTS:
            learned += users.click_probabilities(predicted, relevance) @ worth[predicted]
    learned /= max(counts[-N_LATE_POINTS:].sum(), 1.0)
    pages_in_block = np.maximum(counts, 1)[:, None]
    refused = 0 if session is None else session.refused
    return ArmOutcome(sums / pages_in_block, learned, best_sums / pages_in_block, refused)


def _session(arm: RehearsalArm, world: int) -> Session:
    learner: AnyLearner = build(arm.learner, "learner")
    return Session(with_hashed(learner) if arm.problem.n_hashed else learner, arm.problem, world)
