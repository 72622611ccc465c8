"""Two worlds that look the same: whoever learns, loses in one of them, round by round."""

from itertools import islice

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.registry import build, spec_of
from rankloop.core.session import generators
from rankloop.games import Game, twins
from rankloop.games.game import measure_for
from rankloop.games.hopeless import Hopeless
from rankloop.simulate.play import play
from research.games.matrices import signal_matrix
from tests.games.brute_force import best_under

HOPELESS = [
    ("nDCG", 3, 1, 1),
    ("nDCG", 4, 2, 1),
    ("AP", 4, 2, 1),
    ("AUCLoss", 4, 1, 1),
    ("AUCLoss", 4, 2, 1),
    ("ERR", 4, 2, 1),
    ("Recall@1", 3, 1, 1),
    ("nDCG", 3, 2, 2),
    ("PairwiseLoss", 3, 1, 2),
]


class FollowTheMeans:
    """A plain learner: items by the mean of the grades they showed on top, every fourth round at random."""

    def frequencies(self, game: Game, relevances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        sums, counts, shown = np.zeros(game.n_items), np.ones(game.n_items), np.zeros(len(game.rankings))
        rows = {tuple(order): row for row, order in enumerate(game.rankings.tolist())}
        for t, grades in enumerate(relevances):
            noise = rng.random(game.n_items) * (10.0 if t % 4 == 0 else 1e-6)
            ranking = np.argsort(-(sums / counts + noise))
            sums[ranking[0]] += grades[ranking[0]]
            counts[ranking[0]] += 1
            shown[rows[tuple(ranking.tolist())]] += 1
        return shown / shown.sum()


def expected_losses(game: Game, stream: Hopeless, rng: np.random.Generator) -> np.ndarray:
    """Of every ranking, under the distribution that the stream plays with the names that it draws first."""
    pair = stream.twins()
    names = ranking_of(rng.random(game.n_items))
    renamed = game.relevances[:, names] @ 2 ** np.arange(game.n_items)[::-1]
    p = np.zeros(len(renamed))
    p[renamed] = pair.first if stream.which == "first" else pair.second
    return np.asarray(game.loss @ p)


@pytest.mark.parametrize(("measure", "n_items", "depth", "max_grade"), HOPELESS)
def test_twins_look_the_same_and_have_no_common_best_ranking(
    measure: str, n_items: int, depth: int, max_grade: int
) -> None:
    pair = twins(measure, n_items, depth, max_grade)
    game = Game(measure=measure_for(measure, max_grade), n_items=n_items, max_grade=max_grade)
    for row in range(len(game.rankings)):
        signals = signal_matrix(game, row, depth)
        assert_allclose(signals @ pair.first, signals @ pair.second, atol=1e-9)
    for p in (pair.first, pair.second):
        assert_allclose(p.sum(), 1.0)
        assert (p >= 0).all()
    assert not set(best_under(game, pair.first)) & set(best_under(game, pair.second))
    losses = game.loss @ pair.first, game.loss @ pair.second
    assert pair.gap == pytest.approx(min(sum(loss - loss.min() for loss in losses)))
    assert pair.gap > 1e-3


def test_what_is_compared_is_all_that_feedback_reveals() -> None:
    game = Game(measure=measure_for("nDCG", 2), n_items=3, max_grade=2)
    for depth in (1, 2, 3):
        everything = np.vstack([signal_matrix(game, row, depth) for row in range(len(game.rankings))])
        seen = game.observable_terms(depth)
        both = np.vstack((everything, seen))
        ranks = {np.linalg.matrix_rank(rows) for rows in (everything, seen, both)}
        assert len(ranks) == 1
        assert np.linalg.matrix_rank(seen) == len(seen)


def test_regret_of_a_plain_learner_is_linear_on_one_of_the_two() -> None:
    """Regret per round, summed over both worlds, stays at the gap however long it learns."""
    game = Game(measure=measure_for("nDCG"), n_items=3)
    for n_rounds in (2_000, 8_000):
        total = []
        for seed in range(3):
            regret = 0.0
            for stream in (Hopeless(which="first"), Hopeless(which="second")):
                relevances = grades(stream, n_rounds, seed)
                shown = FollowTheMeans().frequencies(game, relevances, default_rng(9))
                losses = expected_losses(game, stream, default_rng(seed))
                regret += float(shown @ losses - losses.min())
            total.append(regret)
        assert np.mean(total) > 0.8 * Hopeless().twins().gap


@pytest.mark.parametrize("learner", ["random_order", "rtopk(measure='DCG', horizon=3000)"])
def test_regret_of_the_library_is_linear_on_one_of_the_two(learner: str) -> None:
    game = Game(measure=measure_for("nDCG"), n_items=3)
    rows = {tuple(order): row for row, order in enumerate(game.rankings.tolist())}
    regret = np.zeros(3_000)
    for stream in (Hopeless(which="first"), Hopeless(which="second")):
        losses = expected_losses(game, stream, generators(4)[0])
        users = build("top_k(depth=1)", category="feedback")
        for step in play(build(learner, category="learner"), stream, users, horizon=3_000, seed=4):
            regret[step.t] += losses[rows[tuple(step.decision.ranking.tolist())]] - losses.min()
    gap = Hopeless().twins().gap
    assert regret.sum() > 0.8 * gap * len(regret)
    assert regret[1_500:].mean() > 0.8 * gap, "it does not get better with time"


def test_the_stream_plays_its_distribution_under_random_names() -> None:
    for which in ("first", "second"):
        stream = Hopeless(which=which)  # type: ignore[arg-type]
        pair = stream.twins()
        probabilities = sorted(pair.first if which == "first" else pair.second)
        found = np.zeros(8)
        orders = set()
        for seed in range(12):
            relevances = grades(stream, 1_000, seed)
            counts = np.bincount((relevances @ [4, 2, 1]).astype(int), minlength=8)
            found += np.sort(counts)
            orders.add(tuple(np.argsort(relevances.mean(axis=0))))
        assert_allclose(found / found.sum(), probabilities, atol=4 * np.sqrt(0.25 / 12_000))
        assert len(orders) > 2


def grades(stream: Hopeless, n: int, seed: int) -> np.ndarray:
    """Those of the first n rounds, a row each."""
    return np.array([relevance for _, relevance in islice(stream.rounds(default_rng(seed)), n)])


def test_specs_and_refusals() -> None:
    stream = build({"kind": "hopeless", "measure": "AUCLoss", "n_items": 4, "which": "second"})
    assert build(spec_of(stream)) == stream
    with pytest.raises(InvalidInput, match="two_thirds, not hopeless"):
        Hopeless(measure="DCG")  # type: ignore[arg-type]
