"""`python -m benchmarks.list_logs`: how often the estimators by examination answer, and how often they are right.

Worlds where the truth is known: `fair_pairs` learns from 50 candidates of which ten are shown, 3,000 pages; then other
rankers are judged by that log. The truth is what they earn from 24,000 further pages of the same people.

`--fresh` plays those of `FRESH` instead: other sizes, people and seeds, written down before any of them was played.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from rankloop import Session, build, play
from rankloop.evaluation import RankingPolicy
from rankloop.evaluation.off_policy.lists.answer import evaluate_pages
from rankloop.evaluation.off_policy.lists.pages import ShownPage

PAGES, SHOWN, QUERIES, VISITS = 3000, 10, 6000, 4
PEOPLE = {
    "position-based": "position_based(max_grade=4, shown=10)",
    "dependent": "dcm(max_grade=4, shown=10)",
    "dependent, informational": "dcm(max_grade=4, shown=10, behaviour='informational')",
    "cascade": "cascade(max_grade=4, shown=10)",
    "user browsing": "ubm(max_grade=4, shown=10)",
}

STREAM = "linear_gaussian(n_items=50, n_features=10)"
FRESH_SEEDS, FRESH_PAGES = range(7000, 7008), 1500
FRESH = {  # people, stream, learner
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
        self, people: str, seed: int, pages: int = PAGES, learner: str = "fair_pairs", stream: str = STREAM
    ) -> None:
        self.seed, self.pages = seed, list[ShownPage]()
        self.stream = build(stream, "stream")
        self.people, self.learner = build(people, "feedback"), build(learner, "learner")
        for one in play(self.learner, self.stream, self.people, horizon=pages, seed=seed):
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
            clicks += sum(len(self.people.observe(ranking, relevance, rng).items) for _ in range(VISITS))
        return clicks / (VISITS * queries)


Run = tuple[float, float, bool, bool, bool]  # truth, error, held, answered, wrong side


def judged(world: World) -> Iterator[tuple[str, Run]]:
    """How the estimate of each ranker stands beside the truth."""
    for name, session in world.rankers():
        found, truth = evaluate_pages(session, world.pages), world.truth(session)
        value, lower, upper = found.ranker["clicks"]
        gain, now = found.gain["clicks"], found.log["clicks"].value
        said = (gain.lower > 0) - (gain.upper < 0)
        wrong = said != 0 and said != np.sign(truth - now)
        yield name, (truth, value - truth, lower <= truth <= upper, not found.cannot_tell, wrong)


def told(runs: list[Run]) -> dict[str, Any]:
    truth, error, covered, answers, wrong = np.array(runs, dtype=float).T
    at = answers > 0
    return {
        "clicks per page": round(float(truth.mean()), 3),
        "mean error": round(float(error.mean()), 4),
        "answers": f"{int(at.sum())} of {len(at)}",
        "interval holds": f"{int(covered[at].sum())} of {int(at.sum())}",
        "wrong side": int(wrong[at].sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--people", nargs="*", default=list(PEOPLE))
    parser.add_argument("--fresh", action="store_true", help="the worlds that were written down beforehand")
    options = parser.parse_args()
    worlds = [
        (people, lambda people=people, seed=seed: World(PEOPLE[people], seed, options.pages))
        for people in options.people
        for seed in range(options.worlds)
    ]
    if options.fresh:
        worlds = [
            (name, lambda own=own, seed=seed: World(own[0], seed, FRESH_PAGES, own[2], own[1]))
            for seed in FRESH_SEEDS
            for name, own in FRESH.items()
        ]
    rows: dict[tuple[str, str], list[Run]] = {}
    for people, made in worlds:
        for name, run in judged(made()):
            rows.setdefault((people, name), []).append(run)
            print(json.dumps({"people": people, "ranker": name, "run": list(map(float, run))}), file=sys.stderr)
    for (people, name), runs in rows.items():
        print(json.dumps({"people": people, "ranker": name} | told(runs)), flush=True)


if __name__ == "__main__":
    main()
