"""The kernel perceptron on a budget: its bound holds with what was forgotten; removing the oldest may cost for ever."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.session import generators
from rankloop.core.types import Problem, Query, Relevances
from rankloop.learners.ranking_perceptron import KernelPerceptron
from rankloop.measures.base import parse_measure
from rankloop.simulate.play import play
from rankloop.simulate.streams.lower_bound import LowerBound
from rankloop.simulate.streams.simulated_queries import Separable
from rankloop.simulate.users.readers import Full
from rankloop.surrogates.pairwise import Slam
from research.bounds.kernel_budget import Forgotten, forgotten_in, kernel_budget_loss
from research.bounds.perceptrons import SlamWeights, margin_of, ranking_perceptron_loss, self_bounding, slam_weights

STREAM, SEED = Separable(n_queries=60, n_items=6, n_features=4), 3


def test_the_bound_by_arithmetic():
    # (4 + 2·0.25·3 + 0.5 + 2·1.5·2) / (2·0.25 − 0.25²·5)
    assert kernel_budget_loss(2.0, 5.0, 0.25, 3.0, Forgotten(0.5, 1.5)) == pytest.approx(12.0 / 0.1875)
    assert kernel_budget_loss(2.0, 5.0, 1 / 5.0, 3.0) == pytest.approx(5 * 4 + 2 * 3)
    weights = SlamWeights(4, 3.0, 0.2)
    constant = self_bounding(1.5, weights)
    assert kernel_budget_loss(2.0, constant, 1 / constant) == pytest.approx(ranking_perceptron_loss(2.0, 1.5, weights))
    for wrong in ((2.0, 5.0, 0.5), (-1.0, 5.0, 0.1), (2.0, 5.0, 0.1, -2.0)):
        with pytest.raises(InvalidInput):
            kernel_budget_loss(*wrong)


def played(learner, stream, horizon):
    """The rounds of `forgotten_in`, and the summed 1 − nDCG."""
    updates, lost, judge = [], 0.0, parse_measure(learner.measure)
    for round in play(learner, stream, Full(), horizon=horizon, seed=SEED):
        updates.append((round.state, round.query, round.feedback, round.learned))
        lost += 1.0 - judge(round.decision.ranking, round.relevance)
    return updates, lost


@pytest.mark.parametrize("budget", [6, 20, 900])
@pytest.mark.parametrize("remove", ["oldest", "smallest"])
def test_measured_loss_stays_below_the_bound(budget, remove):
    """The kernel 1 + γ·x·z holds every linear function, so that a comparator with its length is known."""
    dataset, direction = STREAM.dataset_and_weights(generators(SEED)[0])
    gamma, longest = 1 / dataset.n_features, np.linalg.norm(dataset.features, axis=1).max()
    weights = slam_weights(dataset.query(0)[1], "nDCG")
    constant = self_bounding(np.sqrt(1 + gamma * longest**2), weights)
    learner = KernelPerceptron(
        kernel="polynomial", degree=1, budget=budget, remove=remove, measure="nDCG", learning_rate=0.7 / constant
    )
    updates, lost = played(learner, STREAM, 120)
    surrogate, forgotten = Slam(), forgotten_in(learner, updates)
    mistaken = [(b, q, f) for b, q, f, a in updates if a.mistakes > b.mistakes]
    assert mistaken
    summed = sum(surrogate.value_and_grad(learner.scores(b, q.features)[f.items], f.grades)[0] for b, q, f in mistaken)
    for size in (1.0 / margin_of(dataset, direction), 0.8):
        u = size * direction
        own = sum(surrogate.value_and_grad((q.features @ u)[f.items], f.grades)[0] for _, q, f in mistaken)
        bound = kernel_budget_loss(np.linalg.norm(u) / np.sqrt(gamma), constant, learner.learning_rate, own, forgotten)
        assert lost <= summed <= bound
    if budget == 900:
        assert forgotten == pytest.approx((0.0, 0.0), abs=1e-4)
    else:
        assert forgotten.lengths > 0.0


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_what_is_forgotten_by_hand(kernel):
    """A memory of two: the first item stored leaves, with its coefficient."""
    learner = KernelPerceptron(kernel=kernel, degree=2, budget=2, measure="nDCG", scale=0.5)
    first, second = (Query.of(np.array(rows)) for rows in ([[0.0, 1.0], [1.0, 0.5]], [[2.0, 0.0], [0.3, 0.4]]))
    feedback = Relevances(np.array([0, 1]), np.array([0.0, 1.0]))
    states = [learner.init(Problem(2))]
    for query in (first, second):
        states.append(learner.learn(states[-1], query, None, feedback))
    assert [state.mistakes for state in states] == [0, 1, 2]
    updates = [(states[0], first, feedback, states[1]), (states[1], second, feedback, states[2])]

    def k(x, z):
        return np.exp(-0.25 * np.sum((x - z) ** 2)) if kernel == "rbf" else (1 + 0.25 * x @ z) ** 2

    def inner(one, other):
        return sum(a * b * k(x, z) for a, x in one for b, z in other)

    old = list(zip(states[1].coefficients, states[1].rows))
    new = list(zip(states[2].coefficients, states[2].rows))
    found = forgotten_in(learner, updates)
    assert found.lengths == pytest.approx(np.sqrt(inner(old, old)))
    both = old + new
    assert found.growth == pytest.approx(inner(new, new) - inner(both, both))


def test_removing_the_smallest_survives_the_stream_that_defeats_removing_the_oldest():
    """One query more than fits, asked in turn: mistakes in every round or in a few, by the rule of removal."""
    mistakes = {}
    for remove in ("oldest", "smallest"):
        learner = KernelPerceptron(
            kernel="polynomial", degree=1, budget=30, remove=remove, scale=16.0, measure="nDCG", learning_rate=1.0
        )
        updates, _ = played(learner, LowerBound(n_features=16, margin=0.25), 16 * 20)
        mistakes[remove] = updates[-1][3].mistakes
    assert mistakes["oldest"] == 16 * 20
    assert mistakes["smallest"] < 16 * 20 / 4


def test_removing_the_oldest_has_no_bound_without_what_is_forgotten():
    """Sixteen orthogonal queries in turn, room for four: a mistake in every round, though a fixed ranker makes none."""
    stream, passes = LowerBound(n_features=16, margin=0.25), 6
    small, large = (
        KernelPerceptron(kernel="polynomial", degree=1, budget=budget, scale=16.0, measure="nDCG") for budget in (8, 64)
    )
    (updates, _), (all_updates, _) = (played(learner, stream, 16 * passes) for learner in (small, large))
    assert updates[-1][3].mistakes == 16 * passes
    assert all_updates[-1][3].mistakes == 16
    constant = self_bounding(np.sqrt(1 + 1.0), slam_weights(np.array([1.0, 0.0])))
    fixed = kernel_budget_loss(1 / 0.25, constant, 1.0 / constant)
    forgotten = forgotten_in(small, updates)
    assert forgotten.lengths > 0.0
    assert fixed < kernel_budget_loss(1 / 0.25, constant, 1.0 / constant, 0.0, forgotten)
