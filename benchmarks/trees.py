"""`python -m benchmarks.trees`: a learner over the score of cross-fitted trees beside either alone, on the MSLR sample.

A fifth of the queries is new, in turn. The trees are fitted to the grades of the others, on which the learners then go
on from simulated clicks, 20 random candidates a round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from rankloop import build, play
from rankloop.core.types import Problem, Query
from rankloop.data import Dataset
from rankloop.measures.base import parse_measure
from rankloop.simulate.streams.pool import shuffled_rounds
from rankloop.training.trees import TreeRanker, fit_trees

SET = {"kind": "letor", "path": "letor/mslr_sample/mslr_sample.txt.gz", "normalise": True}
BEHAVIOURS = ("perfect", "navigational", "informational")
MAX_GRADE, N_PARTS, CANDIDATES, EARLY = 4, 5, 20, 1000
SHOWN, NEW = parse_measure("nDCG(empty='skip')@5"), parse_measure("nDCG@5")
FIRST = "trees alone"
COLUMNS = ("first", "last", "all", "new_early", "new")


class Queries:
    """Rounds over a data set."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.problem = data, Problem(n_features=data.n_features, max_grade=MAX_GRADE)

    def rounds(self, rng: Any) -> Iterator[Any]:
        return shuffled_rounds(self.data, rng, CANDIDATES)


def arms(trees: TreeRanker, known: Dataset, new: Dataset) -> Iterator[tuple[str, Any, Dataset, Dataset]]:
    """A name, a learner, and the queries to play on and to be judged on."""
    scored, new_scored = trees.added_to(known), trees.added_to(new)
    visible = np.mean([booster.predict(known.features) for booster in trees.boosters], axis=0) / trees.scale
    leaking = known._replace(features=np.column_stack([known.features, visible]))
    yield FIRST, {"kind": "fixed_weights", "weights": [0.0] * known.n_features + [1.0]}, scored, new_scored
    for kind in ("newton_pairs", "fair_pairs"):
        yield f"{kind} alone", kind, known, new
        yield f"{kind} over trees", {"kind": "base_score", "inner": kind}, scored, new_scored
    yield "newton_pairs over trees that saw them", {"kind": "base_score", "inner": "newton_pairs"}, leaking, new_scored


def quality(learner: Any, state: Any, data: Dataset) -> float:
    borders = pairwise(data.offsets)
    queries = [(Query("", data.features[a:b], np.empty(0)), data.relevance[a:b]) for a, b in borders]
    return float(np.mean([NEW(learner.predict(state, query), grades) for query, grades in queries]))


def played(spec: Any, known: Dataset, new: Dataset, behaviour: str, horizon: int, seed: int) -> dict[str, float]:
    """What was shown in the first and the last rounds and in all, and how new queries are ranked."""
    learner, means = build(spec, "learner"), {}
    users, values = build({"kind": "dcm", "behaviour": behaviour, "max_grade": MAX_GRADE}, "feedback"), []
    for round_ in play(learner, Queries(known), users, horizon=horizon, seed=seed):
        values.append(SHOWN(round_.decision.ranking, round_.relevance))
        state = round_.learned
        if round_.t + 1 == min(EARLY, horizon):
            means["new_early"] = quality(learner, state, new)
    parts = {"first": values[:EARLY], "last": values[-horizon // 10 :], "all": values}
    means |= {name: float(np.nanmean(part)) for name, part in parts.items()}
    return means | {"new": quality(learner, state, new)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = build(SET | {"min_items": CANDIDATES, "need_relevant": True}, "stream").dataset()
    order = np.random.default_rng(0).permutation(data.n_queries)
    rows: dict[tuple[str, str], list[list[float]]] = {}
    for part in range(N_PARTS):
        old, new = data.subset(np.setdiff1d(order, order[part::N_PARTS])), data.subset(np.sort(order[part::N_PARTS]))
        for name, spec, to_play, to_judge in arms(fit_trees(old), old, new):
            for behaviour in BEHAVIOURS:
                runs = [
                    played(spec, to_play, to_judge, behaviour, options.rounds, 100 + i) for i in range(options.seeds)
                ]
                means = [float(np.mean([run[column] for run in runs])) for column in COLUMNS]
                rows.setdefault((behaviour, name), []).append(means)
    for (behaviour, name), parts in sorted(rows.items()):
        print(
            json.dumps({"behaviour": behaviour, "arm": name} | told(np.array(parts), np.array(rows[behaviour, FIRST])))
        )


def told(parts: Any, trees_alone: Any) -> dict[str, Any]:
    """Means over the parts, and how far they are above the trees alone, with the standard error over the parts."""
    above = parts - trees_alone
    errors = above.std(axis=0, ddof=1) / np.sqrt(len(parts))
    columns = zip(COLUMNS, parts.mean(axis=0), above.mean(axis=0), errors)
    return {name: f"{mean:.3f} ({more:+.3f} ± {error:.3f})" for name, mean, more, error in columns}


if __name__ == "__main__":
    main()
