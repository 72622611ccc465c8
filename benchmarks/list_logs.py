"""`python -m benchmarks.list_logs`: how often the estimators by examination answer, and how often they are right.

Worlds where the truth is known: `fair_pairs` learns from 50 candidates of which ten are shown, 3,000 pages; then other
rankers are judged by that log. The truth is what they earn from 24,000 further pages of the same people.

`--fresh` plays those of `FRESH` instead: other sizes, people and seeds, written down before any of them was played;
`--looked-at` those of `LOOKED_AT`, which were fresh once and because of which the estimators were changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankloop import Session, build, play
from rankloop.evaluation import RankingPolicy
from rankloop.evaluation.list_evaluation import evaluate_pages
from rankloop.evaluation.list_pages import ShownPage

PAGES, SHOWN, QUERIES, VISITS = 3000, 10, 6000, 4
CLEAR = 0.05
PEOPLE = {
    "position-based": "position_based(max_grade=4, shown=10)",
    "dependent": "dcm(max_grade=4, shown=10)",
    "dependent, informational": "dcm(max_grade=4, shown=10, behaviour='informational')",
    "cascade": "cascade(max_grade=4, shown=10)",
    "user browsing": "ubm(max_grade=4, shown=10)",
}

STREAM = "linear_gaussian(n_items=50, n_features=10)"
NOISY = "linear_gaussian(n_items=28, n_features=6, noise=0.8)"
WIDE = "linear_gaussian(n_items=45, n_features=9, noise=0.6)"
READERS = {"kind": "fitted_users", "model": "dbn", "attraction": [0.04, 0.15, 0.35, 0.6, 0.85], "shown": 10}
FRESH_SEEDS, FRESH_PAGES = range(9100, 9104), 1400
FRESH = {  # people, stream, learner
    "position-based": ("position_based(severity=1.2, max_grade=4, shown=10)", WIDE, "newton_pairs"),
    "cascade, navigational": ("cascade(max_grade=4, shown=10, behaviour='navigational')", NOISY, "fair_pairs"),
    "dynamic Bayesian": (
        READERS | {"satisfaction": [0.02, 0.1, 0.3, 0.6, 0.8], "persistence": 0.85},
        NOISY,
        "fair_pairs",
    ),
    "user browsing, perfect": ("ubm(max_grade=4, shown=10, behaviour='perfect')", NOISY, "fair_pairs"),
    "user browsing, informational": ("ubm(max_grade=4, shown=10, behaviour='informational')", WIDE, "newton_pairs"),
}
LOOKED_AT_SEEDS, LOOKED_AT_PAGES = range(7000, 7008), 1500
LOOKED_AT = {
    "position-based, flatter": (
        "position_based(severity=0.7, max_grade=4, shown=10)",
        "linear_gaussian(n_items=30, n_features=6, noise=1.0)",
        "fair_pairs",
    ),
    "cascade, navigational": (
        "cascade(max_grade=4, shown=10, behaviour='navigational')",
        "linear_gaussian(n_items=30, n_features=6, noise=1.0)",
        "fair_pairs",
    ),
    "user browsing, perfect": (
        "ubm(max_grade=4, shown=10, behaviour='perfect')",
        "linear_gaussian(n_items=40, n_features=8, noise=0.8)",
        "newton_pairs",
    ),
    "user browsing, informational": (
        "ubm(max_grade=4, shown=10, behaviour='informational')",
        "linear_gaussian(n_items=30, n_features=6, noise=1.0)",
        "fair_pairs",
    ),
}


class World:
    """A log, and what rankers really earn from the people who made it."""

    def __init__(
        self, users: Any, seed: int, pages: int = PAGES, learner: str = "fair_pairs", stream: str = STREAM
    ) -> None:
        self.seed, self.pages = seed, list[ShownPage]()
        self.stream = build(stream, "stream")
        self.users, self.learner = build(users, "feedback"), build(learner, "learner")
        for one in play(self.learner, self.stream, self.users, horizon=pages, seed=seed):
            ((query, decision, feedback),) = one.arrived
            hits = np.isin(decision.ranking[:SHOWN], feedback.items).astype(np.float64)
            drawn_by = RankingPolicy(self.learner, one.state)
            self.pages.append(ShownPage(query, decision.ranking, hits, drawn_by=drawn_by))
            self.state = one.learned

    def session(self, learner: Any, state: Any = None) -> Session:
        session = Session(build(learner, "learner"), self.stream.problem._replace(shown=SHOWN), 0)
        if state is not None:
            session.restore(state, session.snapshot()[1], 0, 0)
        return session

    def rankers(self) -> Iterator[tuple[str, Session]]:
        """The learner as it is at the end and as it began; its weights without chance; and a worse copy of them."""
        weights = self.state.weights
        noise = np.random.default_rng(self.seed).normal(size=len(weights)) * 0.7 * np.std(weights)
        yield "the learner at the end", self.session(self.learner, self.state)
        yield "the learner at first", self.session(self.learner)
        for name, own in (("its weights alone", weights), ("worse weights", weights + noise)):
            yield name, self.session({"kind": "fixed_weights", "weights": tuple(own.tolist())})

    def truth(self, session: Session, queries: int = QUERIES) -> float:
        """Clicks per page, on queries that come after the log."""
        rounds = self.stream.rounds(np.random.default_rng(np.random.SeedSequence(self.seed).spawn(4)[0]))
        rng, clicks = np.random.default_rng(self.seed + 1_000_000), 0
        for query, relevance in islice(rounds, len(self.pages), len(self.pages) + queries):
            ranking = session.learner.rank(session.state, query, rng).ranking
            clicks += sum(len(self.users.observe(ranking, relevance, rng).items) for _ in range(VISITS))
        return clicks / (VISITS * queries)


class Run(NamedTuple):
    """How an estimate stands beside the truth."""

    truth: float
    error: float
    held: bool
    answered: bool
    wrong: bool  # on the other side of today's clicks
    clear: bool  # the truth is further from today's clicks than `CLEAR` of them
    right: bool  # a side was named, and it is the truth's
    method: str


def judged(world: World) -> Iterator[tuple[str, Run]]:
    """How the estimate of each ranker stands beside the truth."""
    for name, session in world.rankers():
        found, truth = evaluate_pages(session, world.pages), world.truth(session)
        value, lower, upper = found.ranker["clicks"]
        gain, now = found.gain["clicks"], found.log["clicks"].value
        said = (gain.lower > 0) - (gain.upper < 0)
        side, held, answered = int(np.sign(truth - now)), lower <= truth <= upper, not found.cannot_tell
        wrong, right, clear = said * side < 0, said * side > 0, abs(truth - now) > CLEAR * now
        yield (
            name,
            Run(truth, value - truth, held, answered, answered and wrong, clear, answered and right, found.method),
        )


def told(runs: list[Run]) -> dict[str, Any]:
    def count(name: str, among: list[Run]) -> str:
        return f"{sum(getattr(run, name) for run in among)} of {len(among)}"

    answers, clear = [run for run in runs if run.answered], [run for run in runs if run.clear]
    return {
        "clicks per page": round(float(np.mean([run.truth for run in runs])), 3),
        "mean error": round(float(np.mean([run.error for run in runs])), 4),
        "answers": count("answered", runs),
        "interval holds": count("held", answers),
        "wrong side": sum(run.wrong for run in answers),
        "clear, answered": count("answered", clear),
        "clear, right side": count("right", clear),
        "methods": dict(Counter(run.method for run in runs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--users", nargs="*", default=list(PEOPLE))
    parser.add_argument("--fresh", action="store_true", help="the worlds that were written down beforehand")
    parser.add_argument("--looked-at", action="store_true", help="those that were fresh once")
    options = parser.parse_args()
    worlds = [
        (users, lambda users=users, seed=seed: World(PEOPLE[users], seed, options.pages))
        for users in options.users
        for seed in range(options.worlds)
    ]
    if options.fresh or options.looked_at:
        kinds, seeds, pages = LOOKED_AT, LOOKED_AT_SEEDS, LOOKED_AT_PAGES
        if options.fresh:
            kinds, seeds, pages = FRESH, FRESH_SEEDS, FRESH_PAGES
        worlds = [
            (name, lambda own=own, seed=seed: World(own[0], seed, pages, own[2], own[1]))
            for seed in seeds
            for name, own in kinds.items()
        ]
    rows: dict[tuple[str, str], list[Run]] = {}
    for users, made in worlds:
        for name, run in judged(made()):
            rows.setdefault((users, name), []).append(run)
            print(json.dumps({"users": users, "ranker": name, "run": [str(value) for value in run]}), file=sys.stderr)
    for (users, name), runs in rows.items():
        print(json.dumps({"users": users, "ranker": name} | told(runs)), flush=True)
    for users in dict.fromkeys(users for users, _ in rows):
        runs = [run for (own, _), some in rows.items() if own == users for run in some]
        print(json.dumps({"users": users} | told(runs)), flush=True)
    print(json.dumps({"users": "all"} | told([run for some in rows.values() for run in some])), flush=True)


if __name__ == "__main__":
    main()
