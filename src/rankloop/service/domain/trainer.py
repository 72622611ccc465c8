"""The trainer of a ranker: applies updates, rollbacks and schema changes in log order through `Session.learn`."""

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
    """The query and the decision of an impression, read from the log."""

    query: Query
    decision: Decision[Any]


FindState = Callable[[int], Any]


class Trainer:
    """Applies steps to a state. Nothing else changes the state, so equal steps give bit-equal states.

    Args:
      config: The ranker's configuration.
      start: A saved session to start from; empty: the learner's initial state.
      catalogue: The ranker's catalogue.
    """

    def __init__(self, config: RankerConfig, start: bytes = b"", catalogue: ItemCatalogue | None = None) -> None:
        self.config = config
        self.catalogue = catalogue
        self.session = Session(config.learner, config.problem, config.body.seed)
        if start:
            _, generator, _, _ = self.session.snapshot()
            self.session.restore(fitted(loads(start).state, config), generator, 0, 0)
        self.first = self.session.state
        self.number = 0  # counts changes of the state
        self.rejected = 0
        self.find_state: FindState = lambda number: self.first  # returns the state of a snapshot

    def restore(self, session: Session, number: int, rejected: int) -> None:
        """Continue from a snapshot.

        Args:
          session: The saved session.
          number: Its state number.
          rejected: The number of updates rejected before it.
        """
        state, generator, learned, refused = session.snapshot()
        self.session.restore(state, generator, learned, refused)
        self.number, self.rejected = number, rejected

    def learn(self, step: Step) -> None:
        """Apply one step; an update that fails is counted, not raised."""
        if isinstance(step, Update):
            self._update(step)
        elif isinstance(step, Rollback):
            _, generator, learned, refused = self.session.snapshot()
            self.session.restore(fitted(self.find_state(step.to), self.config), generator, learned, refused)
            self.number += 1
        elif isinstance(step, Evolution):
            # New columns start at 0. The number grows, since snapshots of both versions may exist.
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
        except Exception as error:  # a defect of one learner must not stop the others
            logger.error("learn", exc_info=error)
            self.rejected += 1
        else:
            self.number += 1

    def published(self, seq: int = 0, projection: bytes = b"") -> PublishedState:
        """Return the state for serving.

        Args:
          seq: The last event that is in the state.
          projection: Counts and flags at that event.
        """
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
        """Return the session as a snapshot keeps it, with all versions of its schema."""
        return dumps(self.session, self.config.schema_notes())

    def digest(self) -> str:
        """Return the digest of the current state."""
        return digest(self.session.state)


def fitted(state: Any, config: RankerConfig) -> Any:
    """Return a state with a column for everything in the ranker's newest schema.

    Args:
      state: A state, perhaps of an earlier version of the schema.
      config: The ranker's configuration.
    """
    return with_columns(state, config.problem.n_features) if config.encoders else state


def evolved_session(session: Session, config: RankerConfig) -> Session:
    """Return a session continued under the newest schema.

    Args:
      session: The session so far.
      config: The ranker's new configuration.
    """
    state, generator, learned, refused = session.snapshot()
    evolved = Session(config.learner, config.problem, config.body.seed)
    evolved.restore(fitted(state, config), generator, learned, refused)
    return evolved


def logged_decision(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None = None) -> LoggedDecision:
    """Return the query and the decision of a logged impression.

    Args:
      ranked: The impression.
      config: The ranker's configuration.
      catalogue: The ranker's catalogue.
    """
    decision = decision_from_plain(ranked.decision or {}, config.learner)
    if ranked.schema:
        return LoggedDecision(_encoded_query(ranked, config, catalogue), decision)
    features = np.array(np.frombuffer(ranked.features, dtype=np.float64).reshape(len(ranked.ids), -1))
    if ranked.candidates is not None:
        features = np.ascontiguousarray(features[ranked.candidates])
    if config.base_weights is not None:
        features = config.with_base_score(features)
    context = np.array(ranked.context, dtype=np.float64)
    return LoggedDecision(Query(ranked.query_id, features, context, ranked.user), decision)


def _encoded_query(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None) -> Query:
    values, chosen = logged_values(ranked, config, catalogue), ranked.candidates
    ids, rows = ranked.ids, values.rows
    if chosen is not None:
        ids, rows = [ids[i] for i in chosen], [rows[i] for i in chosen]
    features = config.encoders[ranked.schema].rows(ids, rows, values.context, values.at)
    return Query(ranked.query_id, features, NO_CONTEXT, ranked.user)


def digest(state: Any) -> str:
    """Return the SHA-256 of a state: equal for bit-equal states only."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()
