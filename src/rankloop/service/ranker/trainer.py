"""The learning half of a ranker: lessons in log order, through `Session.learn`."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.plain import decision_from_plain, to_plain
from rankloop.core.saved_session import loads
from rankloop.core.session import Session
from rankloop.core.types import Decision, Floats, Query
from rankloop.service.log.events import Fed, Ranked
from rankloop.service.ranker.config import Plan, with_base_score
from rankloop.service.ranker.feedback import feedback_of


def features_of(ranked: Ranked) -> Floats:
    """One row per id, as the request gave them; a writable copy, for which kernels are compiled."""
    rows = np.frombuffer(ranked.features, dtype=np.float64).reshape(len(ranked.ids), -1)
    return np.array(rows)


def asked_features(ranked: Ranked) -> Floats:
    """The rows that the learner was asked to rank."""
    rows = features_of(ranked)
    return rows if ranked.asked is None else np.ascontiguousarray(rows[ranked.asked])


def context_of(ranked: Ranked) -> Floats:
    return np.array(ranked.context, dtype=np.float64)


def digest(state: Any) -> str:
    """Equal for states that are equal bit for bit, and for no others."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()


def position_of(session: Session) -> str:
    """Where the session's generator stands, as text."""
    inner = session.generator["state"]
    return f"{inner['state']:x}/{inner['inc']:x}"


def positioned(generator: dict[str, Any], position: str) -> dict[str, Any]:
    """The generator's state, moved to a position."""
    state, inc = position.split("/")
    return generator | {"state": {"state": int(state, 16), "inc": int(inc, 16)}, "has_uint32": 0, "uinteger": 0}


logger = logging.getLogger("rankloop.service")


class Decided(NamedTuple):
    """What `ranked` of a lesson decodes to."""

    query: Query
    decision: Decision[Any]


class Mark(NamedTuple):
    """A snapshot is due after this step; with it goes what the view held at this very event."""

    view: bytes
    oldest_open: int


class Lesson(NamedTuple):
    """A closed impression with what was revealed about it."""

    seq: int
    ranked: Ranked
    fed: Fed
    mark: Mark | None = None
    decided: Decided | None = None


class GoBack(NamedTuple):
    """The state becomes that of an earlier snapshot."""

    seq: int
    to: int
    mark: Mark | None = None


Step = Lesson | GoBack
FindState = Callable[[int], Any]


class Published(NamedTuple):
    """A state that rankings may be drawn from, and the event after which it stands."""

    number: int
    state: Any
    learned: int
    refused: int
    unfit: int
    seq: int


class Learning:
    """Folds lessons into a state. Nothing else changes it, so the same lessons give the same bits."""

    def __init__(self, plan: Plan, start: bytes = b"") -> None:
        self.plan = plan
        self.session = Session(plan.learner, plan.problem, plan.body.seed)
        if start:
            _, generator, _, _ = self.session.snapshot()
            self.session.restore(loads(start).state, generator, 0, 0)
        self.first = self.session.state
        self.number = 0  # counts every change of the state, so it only grows
        self.unfit = 0
        self.seq = 0

    def restore(self, session: Session, number: int, unfit: int, seq: int) -> None:
        """Go on from a snapshot."""
        self.session.restore(*session.snapshot())
        self.number, self.unfit, self.seq = number, unfit, seq

    def take(self, step: Step, find_state: FindState) -> None:
        """One step of the fold; what cannot be learned is counted, not raised."""
        self.seq = step.seq
        if isinstance(step, GoBack):
            self._go_back(step, find_state)
            return
        try:
            query, decision = step.decided or decided_of(step.ranked, self.plan)
            feedback = feedback_of(step.fed, step.ranked, decision, self.plan.problem, self.plan.body.shadow)
            self.session.learn(query, decision, feedback)
        except UnstableUpdate:
            return  # the session has counted it in `refused`
        except (IncompatibleFeedback, InvalidInput):
            self.unfit += 1
            return
        except Exception as error:  # a defect of a learner must not stop the others; a replay meets it again
            logger.error("learn", exc_info=error)
            self.unfit += 1
            return
        self.number += 1

    def published(self) -> Published:
        session = self.session
        return Published(self.number, session.state, session.learned, session.refused, self.unfit, self.seq)

    def digest(self) -> str:
        return digest(self.session.state)

    def _go_back(self, step: GoBack, find_state: FindState) -> None:
        _, generator, learned, refused = self.session.snapshot()
        self.session.restore(find_state(step.to), generator, learned, refused)
        self.number += 1


def decided_of(ranked: Ranked, plan: Plan) -> Decided:
    """What the learner was asked and what it decided, from the log."""
    query = Query(ranked.query_id, with_base_score(asked_features(ranked), plan), context_of(ranked))
    return Decided(query, decision_from_plain(ranked.decision or {}, plan.learner))
