"""A file that is read at every pass: through the page cache while that holds it, past it from then on."""

import ctypes
import itertools
import mmap
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path

import numpy as np

from rankloop.core.types import Floats

BLOCK = 4096  # bytes: what is read past the page cache begins and ends at its multiples, on disk as in memory
CHUNK, READERS = 2 << 20, 3  # bytes of one request; requests at a time, so that the disk always has one to go on with
HELD = 0.5  # share of the pages from which on the page cache is the quicker way


class ColumnFile:
    """Numbers in a file, read by position.

    Data that are larger than the memory push each other out of the page cache before their next turn comes: to pass it
    by saves copying every byte, leaves the pages that it does hold where they are, and those of other programs too.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._direct = _open_direct(path)
        if self._direct is not None:
            weakref.finalize(self, os.close, self._direct)
        self._pages = np.frombuffer(mmap.mmap(self._file, 0, access=mmap.ACCESS_READ), np.uint8)
        self._cached: set[int] = set()  # where reads through the page cache began

    def read(self, numbers: Floats, position: int) -> bool:
        """Fill the array with what stands from `position` on; False when the file is shorter."""
        if self._direct is not None and position in self._cached and self._is_gone(position, numbers.nbytes):
            try:
                return self._read_past_cache(self._direct, numbers, position)
            except OSError:  # a file system that cannot, or not with blocks of this size
                self._direct = None
        self._cached.add(position)
        return _filled(self._file, numbers.data.cast("B"), position)

    def _is_gone(self, position: int, size: int) -> bool:
        """Whether the page cache has let go of most of it."""
        first, end = position // mmap.PAGESIZE * mmap.PAGESIZE, min(position + size, len(self._pages))
        held = np.zeros(max(0, -(-(end - first) // mmap.PAGESIZE)), np.uint8)
        address = ctypes.c_void_p(self._pages.ctypes.data + first)
        failed = _libc().mincore(address, ctypes.c_size_t(max(0, end - first)), held.ctypes.data_as(ctypes.c_void_p))
        return not failed and float((held & 1).sum()) < HELD * len(held)

    def _read_past_cache(self, file: int, numbers: Floats, position: int) -> bool:
        end, room = position + numbers.nbytes, numbers.data.cast("B")
        whole = range(-(-position // BLOCK) * BLOCK, end // BLOCK * BLOCK, CHUNK)  # the blocks that are ours alone
        cuts = sorted({position, *whole, max(position, end // BLOCK * BLOCK), end})
        fits = (numbers.ctypes.data - position) % BLOCK == 0
        pieces = [
            _readers().submit(_piece, file, room[first - position : last - position], first, fits)
            for first, last in itertools.pairwise(cuts)
        ]
        wait(pieces)  # for all of them: none may still be writing when we return
        return all(piece.result() for piece in pieces)


def shift_to_fit(memory: Floats, position: int) -> int:
    """How many numbers to leave free at the start of the memory, for a read from `position` to need no copy."""
    return (position - memory.ctypes.data) % BLOCK // memory.itemsize


def _open_direct(path: Path) -> int | None:
    if not hasattr(os, "O_DIRECT"):
        return None
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None


def _piece(file: int, room: memoryview, position: int, fits: bool) -> bool:
    """In place where both ends and the memory are those of blocks, otherwise by way of a room that is."""
    if fits and position % BLOCK == 0 and len(room) % BLOCK == 0:
        return _filled(file, room, position)
    first, end = position // BLOCK * BLOCK, -(-(position + len(room)) // BLOCK) * BLOCK
    blocks = _blocks()[: end - first]
    before = position - first
    if not _filled(file, blocks, first, before + len(room)):
        return False
    room[:] = blocks[before : before + len(room)]
    return True


def _filled(file: int, room: memoryview, position: int, needed: int | None = None) -> bool:
    """Read until there is as much as needed; more is welcome."""
    done, needed = 0, len(room) if needed is None else needed
    while done < needed:
        n_read = os.preadv(file, [room[done:]], position + done)
        if n_read == 0:
            return False
        done += n_read
    return True


_own = threading.local()


def _blocks() -> memoryview:
    """Room for one chunk that begins at a block, used again by this thread."""
    if not hasattr(_own, "blocks"):
        _own.blocks = memoryview(mmap.mmap(-1, CHUNK + 2 * BLOCK))
    blocks: memoryview = _own.blocks
    return blocks


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, "columns")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
