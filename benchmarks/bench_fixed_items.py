"""Learners of a fixed set of items through `play`: time per round, stream and feedback included."""

from __future__ import annotations

from benchmarks.measurement import Row, alone, seconds_of
from rankloop.core.registry import build
from rankloop.simulate.play import play

REPEATS = 3
RUNS = (  # learner, feedback, items, rounds
    ("rtopk(horizon=20000)", "top_k", 20, 20_000),
    ("rtopk(horizon=20000, filler='random')", "top_k", 20, 20_000),
    ("ftpl(horizon=20000)", "full", 20, 20_000),
    ("mirror_descent(horizon=20000)", "full", 20, 20_000),
    ("precision_bandit(horizon=20000)", "top_k", 20, 20_000),
    ("rtopk(horizon=100000000)", "top_k", 1000, 2_000),
    ("ftpl(horizon=2000)", "full", 1000, 2_000),
)


def run() -> list[Row]:
    """One row per learner, seconds per round, the best of several runs."""
    rows = []
    for learner, users, n_items, rounds in RUNS:
        stream = {"kind": "flipped_relevance", "n_items": n_items, "n_relevant": n_items // 4}
        name = f"{learner.split('(')[0]}, m = {n_items}" + (", random filler" if "random" in learner else "")
        note = f"through play, {n_items} items, {rounds:,} rounds"
        rows.append(alone(name, _seconds_per_round(learner, stream, users, rounds), note=note))
    return rows


def _seconds_per_round(learner: str, stream: dict[str, object], feedback: str, rounds: int) -> float:
    recipe, source, users = build(learner, "learner"), build(stream, "stream"), build(feedback, "feedback")

    def play_all(horizon: int = rounds) -> None:
        for _ in play(recipe, source, users, horizon=horizon, seed=0):
            pass

    play_all(200)  # compiles
    return min(seconds_of(play_all) for _ in range(REPEATS)) / rounds
