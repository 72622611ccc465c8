"""Pieces of a log: in their order, a window at a time, whoever computes them and whoever dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.engine import Here, LocalProcesses, Threads
from rankloop.engine.base import PIECE_ENTRIES, PIECES_IN_MEMORY, over_pieces
from tests.engine.tasks import summed


@pytest.mark.parametrize("engine", [Here(), Threads(workers=2)], ids=str)
def test_every_entry_is_in_one_piece(engine) -> None:
    watched: list[int] = []
    found = list(over_pieces(engine, range(11), summed, size=4, progress=watched.append))
    assert found == [(0, 6), (4, 22), (8, 27)]
    assert watched[-1] == 11
    assert list(over_pieces(engine, [], summed)) == []
    with pytest.raises(InvalidInput, match="thirteen"):
        list(over_pieces(engine, range(20), summed))


def test_a_worker_that_dies_changes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "died"
    found = list(over_pieces(LocalProcesses(workers=2), range(11), summed, str(mark), size=4))
    assert mark.exists()
    assert found == list(over_pieces(Here(), range(11), summed, size=4))


def test_a_long_log_is_read_a_window_at_a_time() -> None:
    read = 0

    def entries() -> Iterator[int]:
        nonlocal read
        while read < 3 * PIECES_IN_MEMORY * PIECE_ENTRIES:
            read += 1
            yield 0

    pieces = over_pieces(Threads(workers=1), entries(), summed)
    next(pieces)
    assert read == PIECES_IN_MEMORY * PIECE_ENTRIES
