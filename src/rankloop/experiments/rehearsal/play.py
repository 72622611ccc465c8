"""One learner in the world of a log, seed after seed: what its pages earn while it learns, and what it knows then."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import UnstableUpdate
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.learners.wrappers.hashed_columns import with_hashed
from rankloop.simulate.users.fitted_users import FittedUsers

BLOCKS = 20  # points of a learning curve
LATE = BLOCKS // 5  # of them, at the end: when it has learned


class ArmOutcome(NamedTuple):
    """Means per page, by seed; the last axis is clicks, purchases, money, as far as the log has them."""

    shown: Floats  # (seeds, blocks, measures): while it learns
    known: Floats  # (seeds, measures): what its best rankings of the late pages would have earned
    refused: int = 0


class RehearsalArm(NamedTuple):
    """An arm: a learner (empty: today's order) and the pages as it sees them, in today's order."""

    name: str
    learner: Any
    queries: Sequence[Query]
    problem: Problem
    users: dict[str, Any]
    attraction: Floats  # (seeds, rows)
    worth: Floats  # (rows, measures)
    offsets: Ints
    horizon: int


def rehearse_arm(arm: RehearsalArm) -> ArmOutcome:
    """Every seed has its own world; two arms with the same seed meet the same pages."""
    users = build(arm.users, "feedback")
    shown, known, refused = [], [], 0
    for seed in range(len(arm.attraction)):
        curve, last, faults = _one(arm, users, seed)
        shown.append(curve)
        known.append(last)
        refused += faults
    return ArmOutcome(np.array(shown), np.array(known), refused)


def _one(arm: RehearsalArm, users: FittedUsers, seed: int) -> tuple[Floats, Floats, int]:
    pages, others = np.random.SeedSequence(seed).spawn(2)
    rng, of_users = np.random.default_rng(pages), np.random.default_rng(others)
    session = None if not arm.learner else _session(arm, seed)
    attraction, n_pages = arm.attraction[seed], len(arm.offsets) - 1
    sums, counts, known = np.zeros((BLOCKS, arm.worth.shape[1])), np.zeros(BLOCKS), np.zeros(arm.worth.shape[1])
    for turn in range(arm.horizon):
        page = int(rng.random() * n_pages)
        own = slice(arm.offsets[page], arm.offsets[page + 1])
        relevance, worth, block = attraction[own], arm.worth[own], turn * BLOCKS // arm.horizon
        ranking = best = np.arange(len(relevance))
        if session is not None:
            query = arm.queries[page]
            best = session.predict(query) if block >= BLOCKS - LATE else best
            decision = session.rank(query)
            ranking = decision.ranking
            with suppress(UnstableUpdate):  # counted by the session
                session.learn(query, decision, users.observe(ranking, relevance, of_users))
        sums[block] += users.click_probabilities(ranking, relevance) @ worth[ranking]
        counts[block] += 1
        if block >= BLOCKS - LATE:
            known += users.click_probabilities(best, relevance) @ worth[best]
    known /= max(counts[-LATE:].sum(), 1.0)
    return sums / np.maximum(counts, 1)[:, None], known, 0 if session is None else session.refused


def _session(arm: RehearsalArm, seed: int) -> Session:
    learner: AnyLearner = build(arm.learner, "learner")
    return Session(with_hashed(learner) if arm.problem.n_hashed else learner, arm.problem, seed)
