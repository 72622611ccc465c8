"""Whole runs of the learners of a fixed set of items: time per round, stream, feedback and regret included."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from rankloop.core.registry import build
from rankloop.simulate.play import play
from rankloop.simulate.whole_run import whole_run

REPEATS = 3
RUNS = (  # learner, feedback, items, rounds, budget in µs per round
    ("rtopk(horizon=300000)", "top_k", 20, 300_000, 1.0),
    ("rtopk(horizon=300000, filler='random')", "top_k", 20, 300_000, 1.0),
    ("ftpl(horizon=300000)", "full", 20, 300_000, 1.0),
    ("mirror_descent(horizon=300000)", "full", 20, 300_000, None),
    ("precision_bandit(horizon=300000)", "top_k", 20, 300_000, None),
    ("rtopk(horizon=100000000)", "top_k", 1000, 5_000, 100.0),
    ("ftpl(horizon=5000)", "full", 1000, 5_000, 100.0),
)


def run() -> list[dict[str, Any]]:
    """One row per learner, seconds per round, the best of several runs."""
    rows = []
    for learner, people, n_items, rounds, budget in RUNS:
        things = (
            build(learner, "learner"),
            build({"kind": "flipped_relevance", "n_items": n_items, "n_relevant": n_items // 4}, "stream"),
            build(people, "feedback"),
        )
        whole_run(*things, horizon=200, seed=0)  # compiles
        target = None if budget is None else f"≤ {budget:g} µs"
        note = f"whole run, {n_items} items, {rounds:,} rounds"
        rows.append(_row(f"{learner.split('(')[0]}, m = {n_items}", _whole(things, rounds), target, note))
        rows[-1]["name"] += ", random filler" if "random" in learner else ""
    things = build("rtopk(horizon=10000)"), build("flipped_relevance"), build("top_k")
    rows.append(
        _row("rtopk through play, m = 20", _played(things, 10_000), None, "one round at a time, as a service does")
    )
    return rows


def _whole(things: tuple[Any, Any, Any], rounds: int) -> float:
    return min(_seconds(lambda: whole_run(*things, horizon=rounds, seed=0)) for _ in range(REPEATS)) / rounds


def _played(things: tuple[Any, Any, Any], rounds: int) -> float:
    def rest() -> None:
        for _ in play(*things, horizon=rounds, seed=0):
            pass

    return min(_seconds(rest) for _ in range(REPEATS)) / rounds


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _row(name: str, seconds: float, target: str | None, note: str) -> dict[str, Any]:
    return {
        "name": name,
        "ours_seconds": seconds,
        "peer_seconds": None,
        "ratio": None,
        "target": target,
        "note": note,
    }
