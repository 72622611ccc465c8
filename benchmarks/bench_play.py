"""What the loop costs: rounds through `play` beside the same learner and users called by hand, without a session."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from time import process_time
from typing import Any

import numpy as np

from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.core.types import Floats, Problem, Query
from rankloop.simulate.play import play

ROUNDS = 20_000
REPEATS = 5
ARMS = (  # learner, users
    ("online_gradient", "full"),
    ("3pr", "noisy_reader"),
    ("random_order", "top_k"),
)


class Repeated:
    """A stream that costs next to nothing: 100 queries of 20 items and 46 features, over and over."""

    problem = Problem(n_features=46)

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.pool: list[tuple[Query, Floats]] = [
            (Query("", rng.random((20, 46)), np.empty(0)), np.floor(2.0 * rng.random(20))) for _ in range(100)
        ]

    def rounds(self, rng: np.random.Generator) -> Any:
        while True:
            yield from self.pool


def run() -> list[dict[str, Any]]:
    """CPU seconds per round, the best of several runs; the note says what `play` adds to the bare calls."""
    rows = []
    for kind, users in ARMS:
        things = build(kind, "learner"), Repeated(), build(users, "feedback")
        bare, played = _best(_by_hand, things), _best(_played, things)
        rows.append(_row(f"{kind} through play, 20 × 46", played, bare))
    return rows


def _played(learner: Any, stream: Any, users: Any) -> None:
    for _ in play(learner, stream, users, horizon=ROUNDS, seed=0):
        pass


def _by_hand(learner: Any, stream: Any, users: Any) -> None:
    state = learner.init(stream.problem._replace(shown=users.shown, depth=users.depth))
    of_stream, of_users, of_learner, _ = generators(0)
    for query, relevance in islice(stream.rounds(of_stream), ROUNDS):
        decision = learner.rank(state, query, of_learner)
        state = learner.learn(state, query, decision, users.observe(decision.ranking, relevance, of_users))


def _best(call: Callable[..., None], things: tuple[Any, Any, Any]) -> float:
    """CPU time, because others may share the machine."""
    call(*things)  # compiles
    times = []
    for _ in range(REPEATS):
        start = process_time()
        call(*things)
        times.append(process_time() - start)
    return min(times) / ROUNDS


def _row(name: str, played: float, bare: float) -> dict[str, Any]:
    return {
        "name": name,
        "ours_seconds": played,
        "peer_seconds": bare,
        "ratio": None,
        "target": "adds ≤ 8 µs",
        "note": f"adds {1e6 * (played - bare):.1f} µs to the bare calls; {1 / played:,.0f} rounds/s",
    }
