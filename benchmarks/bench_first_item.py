"""Queries whose first item alone is judged: Thompson sampling of ours beside contextual bandits with item features."""

from __future__ import annotations

import numpy as np

from benchmarks.bandit_loop import Ours, Side, compared
from benchmarks.bandit_peers import RiverRegression, VowpalWabbit
from benchmarks.measurement import Row
from rankloop import Clicks, Query, build
from rankloop.core.protocols import Stream
from rankloop.data import data_folder

ROUNDS = 5000
PARTS = tuple(f"letor/mq2008/S{part}.txt.gz" for part in (1, 2, 3))
OURS = "linear_thompson(noise=0.2)"
SQUARE_CB = "--cb_explore_adf --squarecb --gamma_scale 30"


def run() -> list[Row]:
    """The grade of the first item, per round. MABWiser is absent: its arms have no features of their own."""
    name, stream = available_stream()
    ours = Ours(OURS, stream.problem, answer)
    sides = [
        Side("VowpalWabbit", SQUARE_CB, VowpalWabbit(SQUARE_CB, lines, max_reward=stream.problem.max_grade)),
        Side("river", "LinearRegression(Adam(0.005)), ε = 0.05", RiverRegression(epsilon=0.05, step=0.005)),
    ]
    return list(compared(f"first item of {name}", "grade per query", stream, ROUNDS, ours, sides))


def available_stream() -> tuple[str, Stream]:
    folder = data_folder()
    if folder is not None and all((folder / part).exists() for part in PARTS):
        return "MQ2008", build({"kind": "letor", "path": PARTS, "need_relevant": True}, "stream")
    return "web_search (synthetic)", build("web_search", "stream")


def answer(item: int, grade: float) -> Clicks:
    """A click that weighs as much as the grade; none for 0."""
    return Clicks(np.array([item]), np.array([grade])) if grade > 0 else Clicks(np.empty(0, np.int64), np.empty(0))


def lines(query: Query) -> list[str]:
    return [
        "| " + " ".join(f"{j}:{value:.5f}" for j, value in enumerate(row) if value) for row in query.features.tolist()
    ]
