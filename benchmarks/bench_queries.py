"""Linear learners over queries with features: rounds per second, beside VowpalWabbit and one pass over the features."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator

from rankloop.core.registry import build
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import Dataset
from rankloop.simulate.play import play
from rankloop.simulate.whole_queries import whole_queries

REPEATS, ROUNDS, WHOLE_ROUNDS, PEER_ROUNDS = 5, 20_000, 100_000, 4000
WANTED = 60_000  # rounds per second through `play`
LEARNERS = (
    ("ranking_perceptron", "full"),
    ("max_pair_perceptron", "full"),
    ("perceptron", "full"),
    ("online_gradient", "full"),
    ("topk_gradient(surrogate='squared')", "top_k(depth=1)"),
    ("topk_gradient(surrogate='kl', learning_rate=0.001)", "top_k(depth=1)"),
    ("topk_gradient(surrogate='rank_svm')", "top_k(depth=2)"),
)
BANDIT = ("topk_gradient(surrogate='squared')", "top_k(depth=1)")  # sees one grade a round, as VowpalWabbit does


class Prepared:
    """Queries made beforehand, so that a round costs the stream nothing."""

    def __init__(self, n_items: int, n_features: int, n_queries: int) -> None:
        rng = np.random.default_rng(0)
        direction = rng.normal(size=n_features) / np.sqrt(n_features)
        features = rng.normal(size=(n_queries, n_items, n_features))
        latent = features @ direction + 0.5 * rng.normal(size=(n_queries, n_items))
        grades = np.clip(np.floor(1.5 * latent + 1.0), 0.0, 4.0)
        self.problem = Problem(n_features, max_grade=4)
        self.queries = [(Query.of(rows), marks) for rows, marks in zip(features, grades)]
        table, offsets = features.reshape(-1, n_features), np.arange(n_queries + 1) * n_items
        self.table = Dataset.of(table, grades.reshape(-1), offsets)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return itertools.cycle(self.queries)

    def dataset(self, rng: Generator) -> Dataset:
        return self.table


def run() -> list[dict[str, Any]]:
    web = Prepared(20, 46, 500)
    rows = [_budget(learner, people, web) for learner, people in LEARNERS]
    rows += _beside_vowpal_wabbit()
    for n_items, n_features in ((100, 136), (25, 700)):
        rows += _beside_one_pass(Prepared(n_items, n_features, 600))
    return rows


def _budget(learner: str, people: str, stream: Prepared) -> dict[str, Any]:
    seconds = _played(learner, people, stream, ROUNDS)
    note = f"{1 / seconds:,.0f} rounds/s through play, 20 × 46"
    return _row(f"{learner}, 20 × 46", seconds, None, f"≥ {WANTED:,} rounds/s", note)


def _beside_one_pass(stream: Prepared) -> list[dict[str, Any]]:
    """The peer is the time that reading all features once takes."""
    n_rows, n_features = stream.table.features.shape
    size = f"{n_rows // stream.table.n_queries} × {n_features}"
    once = _best(lambda: stream.table.features.sum()) / stream.table.n_queries
    rows = []
    for learner, people in (("ranking_perceptron", "full"), BANDIT):
        for how, seconds in (
            ("play", _played(learner, people, stream, 3000)),
            ("whole run", _whole(learner, people, stream, 3000)),
        ):
            note = f"{seconds / once:.1f} passes over the features"
            rows.append(_row(f"{learner}, {size}, {how}", seconds, once, "≥ 0.33 (3 passes)", note))
    return rows


def _beside_vowpal_wabbit() -> list[dict[str, Any]]:
    stream = Prepared(20, 46, PEER_ROUNDS)
    ours, whole = _played(*BANDIT, stream, PEER_ROUNDS), _whole(*BANDIT, stream, WHOLE_ROUNDS)
    try:
        import vowpalwabbit
    except ImportError:
        note = "VowpalWabbit is not installed: pip install vowpalwabbit"
        return [_row("beside VowpalWabbit, play", ours, None, 3.0, note)]
    lines = _as_text(stream)
    with tempfile.TemporaryDirectory() as folder:
        cached = _cached(vowpalwabbit, Path(folder), lines)
    python = _python(vowpalwabbit, lines)
    version = f"vowpalwabbit {vowpalwabbit.__version__}, --cb_explore_adf, 20 × 46"
    return [
        _row("play, VW from its cache", ours, cached, 3.0, version),
        _row("play, VW from Python", ours, python, 10.0, f"{version}, predict and learn, text made beforehand"),
        _row("whole run, VW from its cache", whole, cached, 10.0, version),
    ]


def _as_text(stream: Prepared) -> list[str]:
    """Rounds in VowpalWabbit's format; a random item was shown and its grade is the reward."""
    rng, pattern = np.random.default_rng(1), " ".join(f"{j}:%.5f" for j in range(stream.problem.n_features))
    rounds = []
    for query, grades in stream.queries:
        items = ["| " + pattern % tuple(row.tolist()) for row in query.features]
        shown = int(rng.integers(len(items)))
        items[shown] = f"0:{-grades[shown]}:{1 / len(items)} {items[shown]}"
        rounds.append("\n".join(items))
    return rounds


def _cached(vowpalwabbit: Any, folder: Path, lines: list[str]) -> float:
    text, cache = folder / "rounds.txt", folder / "rounds.cache"
    text.write_text("\n\n".join(lines) + "\n\n")
    os.utime(text, (0, 0))  # a cache of the same second counts as stale, and the text would be parsed again
    common = f"--cb_explore_adf --epsilon 0.1 --quiet -d {text} --cache_file {cache}"
    vowpalwabbit.Workspace(f"{common} -k").finish()  # writes the cache
    return _best(lambda: vowpalwabbit.Workspace(common).finish()) / len(lines)


def _python(vowpalwabbit: Any, lines: list[str]) -> float:
    workspace = vowpalwabbit.Workspace("--cb_explore_adf --epsilon 0.1 --quiet")
    some = [round.split("\n") for round in lines[:1000]]
    asked = [[item[item.index("|") :] for item in items] for items in some]  # before the reward is known

    def learn() -> None:
        for items, graded in zip(asked, some):
            workspace.predict(items)
            workspace.learn(graded)

    return _best(learn) / len(some)


def _played(learner: str, people: str, stream: Any, rounds: int) -> float:
    recipe, crowd = build(learner, "learner"), build(people, "feedback")

    def rest(horizon: int) -> None:
        for _ in play(recipe, stream, crowd, horizon=horizon, seed=0):
            pass

    rest(100)  # compiles
    return _best(lambda: rest(rounds)) / rounds


def _whole(learner: str, people: str, stream: Any, rounds: int) -> float:
    recipe, crowd = build(learner, "learner"), build(people, "feedback")

    def rest(horizon: int) -> None:
        whole_queries(recipe, stream, crowd, horizon=horizon, seed=0, measure=None)  # as the peer, which judges nothing

    rest(100)  # compiles
    return _best(lambda: rest(rounds)) / rounds


def _best(work: Callable[[], object]) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def _row(name: str, ours: float, peer: float | None, target: float | str | None, note: str) -> dict[str, Any]:
    ratio = None if peer is None else peer / ours
    return {"name": name, "ours_seconds": ours, "peer_seconds": peer, "ratio": ratio, "target": target, "note": note}
