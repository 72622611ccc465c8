"""The learning half of a ranker: updates and rollbacks in log order, through `Session.learn`."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.adapter import NO_CONTEXT
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.saved_session import dumps, loads
from rankloop.core.serialisation import decision_from_plain, to_plain
from rankloop.core.session import Session
from rankloop.core.types import Decision, Query
from rankloop.core.weight_table import with_columns
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.feedback_rules import learner_feedback
from rankloop.service.domain.named_values import logged_values
from rankloop.service.domain.projection import Evolution, PublishedState, Rollback, Step, Update
from rankloop.service.records import Ranked

logger = logging.getLogger("rankloop.service")


class LoggedDecision(NamedTuple):
    """What the learner was asked and what it decided, from the log."""

    query: Query
    decision: Decision[Any]


FindState = Callable[[int], Any]


class Trainer:
    """Turns steps into a state. Nothing else changes it, so the same steps give the same bits.

    Args:
      config: Of the ranker.
      start: A saved session to begin with; the learner's own beginning where it is empty.
      catalogue: Of the ranker.
    """

    def __init__(self, config: RankerConfig, start: bytes = b"", catalogue: ItemCatalogue | None = None) -> None:
        self.config = config
        self.catalogue = catalogue
        self.session = Session(config.learner, config.problem, config.body.seed)
        if start:
            _, generator, _, _ = self.session.snapshot()
            self.session.restore(fitted(loads(start).state, config), generator, 0, 0)
        self.first = self.session.state
        self.number = 0  # counts every change of the state, so it only grows
        self.rejected = 0
        self.find_state: FindState = lambda number: self.first  # the state of a snapshot, to go back to

    def restore(self, session: Session, number: int, rejected: int) -> None:
        """Go on from a snapshot."""
        state, generator, learned, refused = session.snapshot()
        self.session.restore(state, generator, learned, refused)
        self.number, self.rejected = number, rejected

    def learn(self, step: Step) -> None:
        """Take one step; what cannot be learned is counted, not raised."""
        if isinstance(step, Update):
            self._update(step)
        elif isinstance(step, Rollback):
            _, generator, learned, refused = self.session.snapshot()
            self.session.restore(fitted(self.find_state(step.to), self.config), generator, learned, refused)
            self.number += 1
        elif isinstance(step, Evolution):
            # What was learned stays, what is new begins at 0; a new number, as there may be a snapshot of either.
            self.config, self.session = step.config, evolved_session(self.session, step.config)
            self.number += 1
        else:
            self.restore(loads(step.event.session), step.event.number, step.event.rejected)

    def _update(self, step: Update) -> None:
        try:
            query, decision = logged_decision(step.ranked, self.config, self.catalogue)
            shadow = self.config.body.shadow or step.ranked.ingested
            feedback = learner_feedback(step.feedback, step.ranked, decision, self.config.problem, shadow)
            self.session.learn(query, decision, feedback)
        except UnstableUpdate:
            return  # the session has counted it in `refused`
        except (IncompatibleFeedback, InvalidInput):
            self.rejected += 1
        except Exception as error:  # a defect of a learner must not stop the others; a replay meets it again
            logger.error("learn", exc_info=error)
            self.rejected += 1
        else:
            self.number += 1

    def published(self, seq: int = 0, projection: bytes = b"") -> PublishedState:
        """Return what rankings may be drawn from, with the counts after the event `seq`."""
        encoders = self.config.encoders
        schemas = tuple([encoder.schema for encoder in encoders.values()]) if encoders else ()
        return PublishedState(
            number=self.number,
            state=self.session.state,
            learned=self.session.learned,
            refused=self.session.refused,
            rejected=self.rejected,
            seq=seq,
            projection=projection,
            schemas=schemas,
        )

    def saved(self) -> bytes:
        """The session as a snapshot keeps it, with the versions of its schema."""
        return dumps(self.session, self.config.schema_notes())

    def digest(self) -> str:
        return digest(self.session.state)


def fitted(state: Any, config: RankerConfig) -> Any:
    """A state with a column for all that the ranker's schema has by now."""
    return with_columns(state, config.problem.n_features) if config.encoders else state


def evolved_session(session: Session, config: RankerConfig) -> Session:
    """The same session, with a problem that may have more features."""
    state, generator, learned, refused = session.snapshot()
    evolved = Session(config.learner, config.problem, config.body.seed)
    evolved.restore(fitted(state, config), generator, learned, refused)
    return evolved


def logged_decision(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None = None) -> LoggedDecision:
    """What the learner was asked and what it decided, from the log."""
    decision = decision_from_plain(ranked.decision or {}, config.learner)
    if ranked.schema:
        return LoggedDecision(_encoded_query(ranked, config, catalogue), decision)
    features = np.array(np.frombuffer(ranked.features, dtype=np.float64).reshape(len(ranked.ids), -1))
    if ranked.candidates is not None:
        features = np.ascontiguousarray(features[ranked.candidates])
    if config.base_weights is not None:
        features = config.with_base_score(features)
    return LoggedDecision(Query(ranked.query_id, features, np.array(ranked.context, dtype=np.float64)), decision)


def _encoded_query(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None) -> Query:
    values, chosen = logged_values(ranked, config, catalogue), ranked.candidates
    ids, rows = ranked.ids, values.rows
    if chosen is not None:
        ids, rows = [ids[i] for i in chosen], [rows[i] for i in chosen]
    features = config.encoders[ranked.schema].rows(ids, rows, values.context, values.at)
    return Query(ranked.query_id, features, NO_CONTEXT)


def digest(state: Any) -> str:
    """Equal for states that are equal bit for bit, and for no others."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()
