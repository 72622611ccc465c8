"""A log of any length over an engine: the workers compute pieces of it, which come back in their order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice, takewhile
from typing import Any, NamedTuple, TypeVar

from rankloop.engine.base import Engine, Result
from rankloop.engine.in_process import Here

T = TypeVar("T")
SIZE = 256
WINDOW = 64  # pieces that are handed to the workers together


class Piece(NamedTuple):
    """Consecutive entries, and what all pieces share."""

    first: int  # the number of the first entry, from 0
    entries: list[Any]
    shared: Any


def over_pieces(
    engine: Engine,
    entries: Iterable[T],
    function: Callable[[Piece], Result],
    shared: Any = None,
    *,
    size: int = SIZE,
    watch: Callable[[int], None] = lambda finished: None,
) -> Iterator[Result]:
    """function(piece) for every `size` entries, in their order, which is the same on every engine.

    A few pieces are in memory at a time, however long the log is. `watch` is called with the number of entries that
    are finished. A worker that dies is replaced, as in `Engine.map`.
    """
    left = iter(entries)
    cut = (Piece(first, list(islice(left, size)), shared) for first in count(0, size))
    pieces = takewhile(lambda piece: piece.entries, cut)
    window = 1 if isinstance(engine, Here) else WINDOW
    finished = 0
    while together := list(islice(pieces, window)):

        def done(index: int, result: Any, together: list[Piece] = together) -> None:
            nonlocal finished
            finished += len(together[index].entries)
            watch(finished)

        yield from engine.map(together, function, done)
