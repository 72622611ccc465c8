"""3PR: the paper's worked example, exact propensities, the dynamic swap probability and its books."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import InvalidInput, Problem, Query, Session, UnstableUpdate, play
from rankloop.learners._shared.swap_propensity import _pair_weight, pair_correction
from rankloop.learners.preference_perceptron import PreferencePerceptron
from rankloop.learners.three_pr import Receipt, ThreePR
from rankloop.simulate.streams.simulated_queries import LinearGaussian
from rankloop.simulate.users.readers import NoisyReader
from tests.feedback import clicks

STREAM = LinearGaussian(n_items=8, n_features=5, n_queries=50)
# By name: the probability of each pairing, its first position, and the position before which its pairs end.
PAIRINGS = {"pairs": [(0.5, 0, 99), (0.5, 1, 99)], "top_two": [(1.0, 0, 2)]}
READER = NoisyReader(noise=0.2, shown=6)


def joint(features, ranking):
    return sum(features[item] / math.log2(position + 2) for position, item in enumerate(ranking))


def test_worked_example_of_the_paper():
    """Shown (d2, d1), (d3, d4), (d6, d5), clicks on d1, d4, d6: better is (d1, d2), (d4, d3), (d6, d5)."""
    features = np.eye(6)
    learner = ThreePR()
    state = learner.init(Problem(n_features=6))
    shown = np.array([1, 0, 2, 3, 5, 4])
    decision = learner.rank(state, Query.of(features), np.random.default_rng(0))
    decision = decision._replace(ranking=shown, receipt=Receipt(np.zeros(6), 0, 6, 0.0, 0.5))
    learned = learner.learn(state, Query.of(features), decision, clicks([0, 3, 5]))
    np.testing.assert_allclose(
        learned.weights, joint(features, [0, 1, 3, 2, 5, 4]) - joint(features, shown), atol=1e-15
    )


def test_singletons_are_neither_swapped_nor_fed_back():
    learner = ThreePR(swap=1.0)
    query = Query.of(np.diag([3.0, 2.0, 1.0]))
    state = learner.init(Problem(n_features=3))._replace(weights=np.ones(3), newest=np.ones(3))
    seen = {tuple(learner.rank(state, query, np.random.default_rng(seed)).ranking) for seed in range(20)}
    assert seen == {(1, 0, 2), (0, 2, 1)}
    decision = learner.rank(state, query, np.random.default_rng(0))
    assert decision.receipt.first in (0, 1)
    alone = 2 if decision.receipt.first == 0 else 0
    assert learner.learn(state, query, decision, clicks([alone])).weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("swap", [0.0, 0.3, 1.0, "dynamic"])
@pytest.mark.parametrize("perturb", ["pairs", "top_two"])
@pytest.mark.parametrize("shown", [None, 1, 2, 3])
@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 5])
def test_log_prob_is_the_enumerated_probability(swap, perturb, shown, n_items):
    learner = ThreePR(swap=swap, perturb=perturb, budget=0.2)
    features = np.random.default_rng(n_items).normal(size=(n_items, 2))
    weights = np.array([1.0, -0.5])
    state = learner.init(Problem(n_features=2, shown=shown))._replace(weights=weights, newest=weights, rounds=2)
    query, scores = Query.of(features), features @ weights
    best = np.argsort(-scores)
    expected: dict[tuple[int, ...], float] = {}
    for share, first, end in PAIRINGS[perturb]:
        pairs = list(range(first, min(n_items, end) - 1, 2))
        cost = sum(
            (1 / math.log2(j + 2) - 1 / math.log2(j + 3)) * (scores[best[j]] - scores[best[j + 1]]) for j in pairs
        )
        p = swap
        if swap == "dynamic":
            p = min(1.0, 0.2 * 3 / cost) if cost else 1.0
        for flips in itertools.product([0, 1], repeat=len(pairs)):
            ranking = best.copy()
            for j, flip in zip(pairs, flips):
                if flip:
                    ranking[[j, j + 1]] = ranking[[j + 1, j]]
            part = tuple(ranking[:shown])
            expected[part] = expected.get(part, 0.0) + share * p ** sum(flips) * (1 - p) ** (len(flips) - sum(flips))
    for ranking in itertools.permutations(range(n_items)):
        wanted = expected.get(ranking[:shown], 0.0)
        assert math.exp(learner.log_prob(state, query, np.array(ranking))) == pytest.approx(wanted, abs=1e-12)
    decision = learner.rank(state, query, np.random.default_rng(7))
    assert decision.log_propensity == learner.log_prob(state, query, decision.ranking)


def test_swapping_never_equals_the_pair_perceptron():
    ours = play(ThreePR(swap=0.0), STREAM, READER, horizon=300, seed=3)
    theirs = play(PreferencePerceptron(clicks_to="pairs"), STREAM, READER, horizon=300, seed=3)
    for a, b in zip(ours, theirs, strict=True):
        assert a.decision.ranking.tolist() == b.decision.ranking.tolist()
        np.testing.assert_allclose(a.learned.weights, b.learned.weights, rtol=0, atol=1e-12)


def test_books_against_a_direct_computation():
    """R_t = Σ w_t · (correction), D_t = w_t · (φ(best) − φ(all swapped)), p_t = clip((Δ t − R_t) / D_t, 0, 1)."""
    learner = ThreePR(swap="dynamic", budget=0.01)
    score_agreement, probabilities = 0.0, []
    for round in play(learner, STREAM, READER, horizon=400, seed=1):
        features, state, shown = round.query.features, round.state, round.decision.ranking
        receipt, clicked = round.decision.receipt, set(round.feedback.items.tolist())
        assert state.score_agreement == pytest.approx(score_agreement, abs=1e-9)
        best = learner.predict(state, round.query)
        all_swapped, better = best.copy(), shown.copy()
        for j in range(receipt.first, 7, 2):
            all_swapped[[j, j + 1]] = best[[j + 1, j]]
            if shown[j + 1] in clicked and shown[j] not in clicked:
                better[[j, j + 1]] = shown[[j + 1, j]]
        cost = state.weights @ (joint(features, best) - joint(features, all_swapped))
        step = joint(features, better) - joint(features, shown)
        allowance = 0.01 * (round.t + 1) - score_agreement
        wanted = min(1.0, max(0.0, allowance / cost)) if cost > 1e-9 else float(allowance > 0)
        assert receipt.swap == pytest.approx(wanted, abs=1e-7)
        np.testing.assert_allclose(round.learned.weights, state.weights + step, atol=1e-9)
        assert (round.learned.max_perturbation, round.learned.swap) == (receipt.max_perturbation, receipt.swap)
        score_agreement += state.weights @ step
        probabilities.append(receipt.swap)
    assert 0.0 < np.mean(probabilities) < 1.0


def test_dynamic_swap_is_0_without_an_allowance():
    learner = ThreePR(swap="dynamic", budget=0.0)
    query = Query.of(np.random.default_rng(0).normal(size=(6, 3)))
    state = learner.init(Problem(n_features=3))._replace(weights=np.ones(3), newest=np.ones(3), score_agreement=0.1)
    assert learner.rank(state, query, np.random.default_rng(0)).receipt.swap == 0.0
    assert learner.log_prob(state, query, learner.predict(state, query)) == 0.0
    owed = learner.rank(state._replace(score_agreement=-1e9), query, np.random.default_rng(0))
    assert owed.receipt.swap == 1.0


def test_no_item_moves_more_than_one_position():
    for round in play(ThreePR(), STREAM, READER, horizon=100, seed=0):
        best = ThreePR().predict(round.state, round.query)
        moved = np.argsort(best) - np.argsort(round.decision.ranking)
        assert np.abs(moved).max() <= 1


def test_the_first_rounds_move_clicks_to_the_top():
    warm = play(ThreePR(warm=50), STREAM, READER, horizon=120, seed=2)
    top = play(PreferencePerceptron(clicks_to="top"), STREAM, READER, horizon=50, seed=2)
    for a, b in zip(warm, top):
        np.testing.assert_allclose(a.learned.weights, b.learned.weights, atol=1e-12)
        assert a.decision.log_propensity == 0.0
    assert {round.decision.receipt.swap for round in warm} == {0.5}


def test_averaged_scores_by_the_mean_of_all_weights():
    rounds = list(play(ThreePR(averaged=True), STREAM, READER, horizon=200, seed=5))
    newest = [rounds[0].state.newest] + [round.learned.newest for round in rounds]
    np.testing.assert_allclose(rounds[-1].learned.weights, np.mean(newest, axis=0), rtol=1e-10, atol=1e-12)


def test_a_purchase_counts_for_more_than_a_click():
    learner, query = ThreePR(), Query.of(np.eye(2))
    state = learner.init(Problem(n_features=2))
    decision = learner.rank(state, query, np.random.default_rng(1))._replace(ranking=np.array([0, 1]))
    decision = decision._replace(receipt=decision.receipt._replace(first=0))
    learned = learner.learn(state, query, decision, clicks([0, 1], [1.0, 4.0]))
    assert learned.weights.tolist() == pytest.approx([-3 * (1 - 1 / math.log2(3)), 3 * (1 - 1 / math.log2(3))])


@given(st.data(), st.integers(1, 9))
def test_pair_correction_twin(data, n_items):
    shown = np.array(data.draw(st.permutations(range(n_items))))
    clicked = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=n_items, max_size=n_items)))
    first = data.draw(st.integers(0, 1))
    expected = np.zeros(n_items)
    for j in range(first, n_items - 1, 2):
        excess = max(0.0, clicked[shown[j + 1]] - clicked[shown[j]])
        weight = 1 / math.log2(j + 2) - 1 / math.log2(j + 3)
        expected[shown[j + 1]] += excess * weight
        expected[shown[j]] -= excess * weight
    np.testing.assert_allclose(pair_correction(shown, clicked, first, n_items), expected, atol=1e-15)


def test_pair_weight_goes_on_beyond_its_table():
    for j in (0, 255, 256, 1000):
        assert _pair_weight(j) == pytest.approx(1 / math.log2(j + 2) - 1 / math.log2(j + 3), rel=1e-9)


@pytest.mark.parametrize("bad", [{"swap": 1.5}, {"perturb": "triples"}, {"warm": -1}, {"budget": math.nan}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidInput):
        ThreePR(**bad)


def test_no_number_that_is_not_finite_gets_into_the_state():
    session = Session(ThreePR(start=[1.0]), Problem(n_features=1), 0)
    query = Query.of([[1.5e308], [-1.5e308]])
    paired = next(decision for decision in (session.rank(query) for _ in range(20)) if decision.receipt.first == 0)
    assert math.isinf(paired.receipt.max_perturbation)
    with pytest.raises(UnstableUpdate):
        session.learn(query, paired, clicks([]))
    small = Query.of([[1.0], [0.0]])
    decision = session.rank(small)
    for forged in ({"swap": math.nan}, {"max_perturbation": math.inf}):
        with pytest.raises(UnstableUpdate):
            session.learn(small, decision._replace(receipt=decision.receipt._replace(**forged)), clicks([]))
    assert session.refused == 3
    assert session.state.rounds == 0
