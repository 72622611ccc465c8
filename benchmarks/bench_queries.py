"""Linear learners over queries with features: rounds per second, beside VowpalWabbit and one pass over the features."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.measurement import Row, Timed, alone, best_of, in_turn, row
from rankloop.core.registry import build
from rankloop.core.types import Floats, Problem, Query
from rankloop.simulate.play import play
from rankloop.simulate.streams.letor import Letor

ROUNDS, PEER_ROUNDS, PYTHON_ROUNDS = 20_000, 4000, 500
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

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return itertools.cycle(self.queries)


def run() -> list[Row]:
    web = Prepared(20, 46, 500)
    rows = [_budget(learner, users, web) for learner, users in LEARNERS]
    with tempfile.TemporaryDirectory() as folder:
        rows += _beside_vowpal_wabbit(Prepared(20, 46, PEER_ROUNDS), Path(folder))
        for n_items, n_features in ((100, 136), (25, 700)):
            rows += _beside_one_pass(_as_letor(Prepared(n_items, n_features, 200), Path(folder)))
    return rows


def _budget(learner: str, users: str, stream: Prepared) -> Row:
    seconds = best_of(_played(learner, users, stream, ROUNDS)) / ROUNDS
    note = f"{1 / seconds:,.0f} rounds/s through play, 20 × 46"
    return alone(f"{learner}, 20 × 46", seconds, target=f"≥ {WANTED:,} rounds/s", note=note)


def _beside_one_pass(stream: Letor) -> list[Row]:
    """The peer is the time that reading all features of the rounds once takes."""
    features, n_queries = stream.dataset().features, stream.dataset().n_queries
    size, passes = f"{len(features) // n_queries} × {features.shape[1]}", 3000 // n_queries

    def read() -> None:
        for _ in range(passes):
            features.sum()

    rows = []
    for learner, users in (("ranking_perceptron", "full"), BANDIT):
        times = in_turn(_played(learner, users, stream, 3000), read)
        note = f"{1 / times.ratio:.1f} passes over the features"
        rows.append(row(f"{learner}, {size}, play", times, note=note))
    return rows


def _beside_vowpal_wabbit(prepared: Prepared, folder: Path) -> list[Row]:
    """VowpalWabbit reads its cache in a thread of its own: it is measured with all cores, and on one as we are."""
    stream = _as_letor(prepared, folder)
    play_once = _played(BANDIT[0], BANDIT[1], stream, PEER_ROUNDS)
    try:
        import vowpalwabbit
    except ImportError:
        note = "VowpalWabbit is not installed: pip install vowpalwabbit"
        return [alone("beside VowpalWabbit, play", best_of(play_once) / PEER_ROUNDS, target="3×", note=note)]
    lines = _as_text(prepared)
    cached, python = _cached(vowpalwabbit, folder, lines), _python(vowpalwabbit, lines)
    version = f"vowpalwabbit {vowpalwabbit.__version__}, --cb_explore_adf, 20 × 46"
    rows = []
    for cores, where in ((None, ""), (1, ", one core")):
        note = f"{version}, " + ("VW on two threads" if cores is None else "both on one core")
        with _on(cores):
            name, sizes = f"play, VW from its cache{where}", (PEER_ROUNDS, PEER_ROUNDS)
            rows.append(_each(name, sizes, play_once, cached, "", note))
    sizes, note = (PEER_ROUNDS, PYTHON_ROUNDS), f"{version}, predict and learn, text made beforehand"
    return [*rows, _each("play, VW from Python", sizes, play_once, python, "≥ 10×", note)]


def _each(
    name: str, n_rounds: tuple[int, int], ours: Callable[[], object], peer: Callable[[], object], target: str, note: str
) -> Row:
    """Seconds per round, where the two sides play so many of them."""
    times, (our_rounds, peer_rounds) = in_turn(ours, peer), n_rounds
    scale = our_rounds / peer_rounds
    seconds = times.ours / our_rounds, times.peer / peer_rounds
    return row(
        name, Timed(*seconds, times.ratio * scale, times.spread * scale), peer="VowpalWabbit", target=target, note=note
    )


@contextmanager
def _on(cores: int | None) -> Iterator[None]:
    """Keep this process and its threads on so many cores, where the system can."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _as_letor(prepared: Prepared, folder: Path) -> Letor:
    """The same queries as a file: a stream that `play` knows, which shuffles the items and draws the queries."""
    pattern = " ".join(f"{j + 1}:%.5f" for j in range(prepared.problem.n_features))
    path = folder / f"{len(prepared.queries)}x{prepared.problem.n_features}.txt"
    with path.open("w") as file:
        for name, (query, grades) in enumerate(prepared.queries):
            for grade, features in zip(grades, query.features):
                file.write(f"{grade:.0f} qid:{name} {pattern % tuple(features.tolist())}\n")
    return Letor(path=str(path))


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


def _cached(vowpalwabbit: Any, folder: Path, lines: list[str]) -> Callable[[], None]:
    text, cache = folder / "rounds.txt", folder / "rounds.cache"
    text.write_text("\n\n".join(lines) + "\n\n")
    os.utime(text, (0, 0))  # a cache of the same second counts as stale, and the text would be parsed again
    common = f"--cb_explore_adf --epsilon 0.1 --quiet -d {text} --cache_file {cache}"
    vowpalwabbit.Workspace(f"{common} -k").finish()  # writes the cache
    return lambda: vowpalwabbit.Workspace(common).finish()


def _python(vowpalwabbit: Any, lines: list[str]) -> Callable[[], None]:
    workspace = vowpalwabbit.Workspace("--cb_explore_adf --epsilon 0.1 --quiet")
    graded = [round.split("\n") for round in lines[:PYTHON_ROUNDS]]
    features = [[item[item.index("|") :] for item in items] for items in graded]  # before the reward is known

    def learn() -> None:
        for items, answered in zip(features, graded):
            workspace.predict(items)
            workspace.learn(answered)

    return learn


def _played(learner: str, users: str, stream: Any, rounds: int) -> Callable[[], float]:
    """Looks at what was shown and how good it was in every round."""
    recipe, crowd = build(learner, "learner"), build(users, "feedback")

    def go() -> float:
        played = play(recipe, stream, crowd, horizon=rounds, seed=0)
        return sum(float(round.relevance[round.decision.ranking[0]]) for round in played)

    return go
