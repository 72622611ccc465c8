"""Reference numbers of the learners on simulated queries, and runs on raw data: averages over seeds with margins."""

import numpy as np
import pytest

from rankloop.core.registry import build
from rankloop.data.folder import absence_notice, data_folder
from rankloop.measures.base import parse_measure
from rankloop.simulate.play import play
from rankloop.simulate.users.readers import Full, TopK

MSLR = "letor/mslr_sample/mslr_sample.txt.gz"


def played(learner, stream, users, horizon, seed, measure):
    rounds = play(build(learner, "learner"), build(stream, "stream"), users, horizon=horizon, seed=seed)
    return np.array([measure(round.decision.ranking, round.relevance) for round in rounds])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "average", "loss", "spread"),
    [
        ("ranking_perceptron(learning_rate=10.0, measure='nDCG')", 0.9988, 0.65, 0.10),
        ("max_pair_perceptron(measure='nDCG')", 0.9973, 1.7, 0.2),
    ],
)
def test_perceptrons_on_separable_queries(learner, average, loss, spread):
    tops, losses = [], []
    for seed in range(6):
        tops.append(played(learner, "separable", Full(), 1000, seed, parse_measure("nDCG@10")).mean())
        losses.append((1 - played(learner, "separable", Full(), 1000, seed, parse_measure("nDCG"))).sum())
    assert np.mean(tops) == pytest.approx(average, abs=0.0015)
    error = np.std(losses, ddof=1) / np.sqrt(len(losses))
    assert abs(np.mean(losses) - loss) <= 3 * np.hypot(error, spread)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surrogate", "depth", "average"), [("squared", 1, 0.896), ("kl", 1, 0.902), ("rank_svm", 2, 0.909)]
)
def test_top_k_learners_with_the_schedule_of_the_thesis(surrogate, depth, average):
    learner, judge = {"kind": "topk_gradient", "surrogate": surrogate, "floor": 1.0}, parse_measure("nDCG@10")
    runs = [played(learner, "linear_gaussian", TopK(depth=depth), 100_000, seed, judge).mean() for seed in range(2)]
    assert np.mean(runs) == pytest.approx(average, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "average"), [("online_gradient(learning_rate=0.01, schedule='root')", 0.912), ("random_order", 0.368)]
)
def test_the_two_ends_of_the_scale(learner, average):
    values = [played(learner, "linear_gaussian", Full(), 10_000, seed, parse_measure("nDCG@10")) for seed in range(2)]
    assert np.mean(values) == pytest.approx(average, abs=0.012)


@pytest.mark.slow
def test_the_unbiased_setting_learns_too():
    learner = "topk_gradient(surrogate='rank_svm', floor=0.0, exploration=1.0, learning_rate=0.001)"
    values = played(learner, "linear_gaussian", TopK(depth=2), 50_000, 0, parse_measure("nDCG@10"))
    assert values[-5000:].mean() > 0.8  # a third of the rounds explore at first, one in 37 at the end


@pytest.mark.skipif(
    data_folder() is None or not (data_folder() / MSLR).exists(), reason=absence_notice(f"the data {MSLR!r}")
)
@pytest.mark.parametrize("kind", ["ranking_perceptron", "max_pair_perceptron", "topk_gradient", "kernel_perceptron"])
def test_raw_features_of_any_size_leave_a_finite_state(kind):
    users = TopK(depth=2) if kind == "topk_gradient" else Full()
    *_, last = play(build(kind, "learner"), build({"kind": "letor", "path": MSLR}), users, horizon=60, seed=0)
    assert all(np.isfinite(part).all() for part in last.learned)
