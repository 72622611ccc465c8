"""Learning from clicks: rounds per second of 3PR, and PDGD beside a plain NumPy transcription of its paper."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from benchmarks.measurement import Row, alone, best_of, row, seconds_of, timed
from rankloop import Problem, Query, build, play
from rankloop.core.types import Clicks, Floats, Ints

N_ITEMS, N_FEATURES, N_QUERIES, SHOWN = 20, 46, 500, 10
ROUNDS, OWN_ROUNDS, PEER_ROUNDS, REPEATS = 20_000, 5_000, 500, 5


class Cheap:
    """Queries that are made once and handed out in turn, so that the loop and not the stream is measured."""

    problem = Problem(n_features=N_FEATURES, max_grade=2)

    def __init__(self) -> None:
        rng = default_rng(0)
        weights = rng.normal(size=N_FEATURES)
        self.queries = []
        for _ in range(N_QUERIES):
            features = rng.normal(size=(N_ITEMS, N_FEATURES))
            latent = features @ weights + 3 * rng.normal(size=N_ITEMS)
            self.queries.append((Query.of(features), (latent > 6).astype(float) + (latent > 12)))

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return cycle(self.queries)


class PlainPdgd:
    """Oosterhuis and de Rijke (2018) written down in NumPy, step by step, for a linear ranker."""

    def __init__(self, learning_rate: float = 0.1) -> None:
        self.weights, self.rate = np.zeros(N_FEATURES), learning_rate

    def rank(self, features: Floats, rng: Generator) -> Ints:
        scores = features @ self.weights
        ranking, left = [], np.ones(len(scores), dtype=bool)
        for _ in range(SHOWN):
            probabilities = np.where(left, np.exp(scores - scores[left].max()), 0.0)
            ranking.append(rng.choice(len(scores), p=probabilities / probabilities.sum()))
            left[ranking[-1]] = False
        return np.array(ranking)

    def learn(self, features: Floats, ranking: Ints, clicked: Any) -> None:
        scores = features @ self.weights
        last = np.flatnonzero(clicked).max(initial=-1)
        step = np.zeros(N_FEATURES)
        for i in np.flatnonzero(clicked):
            for j in range(min(last + 2, len(ranking))):
                if not clicked[j]:
                    swapped = ranking.copy()
                    swapped[i], swapped[j] = ranking[j], ranking[i]
                    shown, other = self.probability(scores, ranking), self.probability(scores, swapped)
                    k, l = ranking[i], ranking[j]  # noqa: E741 - the paper's letters
                    preferred = 1 / (1 + np.exp(scores[l] - scores[k]))
                    share = other / (shown + other)
                    step += share * preferred * (1 - preferred) * (features[k] - features[l])
        self.weights = self.weights + self.rate * step

    @staticmethod
    def probability(scores: Floats, ranking: Ints) -> float:
        strengths = np.exp(scores - scores.max())
        gone = np.concatenate([[0.0], np.cumsum(strengths[ranking])[:-1]])
        return float(np.prod(strengths[ranking] / (strengths.sum() - gone)))


def run() -> list[Row]:
    """One row per learner: seconds for one round, the best of several repetitions."""
    stream = Cheap()
    rows = [
        _rounds_per_second(stream, spec, target) for spec, target in (("3pr", 60_000), ("3pr(swap='dynamic')", 60_000))
    ]
    return [*rows, _pdgd(stream)]


def _rounds_per_second(stream: Cheap, spec: str, target: int) -> Row:
    learner, users = build(spec, "learner"), build("noisy_reader", "feedback")

    def loop() -> None:
        for _ in play(learner, stream, users, horizon=ROUNDS, seed=0):
            pass

    seconds = best_of(loop, REPEATS) / ROUNDS
    note = f"{1 / seconds:,.0f} rounds/s through play, {N_ITEMS} items × {N_FEATURES} features"
    return alone(f"{spec} round", seconds, target=f"≥ {target:,} rounds/s", note=note)


def _pdgd(stream: Cheap) -> Row:
    """Both sides rank and learn from the same kind of clicks: relevant items among the first ten."""
    learner, rng = build("pdgd", "learner"), default_rng(0)

    def ours() -> None:
        state = learner.init(Problem(n_features=N_FEATURES, shown=SHOWN))
        for (query, relevance), _ in zip(cycle(stream.queries), range(OWN_ROUNDS)):
            decision = learner.rank(state, query, rng)
            visible = decision.ranking[:SHOWN]
            hits = visible[relevance[visible] > 0]
            state = learner.learn(state, query, decision, Clicks(hits, np.ones(len(hits))))

    def theirs() -> None:
        peer = PlainPdgd()
        for (query, relevance), _ in zip(cycle(stream.queries), range(PEER_ROUNDS)):
            ranking = peer.rank(query.features, rng)
            peer.learn(query.features, ranking, relevance[ranking] > 0)

    _same_step(stream)
    ours()  # compiles
    pairs = [(seconds_of(ours) / OWN_ROUNDS, seconds_of(theirs) / PEER_ROUNDS) for _ in range(REPEATS)]
    note = "peer: plain NumPy transcription of the paper"
    return row("pdgd, rank and learn", timed(pairs), target="≥ 20×", note=note)


def _same_step(stream: Cheap) -> None:
    """Both sides must compute the same step before they are compared."""
    query, relevance = stream.queries[0]
    learner, peer = build("pdgd", "learner"), PlainPdgd()
    peer.weights = default_rng(1).normal(size=N_FEATURES) * 0.1
    state = learner.init(Problem(n_features=N_FEATURES, shown=SHOWN))._replace(weights=peer.weights.copy())
    decision = learner.rank(state, query, default_rng(2))
    visible = decision.ranking[:SHOWN]
    hits = visible[relevance[visible] > 0]
    peer.learn(query.features, visible, relevance[visible] > 0)
    learned = learner.learn(state, query, decision, Clicks(hits, np.ones(len(hits))))
    if not len(hits) or not np.allclose(peer.weights, learned.weights, rtol=1e-9):
        raise AssertionError("the two sides do not compute the same step")
