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
    """Means per page, by world; the last axis is clicks, purchases, money, as far as the log has them."""

    shown: Floats  # (worlds, blocks, measures), while it learns
    learned: Floats  # (worlds, measures), what its best rankings of the late pages would have earned
    best: Floats  # (worlds, blocks, measures), what the order by true attraction earns on the same pages
    refused: int  # updates that were left out


class RehearsalArm(NamedTuple):
    """An arm: a learner and the pages as it sees them, in today's order."""

    name: str
    learner: Any  # its spec; empty for today's order
    queries: Sequence[Query]  # by page
    problem: Problem  # of the learner
    users: Sequence[dict[str, Any]]  # by world, the spec of its users
    attraction: Floats  # (worlds, rows)
    worth: Floats  # (rows, measures)
    offsets: Ints  # where pages begin, and the number of rows at the end
    horizon: int  # pages that are played


def rehearse_arm(arm: RehearsalArm) -> ArmOutcome:
    """Play an arm in every world; two arms meet the same pages in the same world."""
    n_worlds, n_measures = len(arm.users), arm.worth.shape[1]
    shown, best = np.zeros((2, n_worlds, N_CURVE_POINTS, n_measures))
    learned, refused = np.zeros((n_worlds, n_measures)), 0
    for world, spec in enumerate(arm.users):
        users: FittedUsers = build(spec, "feedback")
        pages, others = np.random.SeedSequence(world).spawn(2)
        rng, of_users = np.random.default_rng(pages), np.random.default_rng(others)
        session = None
        if arm.learner:
            learner: AnyLearner = build(arm.learner, "learner")
            session = Session(with_hashed(learner) if arm.problem.n_hashed else learner, arm.problem, world)
        counts = np.zeros(N_CURVE_POINTS)
        for turn in range(arm.horizon):
            page = int(rng.random() * (len(arm.offsets) - 1))
            rows = slice(arm.offsets[page], arm.offsets[page + 1])
            relevance, worth = arm.attraction[world, rows], arm.worth[rows]
            block = turn * N_CURVE_POINTS // arm.horizon
            is_late = block >= N_CURVE_POINTS - N_LATE_POINTS
            ranking = predicted = np.arange(len(relevance))
            if session is not None:
                query = arm.queries[page]
                predicted = session.predict(query) if is_late else predicted
                decision = session.rank(query)
                ranking = decision.ranking
                with suppress(UnstableUpdate):  # counted by the session
                    session.learn(query, decision, users.observe(ranking, relevance, of_users))
            else:
                ideal = np.argsort(-relevance, kind="stable")
                best[world, block] += users.click_probabilities(ideal, relevance) @ worth[ideal]
            shown[world, block] += users.click_probabilities(ranking, relevance) @ worth[ranking]
            counts[block] += 1
            if is_late:
                learned[world] += users.click_probabilities(predicted, relevance) @ worth[predicted]
        pages_in_block = np.maximum(counts, 1)[:, None]
        shown[world], best[world] = shown[world] / pages_in_block, best[world] / pages_in_block
        learned[world] /= max(counts[-N_LATE_POINTS:].sum(), 1.0)
        refused += 0 if session is None else session.refused
    return ArmOutcome(shown, learned, best, refused)
