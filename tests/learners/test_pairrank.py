"""PairRank: blocks by graph partition, probabilities by enumeration, estimates beside a full logistic regression."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build, parse_measure, play
from rankloop.core.types import Clicks, Limit
from rankloop.learners.pairrank import PairRank, _block_ends, _pairs_of
from rankloop.simulate.streams.simulated_queries import WebSearch
from tests.feedback import clicks


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def random_state(learner, n_features, shown, rng):
    state = learner.init(Problem(n_features, shown=shown))
    rows = rng.normal(size=(40, n_features)) * rng.choice([0.5, 3.0])
    inverse = np.linalg.inv(learner.ridge * np.eye(n_features) + rows.T @ rows)
    return state._replace(weights=rng.normal(size=n_features), gram_inverse=inverse)


def blocks_by_graph(learner, state, features):
    """The authors' partition: certain pairs point down, uncertain ones both ways; who reach each other are a block."""
    n_items = len(features)
    reach = np.eye(n_items, dtype=bool)
    for i, j in itertools.permutations(range(n_items), 2):
        x = features[j] - features[i]  # j certainly above i: no way down from i to j
        width = learner.alpha * math.sqrt(x @ state.gram_inverse @ x)
        reach[i, j] = not sigmoid(state.weights @ x) - width > 0.5
    for k in range(n_items):
        reach |= np.outer(reach[:, k], reach[k])
    blocks = {frozenset(np.flatnonzero(reach[i] & reach[:, i]).tolist()) for i in range(n_items)}
    return sorted(blocks, key=lambda block: -reach[min(block)].sum())


@given(st.integers(1, 7), st.integers(0, 199), st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_blocks_are_those_of_the_graph(n_items, seed, alpha):
    rng, learner = default_rng(seed), PairRank(alpha=alpha)
    state, features = random_state(learner, 3, None, rng), rng.normal(size=(n_items, 3))
    scores = features @ state.weights
    best = np.argsort(-scores, kind="stable")
    ends, found, start = _block_ends(features, scores, best, state.gram_inverse, alpha), [], 0
    while start < n_items:
        assert (ends[start : ends[start]] == ends[start]).all()
        found.append(frozenset(best[start : ends[start]].tolist()))
        start = ends[start]
    assert found == blocks_by_graph(learner, state, features)


def draws(blocks, best, limit):
    """Every ranking with its probability: a tree of uniform choices among the items that are allowed at a position."""
    at = {item: position for position, item in enumerate(best)}
    reach = len(best) if limit.positions < 0 else limit.positions

    def grow(ranking, probability):
        position = len(ranking)
        if position == len(best):
            yield tuple(ranking), probability
            return
        left = next(block - set(ranking) for block in blocks if block - set(ranking))
        allowed = [item for item in left if at[item] <= position + reach]
        due = [item for item in left if at[item] == position - reach]
        if limit.keep_first and position == 0:
            due = [best[0]]
        for item in due or allowed:
            yield from grow([*ranking, item], probability / len(due or allowed))

    return list(grow([], 1.0))


@given(
    st.integers(1, 5),
    st.sampled_from([None, 1, 2, 4]),
    st.integers(0, 99),
    st.sampled_from([Limit(), Limit(0), Limit(1), Limit(2, True), Limit(-1, True), Limit(99)]),
)
def test_the_probability_is_that_of_all_draws(n_items, shown, seed, limit):
    rng, learner = default_rng(seed), PairRank(alpha=0.3)
    state, query = random_state(learner, 3, shown, rng), Query.of(rng.normal(size=(n_items, 3)))
    best, wanted = learner.predict(state, query).tolist(), {}
    for ranking, probability in draws(blocks_by_graph(learner, state, query.features), best, limit):
        wanted[ranking[:shown]] = wanted.get(ranking[:shown], 0.0) + probability
    for ranking in itertools.permutations(range(n_items)):
        log_prob = learner.log_prob(state, query, np.array(ranking), limit)
        assert math.exp(log_prob) == pytest.approx(wanted.get(ranking[:shown], 0.0), abs=1e-12)
    decision = learner.rank(state, query, rng, limit)
    assert math.exp(decision.log_propensity) == pytest.approx(wanted[tuple(decision.ranking[:shown])])


def test_every_order_within_a_block_is_drawn():
    learner, query, rng = PairRank(), Query.of(np.eye(3)), default_rng(5)
    state = learner.init(Problem(3))
    counts = {}
    for _ in range(6000):
        ranking = tuple(learner.rank(state, query, rng).ranking.tolist())
        counts[ranking] = counts.get(ranking, 0) + 1
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts.values()) < 5 * math.sqrt(6000 * (1 / 6) * (5 / 6))


def test_the_limit_wrapper_takes_it():
    learner = build({"kind": "explore_at_most", "inner": "pairrank", "places": 1})
    query, rng = Query.of(default_rng(0).normal(size=(6, 2))), default_rng(1)
    state = learner.init(Problem(2))
    best = learner.predict(state, query).tolist()
    for _ in range(50):
        ranking = learner.rank(state, query, rng).ranking.tolist()
        assert all(abs(position - best.index(item)) <= 1 for position, item in enumerate(ranking))


