"""Numbers from a file at any position: through the page cache, past it, and where a file system has no such way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.data.parts import column_file
from rankloop.data.parts.column_file import BLOCK, CHUNK, ColumnFile, shift_to_fit

N_NUMBERS = (3 * CHUNK + 5 * BLOCK) // 8 + 77  # its end is not that of a block


@pytest.fixture
def numbers(tmp_path: Path) -> Any:
    return _written(tmp_path / "numbers", np.random.default_rng(0).normal(size=N_NUMBERS))


def _written(path: Path, numbers: Any) -> Any:
    with path.open("wb") as file:
        file.write(numbers.tobytes())
        file.flush()
        os.fsync(file.fileno())  # only what is on the disk can be dropped from the cache
    return numbers


def _forget(path: Path) -> None:
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("this system cannot be asked to forget a file (posix_fadvise)")
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, N_NUMBERS), (16, 1), (511, 2), (512, 512), (100, CHUNK // 8), (3, N_NUMBERS - 3), (N_NUMBERS - 5, 5)],
)
@pytest.mark.parametrize("fits", [True, False])
def test_what_the_page_cache_forgot_is_read_past_it(
    tmp_path: Path, numbers: Any, monkeypatch: pytest.MonkeyPatch, first: int, count: int, fits: bool
) -> None:
    file, memory = ColumnFile(tmp_path / "numbers"), np.empty(count + BLOCK)
    shift = shift_to_fit(memory, 8 * first) + (0 if fits else 3)
    room, past = memory[shift : shift + count], []
    plainly = ColumnFile._read_past_cache
    monkeypatch.setattr(ColumnFile, "_read_past_cache", lambda *given: past.append(1) or plainly(*given))  # type: ignore[func-returns-value]
    for _ in range(2):  # the second time the page cache still has it
        room[:] = np.nan
        assert file.read(room, 8 * first)
        assert np.array_equal(room, numbers[first : first + count])
    assert past == []
    _forget(tmp_path / "numbers")
    gone = file._is_gone(8 * first, 8 * count)
    room[:] = np.nan
    memory[:shift] = memory[shift + count :] = 7.0
    assert file.read(room, 8 * first)
    assert np.array_equal(room, numbers[first : first + count])
    assert (memory[:shift] == 7.0).all()
    assert (memory[shift + count :] == 7.0).all()
    assert bool(past) == (gone and file._direct is not None)


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path, numbers: Any) -> None:
    file, room = ColumnFile(tmp_path / "numbers"), np.empty(N_NUMBERS)
    assert file.read(room, 0)
    assert not file.read(room, 8)
    os.truncate(tmp_path / "numbers", 8 * N_NUMBERS - 4096)
    _forget(tmp_path / "numbers")
    assert not file.read(room, 0)


def test_where_the_page_cache_cannot_be_passed_by_it_is_not(
    tmp_path: Path, numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ColumnFile, "_is_gone", lambda *given: True)
    room = np.empty(N_NUMBERS)
    refusing = ColumnFile(tmp_path / "numbers")

    def refused(*given: Any) -> bool:
        raise OSError("not on this file system")

    monkeypatch.setattr(column_file, "_piece", refused)
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    for file in (refusing, ColumnFile(tmp_path / "numbers")):
        for _ in range(3):
            room[:] = np.nan
            assert file.read(room, 0)
            assert np.array_equal(room, numbers)
        assert file._direct is None
