"""From how many grades at once surrogates can be learned, and what the smoothing of SmoothDCG is."""

import itertools

import numpy as np
import pytest

from rankloop import build, play
from research.games.spans import exponential, hinge, linear, logistic, ordinal, pairwise, span_of

SCORES = np.array([0.3, -0.4, 1.1, 0.25])


def registered(kind):
    surrogate = build(kind, "surrogate")
    return lambda scores, grades: surrogate.value_and_grad(scores, grades)[1]


@pytest.mark.parametrize(
    ("gradient", "binary", "graded"),
    [
        (pairwise(logistic), 2, 2),
        (pairwise(exponential), 2, 2),
        (pairwise(hinge), 2, 2),
        (pairwise(linear), 1, 2),
        (ordinal(logistic, np.array([-0.5, 0.8])), 1, 1),
        (ordinal(exponential, np.array([-0.5, 0.8])), 1, 1),
        (registered("squared"), 1, 1),
        (registered("kl"), 1, 1),
        (registered("smooth_dcg"), 1, 1),
        (registered("rank_svm"), 2, 2),
        (registered("list_net"), 3, 4),  # of four items: m − 1 if grades are 0 and 1
        (registered("calibrated_squared"), 4, 4),
    ],
)
def test_spans_by_enumeration(gradient, binary, graded):
    assert span_of(gradient, SCORES) == binary
    assert span_of(gradient, SCORES, max_grade=2) == graded


def test_pairwise_gradients_are_those_of_the_loss():
    rng, grades = np.random.default_rng(0), np.array([0.0, 2.0, 1.0, 0.0])
    for loss, slope in ((lambda d: np.log1p(np.exp(-d)), logistic), (lambda d: np.exp(-d), exponential)):
        scores, direction = rng.normal(size=4), rng.normal(size=4)

        def value(step, scores=scores, direction=direction, loss=loss):
            moved = scores + step * direction
            return sum(
                loss(moved[i] - moved[j]) for i, j in itertools.permutations(range(4), 2) if grades[i] > grades[j]
            )

        slope_along = pairwise(slope)(scores, grades) @ direction
        assert slope_along == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-5)


def shown(smoothing, rate, radius):
    surrogate = {"kind": "smooth_dcg", "smoothing": smoothing}
    learner = {"kind": "topk_gradient", "surrogate": surrogate, "learning_rate": rate, "radius": radius}
    rounds = play(build(learner, "learner"), build("linear_gaussian", "stream"), build("top_k"), horizon=300, seed=3)
    return [each.decision.ranking.tolist() for each in rounds]


def test_a_smaller_smoothing_is_a_larger_step():
    """Smoothing ε with step η and radius U shows what smoothing 1 shows with step η/ε² and radius U/ε."""
    assert shown(1 / 128, 0.01, 1 / 64) == shown(1.0, 0.01 * 128**2, 2.0)
    assert shown(1 / 128, 0.01, None) == shown(1.0, 0.01 * 128**2, None)
    assert shown(1 / 128, 0.01, None) != shown(1.0, 0.01, None)
