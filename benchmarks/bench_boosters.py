"""Trees that are grown anew every night, alone and as the base that a learner corrects all day, in the simulated shop.

Both grow the same trees in the same way, each from the pages that it has shown itself. The second gives their score to
`click_regression` as a field to begin with, beside the fields and crosses of the shop. With churn, products go and new
ones come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.bench_shop import SHOPS, Played, played
from benchmarks.environment import installed
from benchmarks.measurement import Row, quality, row, timed
from benchmarks.shop_peers import LightGBM
from rankloop.ranker import Ranker
from research.shop.players import Rankloop
from research.shop.world import CONTEXT, CROSSES, FEATURES, SHOWN, VISITS_A_DAY, Fields, Shop

SEEDS, VISITS = range(3), 5000
TREES = "trees"
MAX_SCORE = 10.0  # a declared number counts as at most so many deviations


class OverTrees(LightGBM):
    """The score of last night's trees is what a learner begins with."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        score: Any = {"kind": "number", "scale": "linear"}
        self.online = Rankloop(seed)
        self.online.ranker = Ranker(
            "click_regression",
            features={**FEATURES, TREES: score},
            context=CONTEXT,
            crosses=list(CROSSES),
            shown=SHOWN,
            seed=seed,
            base=TREES,
        )
        self.spread = 1.0

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        scores = np.zeros(len(candidates))
        if self.model is not None:
            scores = np.clip(self.model.predict(self.rows, num_threads=1) / self.spread, -MAX_SCORE, MAX_SCORE)
        scored = [{**row, TREES: score} for row, score in zip(candidates, scores.tolist())]
        return self.online.rank(scored, context)

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        self.online.learn(order, clicks)
        super().learn(order, clicks)

    def refit(self) -> None:
        """The score has a standard deviation of 1 inside a page, so that it means the same every day."""
        super().refit()
        pages = [self.model.predict(rows, num_threads=1) for rows, _ in self.log[-VISITS_A_DAY:]]
        self.spread = float(np.mean([page.std() for page in pages])) or 1.0


def run() -> list[Row]:
    if not installed("LightGBM"):
        return []
    return [_row(title) for title in SHOPS]


def _row(title: str) -> Row:
    worlds = {seed: list(Shop(seed, SHOPS[title]).visits(VISITS)) for seed in SEEDS}
    for make in (OverTrees, LightGBM):
        played(make(0), worlds[0][:20])  # compiles, imports
    ours, alone = ([played(make(seed), worlds[seed]) for seed in SEEDS] for make in (OverTrees, LightGBM))
    judged = quality("clicks per page", _clicks(ours), _clicks(alone))
    days = f"first day {_day(ours, 0)} / {_day(alone, 0)}, last day {_day(ours, -1)} / {_day(alone, -1)}"
    note = f"click_regression over the trees of last night beside the same trees alone; {days} clicks per page; "
    note += f"{VISITS:,} visits, a night every {VISITS_A_DAY:,}, {len(SEEDS)} seeds"
    times = timed([(our.seconds, other.seconds) for our, other in zip(ours, alone)])
    return row(f"{title}, over nightly trees, beside LightGBM", times, peer="LightGBM", judged=judged, note=note)


def _clicks(runs: Sequence[Played]) -> list[float]:
    return [float(run.clicks.mean()) for run in runs]


def _day(runs: Sequence[Played], day: int) -> str:
    pages = [run.clicks[:VISITS_A_DAY] if day == 0 else run.clicks[-VISITS_A_DAY:] for run in runs]
    return f"{np.mean(pages):.3f}"
