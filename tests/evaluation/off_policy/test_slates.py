"""Estimators of whole rankings: unbiased by enumeration under the behaviour that each assumes."""

import itertools
import math

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Decision, Preferred, Problem, Query, Reward
from rankloop.evaluation import estimate, pseudo_inverse, rows_of, session_rows, slate_weight

N_ITEMS, POSITIONS = 4, 2
SLATES = list(itertools.permutations(range(N_ITEMS), POSITIONS))
LOGGED = np.random.default_rng(0).dirichlet(np.ones(len(SLATES)))
TARGET = np.random.default_rng(1).dirichlet(np.ones(len(SLATES)) / 3)
WORTH = np.random.default_rng(2).random((POSITIONS, N_ITEMS))  # of an item at a place


def position_reward(slate, position):
    return WORTH[position, slate[position]]


def prefix_reward(slate, position):
    """Depends on the item and on everything above it."""
    return WORTH[position, slate[position]] * (1.0 - 0.5 * WORTH[0, slate[0]] if position else 1.0)


def tangled_reward(slate, position):
    return WORTH[position, slate[1 - position]] * WORTH[1 - position, slate[position]]


def truth(reward):
    return sum(p * sum(reward(slate, k) for k in range(POSITIONS)) for p, slate in zip(TARGET, SLATES))


def marginal(probabilities, slate, position):
    return sum(p for p, other in zip(probabilities, SLATES) if other[position] == slate[position])


def prefix(probabilities, slate, position):
    return sum(p for p, other in zip(probabilities, SLATES) if other[: position + 1] == slate[: position + 1])


def conditionals(probabilities, slate):
    prefixes = [1.0] + [prefix(probabilities, slate, k) for k in range(POSITIONS)]
    return [prefixes[k + 1] / prefixes[k] for k in range(POSITIONS)]


def expectation(method, reward, probabilities_of, ndim=2):
    """Σ over logged slates of probability · estimate from that one row."""
    total = 0.0
    for p, slate in zip(LOGGED, SLATES):
        rewards = [reward(slate, k) for k in range(POSITIONS)]
        earned = [rewards] if ndim == 2 else [sum(rewards)]
        rows = rows_of(earned, probabilities_of(LOGGED, slate), probabilities_of(TARGET, slate), ndim=ndim)
        total += p * estimate([rows], method).value
    return total


def by_position(probabilities, slate):
    return [[marginal(probabilities, slate, k) for k in range(POSITIONS)]]


def by_prefix(probabilities, slate):
    return [conditionals(probabilities, slate)]


def of_slate(probabilities, slate):
    return [probabilities[SLATES.index(slate)]]


@pytest.mark.parametrize("reward", [position_reward, prefix_reward, tangled_reward])
def test_unbiased_exactly_where_promised(reward):
    right = truth(reward)
    assert expectation("ips", reward, of_slate, ndim=1) == pytest.approx(right, abs=1e-12)
    for estimator, of, fits in (
        ("position_wise", by_position, reward is position_reward),
        ("cascade_ips", by_prefix, reward is not tangled_reward),
    ):
        error = abs(expectation(estimator, reward, of) - right)
        assert error < 1e-12 if fits else error > 1e-3


def test_the_pseudo_inverse_needs_only_the_sum():
    weights = [slate_weight(slate, SLATES, LOGGED, TARGET, N_ITEMS) for slate in SLATES]
    total = 0.0
    for p, slate, weight in zip(LOGGED, SLATES, weights):
        reward = sum(position_reward(slate, k) for k in range(POSITIONS))
        total += p * pseudo_inverse([reward], [weight]).value
    assert total == pytest.approx(truth(position_reward), abs=1e-9)


def learned(kind="pdgd", shown=3):
    problem = Problem(n_features=2, shown=shown)
    return Session(build(kind, "learner"), problem, seed=1), Query.of(np.random.default_rng(4).normal(size=(4, 2)))


def test_a_session_is_judged_on_the_log_of_another():
    """The log is that of the random order; the target's value is known by enumeration."""
    logging, query = learned("random_order")
    target, _ = learned("pdgd")
    worth = np.array([0.9, 0.1, 0.3, 0.5])
    rng, log = np.random.default_rng(5), []
    for _ in range(3000):
        decision = logging.rank(query)
        items = decision.ranking[:1][rng.random(1) < worth[decision.ranking[:1]]]
        log.append(Arrival(query, decision, Clicks(items, np.ones(len(items)))))
    found = estimate(session_rows(target, log))
    orders = [np.array(order) for order in itertools.permutations(range(4))]
    right = sum(math.exp(target.log_prob(query, order)) * worth[order[0]] for order in orders)
    assert found.n == 3000
    assert abs(found.value - right) < 4 * found.standard_error


def test_what_cannot_be_weighted_is_refused():
    nan, query = learned("linear_thompson")
    decision = Decision(np.arange(4), -1.0, ())
    with pytest.raises(InvalidInput, match="row 0: LinearThompson cannot say"):
        list(session_rows(nan, [Arrival(query, decision, Reward(1.0))]))
    known, _ = learned()
    unknown = Decision(np.arange(4), math.nan, ())
    with pytest.raises(InvalidInput, match="row 0: the propensity is missing"):
        list(session_rows(known, [Arrival(query, unknown, Reward(1.0))]))
    with pytest.raises(InvalidInput, match="preferred order"):
        list(session_rows(known, [Arrival(query, decision, Preferred(np.arange(4)))]))
    with pytest.raises(InvalidInput, match="row 0: the propensity is 0"):
        rows_of([[1.0, 0.0]], [[0.5, 0.0]], [[0.5, 0.5]], ndim=2)
    with pytest.raises(InvalidInput, match="cascade_ips needs a row of numbers"):
        estimate([rows_of([1.0], [0.5], [0.5])], "cascade_ips")
    with pytest.raises(InvalidInput, match="ips needs one of numbers"):
        estimate([rows_of([[1.0]], [[0.5]], [[0.5]], ndim=2)], "ips")
    with pytest.raises(InvalidInput, match="sum to 1"):
        slate_weight((0, 1), SLATES, LOGGED * 2, TARGET, N_ITEMS)
    with pytest.raises(InvalidInput, match="max_weight"):
        pseudo_inverse([1.0], [2.0], bound="hoeffding")