def test_pairs_are_of_examined_items():
    ranking, clicked = np.array([4, 2, 0, 5, 1, 3]), np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    downwards, upwards = np.arange(6.0)[::-1].copy(), np.arange(6.0)
    assert _pairs_of(ranking, clicked, downwards, True).tolist() == [[4, 2], [0, 5]]  # 1 and 3 were not reached
    assert _pairs_of(ranking, clicked, upwards, True).tolist() == [[0, 5], [4, 2]]
    assert _pairs_of(ranking, clicked, np.array([1.0, 0, 2, 3, 9, 9]), True).tolist() == [[0, 5], [4, 2]]
    assert _pairs_of(ranking, clicked, np.array([3.0, 0, 2, 1, 9, 9]), True).tolist() == [[4, 5], [0, 2]]
    assert _pairs_of(ranking, clicked, downwards, False).tolist() == [[4, 2], [4, 5], [0, 2], [0, 5]]
    assert _pairs_of(ranking[:3], clicked, downwards, False).tolist() == [[4, 2], [0, 2]]
    assert _pairs_of(ranking, np.zeros(6), downwards, False).tolist() == []
    assert _pairs_of(ranking, np.ones(6), downwards, False).tolist() == []


def full_estimate(pairs, n_features, ridge):
    """The maximum of the penalised likelihood of all pairs, by Newton's method."""
    weights, rows = np.zeros(n_features), np.array(pairs)
    for _ in range(50):
        q = sigmoid(rows @ weights)
        information = ridge * np.eye(n_features) + (rows * (q * (1 - q))[:, None]).T @ rows
        weights = weights + np.linalg.solve(information, rows.T @ (1 - q) - ridge * weights)
    return weights


@pytest.mark.parametrize("pairs", ["disjoint", "all"])
def test_the_state_follows_the_formulas(pairs):
    """Both inverses as dense algebra has them, and weights close to a regression of all pairs at once."""
    learner, rng, truth = PairRank(ridge=2.0, pairs=pairs), default_rng(2), np.array([1.0, -0.5, 0.3, 0.0])
    state, weights, rows = learner.init(Problem(4, shown=5)), np.zeros(4), []
    information, gram = 2.0 * np.eye(4), 2.0 * np.eye(4)
    for _ in range(400):
        query = Query.of(rng.normal(size=(7, 4)))
        decision = learner.rank(state, query, rng)
        seen = decision.ranking[:5]
        hits = rng.random(5) < sigmoid(query.features[seen] @ truth)
        state = learner.learn(state, query, decision, clicks(seen[hits]))
        last = np.flatnonzero(hits)[-1] if hits.any() else -2
        by_priority = sorted(range(len(seen[: last + 2])), key=lambda p: -decision.receipt.priorities[p])
        winners, losers = ([seen[p] for p in by_priority if hits[p] == hit] for hit in (True, False))
        for winner, loser in itertools.product(winners, losers) if pairs == "all" else zip(winners, losers):
            x = query.features[winner] - query.features[loser]
            q = sigmoid(weights @ x)
            information += q * (1 - q) * np.outer(x, x)
            gram += np.outer(x, x)
            weights = weights + (1 - q) * np.linalg.inv(information) @ x
            rows.append(x)
    np.testing.assert_allclose(state.weights, weights, rtol=1e-7)
    np.testing.assert_allclose(state.covariance, np.linalg.inv(information), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(state.gram_inverse, np.linalg.inv(gram), rtol=1e-7, atol=1e-12)
    full = full_estimate(rows, 4, 2.0)
    assert np.linalg.norm(state.weights - full) < 0.1 * np.linalg.norm(full)


def test_a_heavier_click_counts_as_much_more():
    learner, query = PairRank(), Query.of(np.eye(2))
    state = learner.init(Problem(2))
    decision = learner.rank(state, query, default_rng(0))
    one, two = (learner.learn(state, query, decision, Clicks(np.array([0]), np.array([w]))) for w in (1.0, 2.0))
    np.testing.assert_allclose(np.linalg.inv(one.gram_inverse) - np.eye(2), [[1, -1], [-1, 1]], atol=1e-12)
    np.testing.assert_allclose(np.linalg.inv(two.gram_inverse) - np.eye(2), [[2, -2], [-2, 2]], atol=1e-12)
    assert two.weights[0] > one.weights[0] > 0


def test_it_shows_better_rankings_than_chance():
    ndcg, late = parse_measure("nDCG@5"), {}
    users = build("dcm(behaviour='informational')", "feedback")
    for spec in ("pairrank", "random_order"):
        rounds = play(build(spec, "learner"), WebSearch(), users, horizon=2500, seed=1)
        late[spec] = np.mean([ndcg(round.decision.ranking, round.relevance) for round in rounds][-800:])
    assert late["pairrank"] > late["random_order"] + 0.15


def test_bad_parameters_are_refused():
    for wrong in ({"ridge": 0.0}, {"ridge": math.inf}, {"alpha": -1.0}, {"alpha": math.nan}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            PairRank(**wrong)
