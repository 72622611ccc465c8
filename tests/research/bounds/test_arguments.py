"""Bounds follow the units: a loss counted in cents, or features in inches, and no constant left out."""

import inspect
import math

import pytest

from research.bounds import coactive, generalisation, perceptrons
from research.bounds.fixed_items import constants, ftpl_regret, mirror_descent_regret, rtopk_regret
from research.bounds.topk_regret import second_moment, topk_gradient_regret

COUNTS = {"n_queries": 10**9, "n_items": 121, "n_features": 46, "delta": 0.05}
SLOPES = {"lipschitz": 2.3, "euclidean": 1.4, "smoothness": 0.6}
LOSS = SLOPES | {"largest": 9.0, "training": 0.3, "best": 0.2, "level": 0.7}
LENGTHS = {"radius": 1.7, "longest": 3.4}
BOUNDS = [
    generalisation.online_to_batch,
    generalisation.rerm,
    generalisation.chapelle_wu,
    generalisation.uniform,
    generalisation.uniform_l1,
    generalisation.smooth_online_rate,
    generalisation.smooth_online,
    generalisation.local_rademacher,
    generalisation.smooth_uniform,
]


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_risk_in_cents_and_features_in_inches(bound):
    cent, inch = 7.0, 2.5
    given = {name: (COUNTS | LOSS | LENGTHS)[name] for name in inspect.signature(bound).parameters}
    cents = given | {name: cent * value for name, value in given.items() if name in LOSS}
    inches = given | {"radius": given["radius"] / inch, "longest": given["longest"] * inch}
    is_rate = bound is generalisation.smooth_online_rate
    assert bound(**cents) == pytest.approx(bound(**given) * (1 / cent if is_rate else cent))
    assert bound(**inches) == pytest.approx(bound(**given) * (1 / inch**2 if is_rate else 1.0))


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_constant_counts(bound):
    given = {name: (COUNTS | LOSS | LENGTHS)[name] for name in inspect.signature(bound).parameters}
    for name, value in given.items():
        assert bound(**(given | {name: 2 * value})) != pytest.approx(bound(**given), rel=1e-9), name


COACTIVE = [
    (coactive.preference_perceptron_regret, {}, 0),
    (coactive.perturbed_regret, {"score_agreement": 5.0}, 2),
    (coactive.approximate_regret, {"beta": 0.3}, 0),
    (coactive.three_pr_regret, {"swap": 0.4}, 0),
    (coactive.dynamic_regret, {"budget": 5.0}, 2),
    (coactive.dynamic_regret, {"budget": 5.0, "non_negative": False}, 2),
]


@pytest.mark.parametrize(("bound", "option", "power"), COACTIVE)
def test_a_utility_in_cents(bound, option, power):
    """w·φ is a product of two sums of features, so the budget of score agreement goes with the square of their unit."""
    horizon, radius, norm, alpha, slack = 300, 3.0, 2.0, 0.4, 0.1
    found = bound(horizon, radius, norm, alpha, slack, **option)
    name, value = next(iter(option.items()), ("", 0.0))
    cents = option | ({name: value * 6.0**power} if name else {})
    assert bound(horizon, 6.0 * radius, norm, alpha, 6.0 * slack, **cents) == pytest.approx(6.0 * found)
    assert bound(horizon, radius, 5.0 * norm, alpha, 5.0 * slack, **option) == pytest.approx(5.0 * found)
    assert bound(horizon, radius, norm, alpha / 2, slack, **option) == pytest.approx(2.0 * found)


@pytest.mark.parametrize("surrogate", ["squared", "kl", "rank_svm"])
def test_the_regret_of_topk_gradient_in_other_units(surrogate):
    moment = second_moment(surrogate, 7, 1.3, 0.8, 2.0)
    assert second_moment(surrogate, 7, 1.3 * 4, 0.8 / 4, 2.0) == pytest.approx(16 * moment)
    promise = topk_gradient_regret(10**7, 0.8, 50.0, 9.0)
    cents = topk_gradient_regret(10**7, 0.8, 50.0 * 7**2, 9.0 * 7)
    inches = topk_gradient_regret(10**7, 0.8 / 4, 50.0 * 4**2, 9.0)
    assert cents == pytest.approx((7 * promise.regret, promise.learning_rate / 7, promise.exploration))
    assert inches == pytest.approx((promise.regret, promise.learning_rate / 16, promise.exploration))


def test_perceptrons_in_other_units():
    weights = perceptrons.SlamWeights(5, 2.0, 0.15)
    for bound in (perceptrons.perceptron_mistakes, perceptrons.max_pair_perceptron_loss):
        assert bound(2.0 / 3, 1.5 * 3, 4.0) == pytest.approx(bound(2.0, 1.5, 4.0))
    for tight in (False, True):
        known = perceptrons.ranking_perceptron_loss(2.0, 1.5, weights, 4.0, tight)
        assert perceptrons.ranking_perceptron_loss(2.0 / 3, 1.5 * 3, weights, 4.0, tight) == pytest.approx(known)
    assert perceptrons.unavoidable_loss(1.5 * 3, 0.2 * 3) == perceptrons.unavoidable_loss(1.5, 0.2)


@pytest.mark.parametrize("bound", [ftpl_regret, mirror_descent_regret])
@pytest.mark.parametrize("measure", ["DCG", "DCG@3"])
def test_larger_grades_make_the_regret_larger_by_their_gain(bound, measure):
    """DCG of grades up to 3 is 7 times that of relevant or not."""
    small, large = (bound(measure, 9, 5000, max_grade) for max_grade in (1, 3))
    assert large == pytest.approx((7 * small.regret, 7 * small.worst))
    both = [rtopk_regret(measure, 9, 2, 5000, blocks=70, max_grade=grade) for grade in (1, 3)]
    assert both[1] == pytest.approx((7 * both[0].regret, 7 * both[0].worst))


def test_rtopk_bound_with_grades_by_its_parts():
    diameter, loss, gains = constants("DCG", 7, 2)
    noise = 3 * math.sqrt(7 * 60)
    full = loss * gains * 60 / noise + diameter * noise
    bound = rtopk_regret("DCG", 7, 2, 1000, blocks=60, max_grade=2)
    assert bound.regret == pytest.approx(loss * 4 * 60 + 16 * full + loss * 40)
