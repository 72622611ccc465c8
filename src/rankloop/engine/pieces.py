"""Logs of any length over an engine: the workers compute pieces, whose results come back in order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice, takewhile
from typing import Any, NamedTuple, TypeVar

from rankloop.engine.base import Engine, Result
from rankloop.engine.in_process import Here

T = TypeVar("T")
PIECE_ENTRIES = 256
PIECES_IN_MEMORY = 64  # pieces that the workers get at a time


class Piece(NamedTuple):
    """Consecutive entries, and the argument that all pieces share."""

    first: int  # the number of the first entry, from 0
    entries: list[Any]
    shared: Any


def over_pieces(
    engine: Engine,
    entries: Iterable[T],
    function: Callable[[Piece], Result],
    shared: Any = None,
    *,
    size: int = PIECE_ENTRIES,
    progress: Callable[[int], None] = lambda finished: None,
) -> Iterator[Result]:
    """Yield function(piece) for every `size` entries, in their order, equal on every engine.

    A few pieces are in memory at a time. A worker that dies is replaced, as in `Engine.map`.

    Args:
      engine: The engine.
      entries: Of the log.
      function: An importable function of a piece.
      shared: The argument that all pieces share.
      size: The number of entries of a piece.
      progress: Called with the number of entries that are finished.

    Yields:
      The results.
    """
    left = iter(entries)
    cut = (Piece(first, list(islice(left, size)), shared) for first in count(0, size))
    pieces = takewhile(lambda piece: piece.entries, cut)
    window = 1 if isinstance(engine, Here) else PIECES_IN_MEMORY
    finished = 0
    while together := list(islice(pieces, window)):

        def done(index: int, result: Any, together: list[Piece] = together) -> None:
            nonlocal finished
            finished += len(together[index].entries)
            progress(finished)

        yield from engine.map(together, function, done)
