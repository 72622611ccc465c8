"""Whole runs of the learners of a fixed set of items: time per round, stream, feedback and regret included."""

from __future__ import annotations

from typing import Any

from benchmarks.measurement import Row, alone, seconds_of
from rankloop.core.registry import build
from rankloop.simulate.compiled.whole_run import whole_run
from rankloop.simulate.play import play

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


def run() -> list[Row]:
    """One row per learner, seconds per round, the best of several runs."""
    rows = []
    for learner, people, n_items, rounds, budget in RUNS:
        things = (
            build(learner, "learner"),
            build({"kind": "flipped_relevance", "n_items": n_items, "n_relevant": n_items // 4}, "stream"),
            build(people, "feedback"),
        )
        whole_run(*things, horizon=200, seed=0)  # compiles
        name = f"{learner.split('(')[0]}, m = {n_items}" + (", random filler" if "random" in learner else "")
        target = "" if budget is None else f"≤ {budget:g} µs"
        note = f"whole run, {n_items} items, {rounds:,} rounds"
        rows.append(alone(name, _whole(things, rounds), target=target, note=note))
    things = build("rtopk(horizon=10000)"), build("flipped_relevance"), build("top_k")
    note = "one round at a time, as a service does"
    return [*rows, alone("rtopk through play, m = 20", _played(things, 10_000), note=note)]


def _whole(things: tuple[Any, Any, Any], rounds: int) -> float:
    return min(seconds_of(lambda: whole_run(*things, horizon=rounds, seed=0)) for _ in range(REPEATS)) / rounds


def _played(things: tuple[Any, Any, Any], rounds: int) -> float:
    def rest() -> None:
        for _ in play(*things, horizon=rounds, seed=0):
            pass

    return min(seconds_of(rest) for _ in range(REPEATS)) / rounds
