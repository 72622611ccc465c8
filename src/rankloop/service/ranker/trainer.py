"""The learning half of a ranker: lessons and rollbacks in log order, through `Session.learn`."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.adapter import NO_CONTEXT, RawValues
from rankloop.core.cells import with_columns
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.plain import decision_from_plain, to_plain
from rankloop.core.saved_session import loads
from rankloop.core.session import Session
from rankloop.core.types import Decision, Query
from rankloop.features.schema import Schema
from rankloop.service.log.catalogue import Catalogue, merged_rows
from rankloop.service.log.events import FeedbackReceived, Ranked, Rebased
from rankloop.service.log.values import unpacked
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.ranker.feedback import learner_feedback

logger = logging.getLogger("rankloop.service")


class LoggedDecision(NamedTuple):
    """What `ranked` of a lesson decodes to."""

    query: Query
    decision: Decision[Any]


class SnapshotMark(NamedTuple):
    """A snapshot is due after this step; with it goes what the projection held at this very event."""

    projection: bytes
    oldest_open: int


class Lesson(NamedTuple):
    """A closed impression with what was revealed about it."""

    seq: int
    ranked: Ranked
    feedback: FeedbackReceived
    mark: SnapshotMark | None = None


class Rollback(NamedTuple):
    """The state becomes that of an earlier snapshot."""

    seq: int
    to: int
    mark: SnapshotMark | None = None


class Evolution(NamedTuple):
    """The schema becomes its next version."""

    seq: int
    config: RankerConfig
    mark: SnapshotMark | None = None


class Rebase(NamedTuple):
    """The state becomes one that was kept, whatever led to it."""

    seq: int
    event: Rebased
    mark: SnapshotMark | None = None


Step = Lesson | Rollback | Evolution | Rebase
FindState = Callable[[int], Any]


class PublishedState(NamedTuple):
    """A state that rankings may be drawn from, and the event after which it stands."""

    number: int
    state: Any
    learned: int
    refused: int
    rejected: int
    seq: int
    projection: bytes = b""  # counts and flags at that event
    schemas: tuple[Schema, ...] = ()  # all versions up to the one that the state has columns for


class Trainer:
    """Turns lessons into a state. Nothing else changes it, so the same lessons give the same bits."""

    def __init__(self, config: RankerConfig, start: bytes = b"", catalogue: Catalogue | None = None) -> None:
        self.config = config
        self.catalogue = catalogue
        self.session = Session(config.learner, config.problem, config.body.seed)
        if start:
            _, generator, _, _ = self.session.snapshot()
            self.session.restore(fitted(loads(start).state, config), generator, 0, 0)
        self.first = self.session.state
        self.number = 0  # counts every change of the state, so it only grows
        self.rejected = 0
        self.seq = 0

    def restore(self, session: Session, number: int, rejected: int, seq: int) -> None:
        """Go on from a snapshot."""
        self.session.restore(*session.snapshot())
        self.number, self.rejected, self.seq = number, rejected, seq

    def learn(self, step: Step, find_state: FindState) -> None:
        """One step; what cannot be learned is counted, not raised."""
        self.seq = step.seq
        if isinstance(step, Rollback):
            self._roll_back(step, find_state)
            return
        if isinstance(step, Evolution):
            self._evolve(step.config)
            return
        if isinstance(step, Rebase):
            self.restore(loads(step.event.session), step.event.number, step.event.rejected, step.seq)
            return
        try:
            query, decision = logged_decision(step.ranked, self.config, self.catalogue)
            shadow = self.config.body.shadow or step.ranked.elsewhere
            feedback = learner_feedback(step.feedback, step.ranked, decision, self.config.problem, shadow)
            self.session.learn(query, decision, feedback)
        except UnstableUpdate:
            return  # the session has counted it in `refused`
        except (IncompatibleFeedback, InvalidInput):
            self.rejected += 1
            return
        except Exception as error:  # a defect of a learner must not stop the others; a replay meets it again
            logger.error("learn", exc_info=error)
            self.rejected += 1
            return
        self.number += 1

    def published(self) -> PublishedState:
        session, schemas = self.session, tuple(encoder.schema for encoder in self.config.encoders.values())
        counts = session.learned, session.refused, self.rejected
        return PublishedState(self.number, session.state, *counts, self.seq, schemas=schemas)

    def digest(self) -> str:
        return digest(self.session.state)

    def _roll_back(self, step: Rollback, find_state: FindState) -> None:
        _, generator, learned, refused = self.session.snapshot()
        self.session.restore(fitted(find_state(step.to), self.config), generator, learned, refused)
        self.number += 1

    def _evolve(self, config: RankerConfig) -> None:
        """What was learned stays, what is new begins at 0; a new number, as there may be a snapshot of either."""
        self.config, self.session = config, evolved_session(self.session, config)
        self.number += 1


def fitted(state: Any, config: RankerConfig) -> Any:
    """A state with a column for all that the ranker's schema has by now."""
    return with_columns(state, config.problem.n_features) if config.encoders else state


def evolved_session(session: Session, config: RankerConfig) -> Session:
    """The same session, with a problem that may have more features."""
    state, generator, learned, refused = session.snapshot()
    evolved = Session(config.learner, config.problem, config.body.seed)
    evolved.restore(fitted(state, config), generator, learned, refused)
    return evolved


def logged_decision(ranked: Ranked, config: RankerConfig, catalogue: Catalogue | None = None) -> LoggedDecision:
    """What the learner was asked and what it decided, from the log."""
    decision = decision_from_plain(ranked.decision or {}, config.learner)
    if ranked.schema:
        return LoggedDecision(_encoded_query(ranked, config, catalogue), decision)
    context = np.array(ranked.context, dtype=np.float64)
    query = Query(ranked.query_id, config.with_base_score(ranked.candidate_features), context)
    return LoggedDecision(query, decision)


def logged_values(ranked: Ranked, config: RankerConfig, catalogue: Catalogue | None = None) -> RawValues:
    """What was asked in people's own values, those that came from a catalogue among them."""
    if ranked.schema not in config.encoders:
        raise InvalidInput(f"this was ranked by version {ranked.schema} of a schema, which the ranker never had")
    given = unpacked(ranked.values, len(ranked.ids))
    rows = given.rows
    if ranked.catalogue and catalogue is not None:
        names = config.encoders[ranked.schema].schema.features.keys()
        rows = merged_rows(catalogue.rows(ranked.ids, ranked.catalogue), rows, names)
    return RawValues(rows, given.context, ranked.at, ranked.schema)


def _encoded_query(ranked: Ranked, config: RankerConfig, catalogue: Catalogue | None) -> Query:
    values, chosen = logged_values(ranked, config, catalogue), ranked.candidates
    ids, rows = ranked.ids, values.rows
    if chosen is not None:
        ids, rows = [ids[i] for i in chosen], [rows[i] for i in chosen]
    features = config.encoders[ranked.schema].rows(ids, rows, values.context, values.at)
    return Query(ranked.query_id, features, NO_CONTEXT)


def digest(state: Any) -> str:
    """Equal for states that are equal bit for bit, and for no others."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()
