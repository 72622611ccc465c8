"""The trainer of a ranker: applies updates, rollbacks and schema changes in log order through `Session.learn`."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.adapter import NO_CONTEXT, feedback_of
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.plain_values import decision_from_plain, to_plain, with_receipt
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session, as_robust
from rankloop.core.types import Decision, Feedback, Query
from rankloop.features.schema import Schema
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.records import FeedbackReceived, Ranked, Snapshot

logger = logging.getLogger("rankloop.service")


class PublishedState(NamedTuple):
    """A state for serving, and the last event that is in it."""

    number: int = 0
    state: Any = None  # None for an experiment
    learned: int = 0
    refused: int = 0
    rejected: int = 0
    seq: int = 0
    projection: bytes = b""  # counts and flags at that event
    schemas: tuple[Schema, ...] = ()  # all versions up to that of the state


class Trainer:
    """Learns, step by step. Nothing else changes the state, so equal steps give bit-equal states."""

    def __init__(self, config: RankerConfig, start: bytes = b"") -> None:
        self.config = config
        self.session = Session(config.learner, config.problem, config.body.seed)
        if start:
            state = as_robust(self.session.state, loads(start).state)
            self.session.restore(config.fitted(state), None, 0, 0)
        self.first = self.session.state
        self.number = 0  # counts changes of the state
        self.rejected = 0
        self.find_state: Callable[[int], Any] = lambda number: None  # that of a snapshot, if there is one

    def restore(self, session: Session, number: int, rejected: int) -> None:
        """Continue from a snapshot."""
        self.session.restore(*session.snapshot())
        self.number, self.rejected = number, rejected

    def roll_back(self, number: int) -> None:
        """Set the state back to that of a snapshot, or to the first state."""
        state = self.find_state(number) if number else None
        state = self.config.fitted(self.first if state is None else state)
        self.session.restore(state, None, self.session.learned, self.session.refused)
        self.number += 1

    def evolve(self, config: RankerConfig) -> None:
        """Continue under the next version of the schema; new columns start at 0."""
        self.config, self.session = config, config.evolved_session(self.session)
        self.number += 1  # since snapshots of both versions may exist

    def learn(self, ranked: Ranked, received: FeedbackReceived, is_late_outcome: bool = False) -> None:
        """Learn from a closed impression; an update that fails is counted, not raised.

        An unexpected error is a defect of the learner if it comes again. Else it was the machine's, such as a lack of
        memory, and an update that a replay makes must not be missing here.
        """
        try:
            try:
                self._learn(ranked, received, is_late_outcome)
            except (UnstableUpdate, IncompatibleFeedback, InvalidInput):
                raise
            except Exception:
                self._learn(ranked, received, is_late_outcome)
        except UnstableUpdate:
            return  # the session has counted it in `refused`
        except (IncompatibleFeedback, InvalidInput):
            self.rejected += 1
        except Exception as error:  # a defect of one learner must not stop the others
            logger.error("learn", exc_info=error)
            self.rejected += 1
        else:
            self.number += 1

    def _learn(self, ranked: Ranked, received: FeedbackReceived, is_late_outcome: bool) -> None:
        query = logged_query(ranked, self.config)
        decision = with_receipt(decision_from_plain(ranked.decision or {}), self.config.learner)
        query = query._replace(item_ids=()) if is_late_outcome else query
        shadow = self.config.body.shadow or ranked.ingested or ranked.reordered
        self.session.learn(query, decision, self.feedback(received, ranked, decision, shadow))

    def feedback(self, received: FeedbackReceived, ranked: Ranked, decision: Decision[Any], shadow: bool) -> Feedback:
        """Return feedback in the item numbers of the learner's query, without items that it did not rank.

        With `shadow`, another order was shown; feedback on items that the learner would not have shown is left out.
        """
        kind, problem = received.feedback_kind, self.config.problem
        if ranked.candidates is None and not shadow:
            return feedback_of(kind, received.items, received.values, decision.ranking)
        number = None if ranked.candidates is None else {item: i for i, item in enumerate(ranked.candidates)}
        pairs = [(i if number is None else number.get(i, -1), v) for i, v in zip(received.items, received.values)]
        pairs = [(i, value) for i, value in pairs if i >= 0]
        if shadow and kind in ("clicks", "relevances"):
            visible = set(decision.ranking[: problem.shown if kind == "clicks" else problem.depth].tolist())
            pairs = [(i, value) for i, value in pairs if i in visible]
        values = received.values if kind == "reward" else [value for _, value in pairs]
        return feedback_of(kind, [i for i, _ in pairs], values, decision.ranking)

    def published(self) -> PublishedState:
        """Return the state for serving, without the event and the counts that belong to it."""
        return PublishedState(
            number=self.number,
            state=self.session.state,
            learned=self.session.learned,
            refused=self.session.refused,
            rejected=self.rejected,
            schemas=tuple([encoder.schema for encoder in self.config.encoders.values()]),
        )

    def saved(self) -> bytes:
        """Return the session as a snapshot keeps it, with all versions of its schema."""
        return dumps(self.session, self.config.schema_notes())

    def digest(self) -> str:
        """Return the digest of the current state."""
        return digest(self.session.state)


def logged_query(ranked: Ranked, config: RankerConfig) -> Query:
    """Return the query of a logged impression.

    Args:
      ranked: The impression.
      config: The ranker's configuration.
    """
    candidates, context = ranked.candidates, NO_CONTEXT
    ids = ranked.ids if candidates is None else [ranked.ids[i] for i in candidates]
    if ranked.schema:
        values = config.logged_values(ranked)
        rows: Any = values.rows if candidates is None else [values.rows[i] for i in candidates]
        features: Any = config.encoders[ranked.schema].rows(ids, rows, values.context, values.at)
    else:
        rows = np.frombuffer(ranked.features, dtype=np.float64).reshape(len(ranked.ids), -1)
        features = rows.copy() if candidates is None else rows[candidates]  # since kernels take writable arrays
        context = np.array(ranked.context, dtype=np.float64)
    return Query(ranked.query_id, features, context, ranked.user or ranked.session, ids)


def state_of(snapshot: Snapshot | None) -> Any:
    """Return the state of a snapshot, if there is one."""
    return None if snapshot is None else loads(snapshot.session).state


def digest(state: Any) -> str:
    """Return the SHA-256 of a state: equal for bit-equal states only."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()
