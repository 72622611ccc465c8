"""What a benchmark hands back: how long both sides took, in turn, and how good they were."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
MIN_SECONDS = 0.05  # of one measurement


class Timed(NamedTuple):
    """Median seconds of both sides, the median of their ratios, and half the range of the ratios."""

    ours: float
    peer: float
    ratio: float
    spread: float


class Quality(NamedTuple):
    """Means of both sides, more is better, and the standard error of their difference, repeat by repeat."""

    measure: str
    ours: float
    theirs: float
    spread: float


def in_turn(ours: Callable[[], object], peer: Callable[[], object], repeats: int = 5) -> Timed:
    """Both sides in alternation, so that a busy machine hits both; the first round, which compiles, does not count."""
    ours(), peer()
    each, other = _often_enough(ours), _often_enough(peer)
    return timed([(each(), other()) for _ in range(repeats)])


def _often_enough(call: Callable[[], object]) -> Callable[[], float]:
    """Seconds of one call, from so many in a row that the clock and a passing disturbance matter little."""
    times = max(1, round(MIN_SECONDS / seconds_of(call)))

    def many() -> None:
        for _ in range(times):
            call()

    return lambda: seconds_of(many) / times


def timed(pairs: Sequence[tuple[float, float]]) -> Timed:
    """From the seconds (ours, peer's) of every repeat."""
    seconds = np.array(pairs)
    ratios = seconds[:, 1] / seconds[:, 0]
    ours, peer = np.median(seconds, axis=0)
    return Timed(float(ours), float(peer), float(np.median(ratios)), float(np.ptp(ratios)) / 2)


def quality(measure: str, ours: Sequence[float], theirs: Sequence[float]) -> Quality:
    """From the values of every repeat (a seed, a fold), which both sides met alike."""
    difference = np.subtract(ours, theirs)
    error = float(difference.std(ddof=1)) / len(difference) ** 0.5 if len(difference) > 1 else 0.0
    return Quality(measure, float(np.mean(ours)), float(np.mean(theirs)), error)


def seconds_of(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def best_of(call: Callable[[], object], repeats: int = 5) -> float:
    """The least seconds of several calls; the first, which compiles, does not count."""
    call()
    return min(seconds_of(call) for _ in range(repeats))


def row(
    name: str, found: Timed, *, peer: str = "", target: str = "", judged: Quality | str | None = None, note: str = ""
) -> Row:
    """A comparison. `peer` is the library that users would pick instead: such rows stand in the summary."""
    return {
        "name": name,
        "peer": peer,
        "ours_seconds": found.ours,
        "peer_seconds": found.peer,
        "ratio": found.ratio,
        "spread": found.spread,
        "quality": judged._asdict() if isinstance(judged, Quality) else judged,
        "target": target,
        "note": note,
    }


def alone(name: str, seconds: float, *, target: str = "", note: str = "") -> Row:
    """A time that stands beside nothing but its own budget."""
    return {"name": name, "ours_seconds": seconds, "target": target, "note": note}


def measured(name: str) -> list[Row]:
    """A benchmark in a process of its own: some peers change settings of all of it, and peaks of memory stay."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, name).result()


def _run(name: str) -> list[Row]:
    rows: list[Row] = importlib.import_module(f"benchmarks.bench_{name}").run()
    return rows
