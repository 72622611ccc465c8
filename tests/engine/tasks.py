"""What the tests hand to workers. A worker imports this file to find it, so it imports little itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.engine.base import Piece


def scaled(partition: Any, argument: float) -> Any:
    return partition * argument


def squared(task: int) -> int:
    if task == 13:
        raise InvalidInput("thirteen is not allowed")
    return task * task


def summed(piece: Piece) -> tuple[int, int]:
    """The shared value is a file that the first to come writes before it dies."""
    if piece.shared and piece.first == 4:
        try:
            Path(piece.shared).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    if 13 in piece.entries:
        raise InvalidInput("thirteen is not allowed")
    return piece.first, sum(piece.entries)


def blocks_interrupts(task: int) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
