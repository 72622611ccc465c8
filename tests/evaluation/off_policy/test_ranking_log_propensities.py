"""Probabilities by place against enumeration, for every registered learner that has a closed form."""

import itertools
import math

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entries
from rankloop.core.types import Clicks, Preferred, Problem, Query, Relevances, Reward
from rankloop.evaluation import RankingPolicy, position_probabilities, prefix_probabilities, shown_parts
from rankloop.evaluation.off_policy.estimators import Estimate, Options
from rankloop.evaluation.off_policy.ranking_log import LoggedRanking, ranking_series, rewards_by_position
from rankloop.evaluation.off_policy.running_sums import Sums
from tests.feedback import clicks

N_ITEMS = 4
ORDERS = [np.array(order) for order in itertools.permutations(range(N_ITEMS))]
QUERY = Query.of(np.random.default_rng(4).normal(size=(N_ITEMS, 2)))


def policy_of(kind, shown=None, rounds=0):
    problem = Problem(n_features=2, shown=shown)
    learner = build(kind, "learner")
    state, rng = learner.init(problem), np.random.default_rng(0)
    for _ in range(rounds):
        query = Query.of(rng.normal(size=(N_ITEMS, 2)))
        decision = learner.rank(state, query, rng)
        state = learner.learn(state, query, decision, clicks(decision.ranking[1:2]))
    return RankingPolicy(learner, state)


def enumerated(policy, query=QUERY, n_items=N_ITEMS):
    """Every whole order with its probability: the oracle, from `log_prob` alone."""
    seen_all = policy._replace(state=_all_seen(policy.state))
    orders = [np.array(order) for order in itertools.permutations(range(n_items))]
    return {tuple(o.tolist()): math.exp(policy.learner.log_prob(seen_all.state, query, o)) for o in orders}


def _all_seen(state):
    if hasattr(state, "inner"):
        state = state._replace(inner=_all_seen(state.inner))
    return state._replace(shown=-1) if hasattr(state, "shown") else state


SWAPPING = ["3pr", "3pr(perturb='top_two', swap=0.3)", "fair_pairs", "standardised(inner='fair_pairs')"]
OTHERS = ["pdgd", "explore_at_most(inner='pdgd', places=1)", "random_order", "online_gradient"]


@pytest.mark.parametrize("kind", SWAPPING + OTHERS)
@pytest.mark.parametrize("positions", [1, 3, 4])
def test_probabilities_by_position_are_those_of_enumeration(kind, positions):
    policy = policy_of(kind, shown=3, rounds=5 if kind not in ("online_gradient", "random_order") else 0)
    whole = enumerated(policy)
    assert sum(whole.values()) == pytest.approx(1)
    for ranking in ORDERS:
        marginal = [sum(p for o, p in whole.items() if o[k] == ranking[k]) for k in range(positions)]
        np.testing.assert_allclose(position_probabilities(policy, QUERY, ranking, positions), marginal, atol=1e-12)
        heads = [sum(p for o, p in whole.items() if o[:k] == tuple(ranking[:k])) for k in range(positions + 1)]
        given = [heads[k + 1] / heads[k] if heads[k] > 0 else 0.0 for k in range(positions)]
        np.testing.assert_allclose(prefix_probabilities(policy, QUERY, ranking, positions), given, atol=1e-12)
    parts = shown_parts(policy, QUERY, positions)
    assert sum(parts.values()) == pytest.approx(1)
    assert all(p > 0 for p in parts.values())


def example_policies():
    """Every registered learner and example that can be asked, with a query of its kind."""
    for entry in entries("learner"):
        for spec in getattr(entry.cls, "examples", ({},)):
            learner = build({"kind": entry.kind, **spec}, "learner")
            yield pytest.param(learner, getattr(learner, "example_problem", None), id=f"{entry.kind} {spec}")


def first_fitting(learner):
    """Learners of fixed sets need n_items, the others features."""
    try:
        learner.init(Problem(n_features=3))
    except InvalidInput:
        return Problem(n_features=0, n_items=N_ITEMS)
    return Problem(n_features=3)


def can_tell(policy, query):
    try:
        prefix_probabilities(policy, query, policy.learner.predict(policy.state, query), 2)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize(("learner", "problem"), list(example_policies()))
