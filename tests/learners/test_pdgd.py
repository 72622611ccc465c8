"""PDGD: exact propensities with and without limits, its weights by brute force, and no bias by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build
from rankloop.core.types import Limit
from rankloop.learners.pdgd import Pdgd, _draw, _log_prob_of, _pair_weights, _strengths_of, _swap_odds
from rankloop.learners.wrappers.exploration_limit import ExploreAtMost
from rankloop.simulate.users.click_users import CLICK_PROBABILITIES, STOP_PROBABILITIES
from tests.feedback import clicks

SCORES = st.lists(st.floats(-3, 3), min_size=2, max_size=5)


def probability(scores, ranking, seen=None):
    """Plackett–Luce, written down: Π_p exp(s_p) / Σ_(q ≥ p) exp(s_q)."""
    strengths = np.exp(np.asarray(scores)[list(ranking)])
    return math.prod(strengths[p] / strengths[p:].sum() for p in range(len(ranking))[:seen])


def limited_probabilities(scores, limit):
    """The probability of every ranking when the rules of the limit are followed place by place."""
    best = list(np.argsort(-np.asarray(scores), kind="stable"))
    found = {}
    for ranking in itertools.permutations(range(len(scores))):
        total = 1.0
        for position, item in enumerate(ranking):
            left = [i for i in ranking[position:] if limit.positions < 0 or best.index(i) <= position + limit.positions]
            due = [i for i in left if limit.positions >= 0 and best.index(i) + limit.positions <= position]
            if limit.keep_first and position == 0:
                due = best[:1]
            options = due or left
            total *= math.exp(scores[item]) / sum(math.exp(scores[i]) for i in options) if item in options else 0.0
        found[ranking] = total
    return found


@settings(deadline=None)
@given(SCORES, st.integers(-1, 3), st.booleans())
def test_log_prob_follows_the_rules_of_the_limit(scores, places, keep_first):
    strengths, best = _strengths_of(np.array(scores)), np.argsort(-np.array(scores), kind="stable")
    probabilities = limited_probabilities(scores, Limit(places, keep_first))
    assert sum(probabilities.values()) == pytest.approx(1.0)
    for ranking, wanted in probabilities.items():
        found = _log_prob_of(strengths, best, np.array(ranking), len(scores), places, keep_first)
        assert math.exp(found) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        if wanted > 0 and places >= 0:
            assert max(abs(position - list(best).index(item)) for position, item in enumerate(ranking)) <= places


@pytest.mark.parametrize("limit", [Limit(), Limit(1, False), Limit(2, True)])
def test_draws_have_their_probability(limit):
    scores, draws, rng = np.array([0.3, -0.5, 1.0, 0.0]), 5000, default_rng(0)
    best, counts = np.argsort(-scores), {}
    for _ in range(draws):
        ranking = tuple(_draw(_strengths_of(scores), best, limit.positions, limit.keep_first, rng.random(4)).tolist())
        counts[ranking] = counts.get(ranking, 0) + 1
    for ranking, wanted in limited_probabilities(scores, limit).items():
        assert abs(counts.get(ranking, 0) / draws - wanted) <= 5 * math.sqrt(wanted * (1 - wanted) / draws) + 1e-12


def test_the_seen_part_is_what_counts():
    learner, features = Pdgd(), np.array([[0.2], [1.0], [-0.4], [0.0]])
    state = learner.init(Problem(n_features=1, shown=2))._replace(weights=np.ones(1))
    for ranking in itertools.permutations(range(4)):
        found = learner.log_prob(state, Query.of(features), np.array(ranking))
        assert math.exp(found) == pytest.approx(probability(features[:, 0], ranking, 2))


@settings(deadline=None)
@given(SCORES, st.data())
def test_swap_odds_twin(scores, data):
    ranking = data.draw(st.permutations(range(len(scores))))
    upper = data.draw(st.integers(0, len(scores) - 2))
    lower = data.draw(st.integers(upper + 1, len(scores) - 1))
    swapped = list(ranking)
    swapped[upper], swapped[lower] = ranking[lower], ranking[upper]
    found = _swap_odds(_strengths_of(np.array(scores)), np.array(ranking), upper, lower)
    assert found == pytest.approx(probability(scores, swapped) / probability(scores, ranking), rel=1e-9)


def brute_weights(scores, ranking, clicked, seen, probability_of):
    """Section 4 of the paper, pair by pair."""
    weights, places = np.zeros(len(ranking)), range(seen)
    hits = [p for p in places if clicked[ranking[p]]]
    if not hits:
        return weights
    for i, j in itertools.product(hits, [p for p in places if not clicked[ranking[p]] and p <= max(hits) + 1]):
        swapped = list(ranking)
        swapped[i], swapped[j] = ranking[j], ranking[i]
        own, other = probability_of(ranking), probability_of(swapped)
        k, l = ranking[i], ranking[j]  # noqa: E741 - the paper's letters
        a, b = math.exp(scores[k]), math.exp(scores[l])
        step = other / (own + other) * a * b / (a + b) ** 2
        weights[k] += step
        weights[l] -= step
    return weights


@settings(deadline=None)
@given(
    st.lists(st.floats(-2, 2), min_size=3, max_size=5),
    st.data(),
    st.sampled_from([Limit(), Limit(1, False), Limit(2, True)]),
)
def test_pair_weights_twin(scores, data, limit):
    n_items = len(scores)
    probabilities = limited_probabilities(scores, limit)
    ranking = data.draw(st.sampled_from([one for one, p in probabilities.items() if p > 0]))
    clicked = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n_items, max_size=n_items)))
    found = _pair_weights(np.array(scores), np.array(ranking), -1, limit.positions, limit.keep_first, clicked)
    wanted = brute_weights(scores, ranking, clicked, n_items, lambda r: probabilities[tuple(r)])
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-12)


def click_probabilities(grades, click, stop):
    """All click patterns over the places, with their probability, of people who read down and stop after clicks."""
    for pattern in itertools.product((0, 1), repeat=len(grades)):
        total, reading = 0.0, 1.0
        for position, hit in enumerate(pattern):
            reading *= click[grades[position]] if hit else 1 - click[grades[position]]
            ends = 1.0 if position == len(pattern) - 1 else stop[grades[position]] * hit
            if not any(pattern[position + 1 :]):
                total += reading * ends
            reading *= 1 - ends
        yield pattern, total


def expected_step(scores, grades, limit, behaviour):
    click, stop, total = CLICK_PROBABILITIES[behaviour, 1], STOP_PROBABILITIES[behaviour, 1], np.zeros(len(scores))
    for ranking, p_ranking in limited_probabilities(scores, limit).items():
        if p_ranking > 0:
            for pattern, p_clicks in click_probabilities([grades[item] for item in ranking], click, stop):
                clicked = np.zeros(len(scores))
                clicked[list(ranking)] = pattern
                step = _pair_weights(
                    np.array(scores), np.array(ranking), -1, limit.positions, limit.keep_first, clicked
                )
                total += p_ranking * p_clicks * step
    return total


@pytest.mark.parametrize("limit", [Limit(), Limit(1, False)])
@pytest.mark.parametrize("behaviour", ["perfect", "navigational", "informational"])
@pytest.mark.parametrize("grade", [0, 1])
def test_the_gradient_is_unbiased(limit, behaviour, grade):
    """Equally good items: whatever the scores, the places and the clicks, the expected step is nothing."""
    for scores in ([1.0, 0.0, -0.5], [0.3, 0.2, 2.0, -1.0]):
        np.testing.assert_allclose(expected_step(scores, [grade] * len(scores), limit, behaviour), 0.0, atol=1e-14)


@pytest.mark.parametrize("behaviour", ["perfect", "navigational", "informational"])
def test_the_gradient_points_at_the_better_item(behaviour):
    for scores in ([1.0, 0.0, -0.5], [-2.0, 0.5, 0.4]):
        step = expected_step(scores, [1, 0, 0], Limit(), behaviour)
        assert step[0] > 0
        assert step[1] < 0
        assert step[2] < 0
        assert step.sum() == pytest.approx(0.0, abs=1e-14)


def test_one_step_by_hand():
    """Two items, the lower clicked: ρ = P(R′)/(P(R)+P(R′)), here P(0 first) = 1/(1+e)."""
    learner, query = Pdgd(learning_rate=0.5, decay=0.9), Query.of(np.array([[0.0], [1.0]]))
    state = learner.init(Problem(n_features=1))._replace(weights=np.ones(1), rounds=2)
    decision = learner.rank(state, query, default_rng(0))._replace(ranking=np.array([0, 1]))
    p = math.e / (1 + math.e)
    learned = learner.learn(state, query, decision, clicks([1]))
    assert learned.weights[0] == pytest.approx(1 + 0.5 * 0.9**2 * p * p * (1 - p))
    assert learner.learn(state, query, decision, clicks([])).weights.tolist() == [1.0]


def test_explore_at_most_keeps_its_word():
    rng = default_rng(1)
    limited = ExploreAtMost(inner=Pdgd(), places=2, keep_first=True)
    state = limited.init(Problem(n_features=3))._replace(weights=np.array([0.1, 0.0, -0.1]))
    for _ in range(200):
        query = Query.of(rng.normal(size=(9, 3)))
        best, shown = limited.predict(state, query), limited.rank(state, query, rng).ranking
        assert shown[0] == best[0]
        assert np.abs(np.argsort(shown) - np.argsort(best)).max() <= 2


@pytest.mark.parametrize("places", [4, 2**62, 2**63 - 1])
def test_a_limit_beyond_the_list_is_none(places):
    limited, free = ExploreAtMost(inner=Pdgd(), places=places), Pdgd()
    problem, query = Problem(n_features=1), Query.of([[3.0], [1.0], [2.0], [0.0]])
    state = free.init(problem)._replace(weights=np.array([1.0]))
    for seed in range(20):
        shown, wanted = limited.rank(state, query, default_rng(seed)), free.rank(state, query, default_rng(seed))
        assert shown.ranking.tolist() == wanted.ranking.tolist()
        assert shown.log_propensity == pytest.approx(wanted.log_propensity)
        learned = limited.learn(state, query, shown, clicks(shown.ranking[2:3]))
        np.testing.assert_allclose(
            learned.weights, free.learn(state, query, wanted, clicks(shown.ranking[2:3])).weights
        )


def test_explore_at_most_refuses_what_cannot_be_limited():
    with pytest.raises(InvalidInput, match="position by position"):
        build({"kind": "explore_at_most", "inner": "3pr"})
    with pytest.raises(InvalidInput, match="places"):
        ExploreAtMost(inner=Pdgd(), places=-1)
    with pytest.raises(InvalidInput, match="decay"):
        Pdgd(decay=0.0)
