"""A ranker that is asked with which probability it would show what a log shows, wherever an engine says."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Floats
from rankloop.engine import Engine, Here
from rankloop.engine.pieces import SIZE, Piece, over_pieces
from rankloop.evaluation.off_policy.propensities import PIECE, session_rows
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.impressions import Impression
from rankloop.logs.rows import Rows
from rankloop.logs.shown_lists import ShownList

Watch = Callable[[int], None]  # called with the number of entries that are finished
HERE = Here()
JUDGES = 2  # that a worker keeps


def unwatched(finished: int) -> None:
    """Nobody watches."""


class Judge:
    """A ranker, and the schema by which it is asked where it has one."""

    def __init__(self, session: Session, schema: Schema | None = None) -> None:
        self.session, self.schema = session, schema
        self.encoder = None if schema is None else Encoder(schema)

    def arrival(self, one: Impression | ShownList) -> Arrival:
        """What was shown, as this ranker sees it."""
        if isinstance(one, Impression):
            return one.arrival()
        if self.encoder is None:
            raise AssertionError("lists in values by name are encoded by a schema")
        return one.arrival(self.encoder)

    def rows(
        self, log: Iterable[Impression] | Iterable[ShownList], engine: Engine = HERE, watch: Watch = unwatched
    ) -> Iterator[Rows]:
        """Rows for the estimators, in the order of the log; the same on every engine, to the last bit."""
        if isinstance(engine, Here):
            shared: object = self
        else:
            shared = dumps(self.session), "" if self.schema is None else json.dumps(self.schema.to_plain())
        pieces = over_pieces(engine, log, judged_piece, shared, watch=watch)
        while together := list(islice(pieces, PIECE // SIZE)):
            yield Rows(*(np.concatenate(columns) for columns in zip(*together)))


def judged_piece(piece: Piece) -> tuple[Floats, Floats, Floats]:
    """Reward, propensity and target of each entry, by the judge that came with the piece."""
    judge = piece.shared if isinstance(piece.shared, Judge) else _sent(*piece.shared)
    (rows,) = session_rows(judge.session, map(judge.arrival, piece.entries), first=piece.first)
    return rows.reward, rows.propensity, rows.target


@lru_cache(JUDGES)
def _sent(session: bytes, schema: str) -> Judge:
    return Judge(loads(session), Schema.from_plain(json.loads(schema)) if schema else None)