def test_the_first_positions_of_every_learner_add_up_or_are_refused(learner, problem):
    """P(prefix) is the sum of its continuations, whoever the learner is."""
    problem = problem or first_fitting(learner)
    n_items, rng = problem.n_items or N_ITEMS, np.random.default_rng(1)
    query = Query.of(rng.normal(size=(n_items, problem.n_features)), rng.normal(size=problem.n_context))
    policy = RankingPolicy(learner, learner.init(problem))
    if not can_tell(policy, query):
        with pytest.raises(InvalidInput, match=r"closed form|at a position"):
            shown_parts(policy, query, 2)
        return
    one, two = shown_parts(policy, query, 1), shown_parts(policy, query, 2)
    assert sum(one.values()) == pytest.approx(1)
    for first, probability in one.items():
        assert sum(p for part, p in two.items() if part[:1] == first) == pytest.approx(probability, abs=1e-9)


def test_long_lists_of_swapped_pairs_are_written_down_and_free_orders_refused():
    query = Query.of(np.random.default_rng(0).normal(size=(30, 2)))
    policy = policy_of("3pr(swap=0.3)")
    found = position_probabilities(policy, query, policy.learner.predict(policy.state, query), 8)
    # Paired from the first place on or from the second, ½ each; an item leaves its place when its pair is swapped.
    np.testing.assert_allclose(found, [0.5 * 0.7 + 0.5, *[0.7] * 7], atol=1e-12)
    with pytest.raises(InvalidInput, match="Pdgd can show too many different orders in the first 8 positions"):
        position_probabilities(policy_of("pdgd"), query, np.arange(30), 8)
    with pytest.raises(InvalidInput, match="LinearThompson cannot say"):
        prefix_probabilities(policy_of("linear_thompson"), QUERY, ORDERS[0], 2)


def test_rewards_go_to_their_positions():
    ranking = np.array([2, 0, 3, 1])
    clicked = Clicks(np.array([3, 2]), np.array([1.0, 5.0]))
    assert rewards_by_position(ranking, clicked, 3).tolist() == [5.0, 0.0, 1.0]
    graded = Relevances(np.array([0, 2]), np.array([1.0, 2.0]))
    assert rewards_by_position(ranking, graded, 2).tolist() == [2.0, 1.0]
    assert rewards_by_position(ranking, Reward(0.5), 2).tolist() == [0.5, 0.0]
    with pytest.raises(InvalidInput, match="preferred order"):
        rewards_by_position(ranking, Preferred(ranking), 2)


WORTH = np.random.default_rng(2).random((N_ITEMS, N_ITEMS))  # of an item at a place


def by_position(order, position):
    return WORTH[position, order[position]]


def by_prefix(order, position):
    return WORTH[position, order[position]] * (1.0 - 0.5 * WORTH[0, order[0]] if position else 1.0)


@pytest.mark.parametrize("logging", ["random_order", "3pr(swap=0.4)"])
@pytest.mark.parametrize("positions", [2, 3])
def test_estimates_from_our_own_logs_are_unbiased(logging, positions):
    """The expectation over all logged rankings is the target's true value, where the method's assumption holds."""
    logger = policy_of(logging, shown=3, rounds=4)
    target = policy_of("fair_pairs", shown=3, rounds=4) if "3pr" in logging else policy_of("pdgd", shown=3, rounds=9)
    if "3pr" in logging:  # the same scores, so that the log covers what the target shows
        target = target._replace(state=target.state._replace(weights=logger.state.weights))
    drawn, wanted = enumerated(logger), enumerated(target)
    for method, reward in (("cascade_ips", by_prefix), ("position_wise", by_position), ("pseudo_inverse", by_position)):
        right = sum(p * sum(reward(o, k) for k in range(positions)) for o, p in wanted.items())
        expected = 0.0
        for order, probability in drawn.items():
            if probability > 0:
                rewards = np.array([reward(order, k) for k in range(3)])
                entry = LoggedRanking(QUERY, np.array(order), rewards, logger)
                series = ranking_series([entry], target, method, positions)
                expected += probability * Estimate.of(Sums.of(series), method, Options()).value
        assert expected == pytest.approx(right, abs=1e-9), method


def test_rankings_of_several_lengths_in_one_log():
    long, short = QUERY, Query.of(QUERY.features[:2])
    logger, target = policy_of("random_order"), policy_of("pdgd")
    entries = [
        LoggedRanking(long, np.arange(4), np.array([0.0, 1.0, 0.0, 0.0]), logger),
        LoggedRanking(short, np.arange(2), np.array([1.0, 0.0]), logger),
    ]
    (series,) = ranking_series(entries, target, "cascade_ips")
    alone = [next(ranking_series([entry], target, "cascade_ips")).top[0] for entry in entries]
    np.testing.assert_allclose(series.top, alone)
    with pytest.raises(InvalidInput, match="ranking 2: LinearThompson"):
        list(
            ranking_series(
                [entries[0], entries[1]._replace(drawn_by=policy_of("linear_thompson"))], target, "cascade_ips"
            )
        )
