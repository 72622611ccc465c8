"""Learners of a fixed set of items: the regret that independent prototypes found, and the proved bounds above it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from rankloop.core.registry import build
from rankloop.core.types import Floats
from rankloop.experiments.run.regret import best_fixed
from rankloop.simulate.play import play
from research.bounds.fixed_items import ftpl_regret, mirror_descent_regret, precision_bandit_regret, rtopk_regret

FLIPPED = "flipped_relevance(n_items=20, n_relevant=5, flip=0.05)"
NOISY = "noisy_relevance(n_items=10, n_relevant=5, sd=0.25)"
T, CHUNK = 10_000, 2_000  # rounds of a run, and those that are judged together


def average_regrets(learner: str, users: str, stream: str = FLIPPED, runs: int = 20, measure: str = "DCG") -> Floats:
    runs_at_the_end = [regrets(learner, users, stream, seed, measure, (T,))[0] for seed in range(runs)]
    return np.array(runs_at_the_end) / T


def regrets(learner: str, users: str, stream: str, seed: int, measure: str, ends: tuple[int, ...]) -> list[float]:
    """The regret of one run against the best fixed ranking of the rounds up to each end."""
    source, found = build(stream, "stream"), []
    best = best_fixed(build(measure, "measure"), source.problem)
    rounds = play(build(learner, "learner"), source, build(users, "feedback"), horizon=ends[-1], seed=seed)
    for done in range(CHUNK, ends[-1] + 1, CHUNK):
        shown = [(round.decision.ranking, round.relevance) for round in islice(rounds, CHUNK)]
        best.add(np.array([ranking for ranking, _ in shown]), np.array([relevance for _, relevance in shown]))
        if done in ends:
            found.append(best.lead())
    return found


@pytest.mark.parametrize(
    ("learner", "users", "stream", "expected", "of_prototype"),
    [
        ("ftpl(horizon=10000)", "full", FLIPPED, 0.0188, 0.0016),
        ("rtopk(horizon=10000, blocks=200, filler='random')", "top_k", FLIPPED, 0.501, 0.003),
        ("rtopk(horizon=10000, blocks=200, filler='random', estimator='exploration')", "top_k", FLIPPED, 0.501, 0.003),
        ("rtopk(horizon=10000, blocks=200)", "top_k", FLIPPED, 0.277, 0.004),
        ("rtopk(horizon=10000, blocks=215, filler='random')", "top_k", NOISY, 0.173, 0.0005),
        ("ftpl(horizon=10000)", "full", NOISY, 0.0071, 0.0001),
    ],
)
def test_average_regret_at_the_end(learner: str, users: str, stream: str, expected: float, of_prototype: float) -> None:
    """`of_prototype` is the spread printed beside the number (half a digit where none is), ours comes from 20 runs."""
    found = average_regrets(learner, users, stream)
    spread = np.hypot(found.std(ddof=1), of_prototype) / np.sqrt(len(found))
    assert abs(found.mean() - expected) <= 3 * spread + 0.5 * 10 ** -(len(str(expected)) - 2)


def test_mirror_descent_is_a_second_full_information_learner() -> None:
    inside = average_regrets("rtopk(horizon=10000, blocks=200, inner='mirror_descent')", "top_k", runs=5)
    assert inside.mean() < average_regrets("rtopk(horizon=10000, blocks=200)", "top_k", runs=5).mean()
    assert average_regrets("mirror_descent(horizon=10000)", "full", runs=5).mean() < 0.012


def test_more_feedback_helps() -> None:
    by_depth = [
        average_regrets("rtopk(horizon=10000, blocks=200)", f"top_k(depth={k})", runs=4).mean() for k in (1, 5, 10)
    ]
    assert by_depth[0] > by_depth[1] > by_depth[2]


@pytest.mark.parametrize("stream", [FLIPPED, NOISY, "flipped_relevance(n_items=20, n_relevant=10, flip=0.45)"])
def test_regret_stays_below_the_proved_bounds(stream: str) -> None:
    n_items = build(stream).problem.n_items
    for name in ("DCG", "SumLoss", "P@3"):
        full = average_regrets(f"ftpl(horizon=10000, measure='{name}')", "full", stream, 2, name)
        assert full.mean() * T <= ftpl_regret(name, n_items, T).regret
        mirror = average_regrets(f"mirror_descent(horizon=10000, measure='{name}')", "full", stream, 2, name)
        assert mirror.mean() * T <= mirror_descent_regret(name, n_items, T).regret
        top = average_regrets(f"rtopk(horizon=10000, measure='{name}')", "top_k(depth=2)", stream, 2, name)
        assert top.mean() * T <= rtopk_regret(name, n_items, 2, T).regret
    for depth in (1, 3):
        bandit = average_regrets("precision_bandit(n=3, horizon=10000)", f"top_k(depth={depth})", stream, 2, "P@3")
        assert bandit.mean() * T <= precision_bandit_regret(3, n_items, depth, T).regret


def test_precision_bandit_beats_blocks() -> None:
    bandit = average_regrets("precision_bandit(n=5, horizon=10000)", "top_k", runs=3, measure="P@5")
    blocks = average_regrets("rtopk(horizon=10000, measure='P@5')", "top_k", runs=3, measure="P@5")
    assert bandit.mean() < 0.5 * blocks.mean()


def test_without_a_horizon_the_regret_still_grows_as_two_thirds() -> None:
    ends = (10_000, 160_000)
    first, last = np.mean([regrets("rtopk", "top_k", FLIPPED, seed, "DCG", ends) for seed in range(2)], axis=0)
    assert 0.6 <= np.log(last / first) / np.log(ends[1] / ends[0]) <= 0.73
