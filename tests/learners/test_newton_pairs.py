"""Newton pairs: probabilities by enumeration, steps by dense algebra, and better rankings."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, build, parse_measure, play
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Decision
from rankloop.learners.newton_pairs import (
    N_STATISTICS,
    NewtonPairs,
    Receipt,
    State,
    _first_click,
    _has_changed,
    _inverse_of,
    _spread_of,
    _watched,
)
from rankloop.simulate.streams.simulated_queries import WebSearch
from tests.feedback import clicks


def normal_cdf(z):
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))


def as_matrix(precision):
    return np.diag(precision) if precision.ndim == 1 else precision


def orders(learner, state, features):
    """Every pairing and every choice of swaps: the ranking, where the pairs begin, and the probability."""
    scores, covariance = features @ state.weights, np.linalg.inv(as_matrix(state.precision))
    best = list(np.argsort(-scores, kind="stable"))
    swaps = []
    for upper, lower in itertools.pairwise(best):
        x, margin = features[upper] - features[lower], scores[upper] - scores[lower]
        doubt = normal_cdf(-margin / (learner.alpha * math.sqrt(x @ covariance @ x))) if margin > 0 else 0.5
        swaps.append(max(learner.floor, doubt))
    for first in (0, 1):
        pairs = list(range(first, len(best) - 1, 2))
        for flips in itertools.product((0, 1), repeat=len(pairs)):
            ranking = best.copy()
            for j, flip in zip(pairs, flips):
                if flip:
                    ranking[j], ranking[j + 1] = best[j + 1], best[j]
            yield ranking, first, 0.5 * math.prod(swaps[j] if flip else 1 - swaps[j] for j, flip in zip(pairs, flips))


def random_state(learner, n_features, shown, rng):
    state = learner.init(Problem(n_features, shown=shown))
    rows = rng.normal(size=(9, n_features))
    precision = state.precision + (rows**2).sum(axis=0) if learner.diagonal else state.precision + rows.T @ rows
    weights = rng.normal(size=n_features) * rng.integers(0, 2)  # zeros: all tied
    return state._replace(weights=weights, precision=precision, covariance=_inverse_of(precision))


@pytest.mark.parametrize("diagonal", [False, True])
@given(st.integers(2, 5), st.sampled_from([None, 1, 2, 3, 4]), st.integers(0, 99), st.sampled_from([0.0, 0.05, 0.5]))
def test_the_probability_is_that_of_all_draws(diagonal, n_items, shown, seed, floor):
    rng, learner = default_rng(seed), NewtonPairs(alpha=1.5, floor=floor, ridge=2.0, diagonal=diagonal)
    state, query = random_state(learner, 3, shown, rng), Query.of(rng.normal(size=(n_items, 3)))
    wanted = {}
    for ranking, _, probability in orders(learner, state, query.features):
        seen = tuple(ranking[:shown])
        wanted[seen] = wanted.get(seen, 0.0) + probability
    assert sum(wanted.values()) == pytest.approx(1)
    for ranking in itertools.permutations(range(n_items)):
        log_prob = learner.log_prob(state, query, np.array(ranking))
        assert math.exp(log_prob) == pytest.approx(wanted.get(ranking[:shown], 0.0), abs=1e-12)
    decision = learner.rank(state, query, rng)
    assert decision.log_propensity == pytest.approx(learner.log_prob(state, query, decision.ranking), abs=1e-12)


@given(st.integers(2, 7), st.sampled_from([None, 1, 2, 3, 6]), st.integers(0, 99))
def test_the_receipt_has_the_probability_of_each_order_that_is_seen(n_items, shown, seed):
    rng, learner = default_rng(seed), NewtonPairs(alpha=1.5)
    state, query = random_state(learner, 3, shown, rng), Query.of(rng.normal(size=(n_items, 3)))
    ranking, _, (probabilities, first) = learner.rank(state, query, rng)
    best, seen = learner.predict(state, query), min(shown or n_items, n_items)
    by_order = {(tuple(r), f): p for r, f, p in orders(learner, state, query.features)}
    swaps = list(range(first, n_items - 1, 2))
    for j in swaps:
        one, other = best.copy(), best.copy()
        other[[j, j + 1]] = best[[j + 1, j]]
        p, q = by_order[tuple(one), first], by_order[tuple(other), first]
        wanted = (q if ranking[j] != best[j] else p) / (p + q) if j < seen else 1.0
        assert probabilities[j // 2] == pytest.approx(wanted, abs=1e-12)
    assert ranking[seen + 1 :].tolist() == best[seen + 1 :].tolist()  # beyond, nothing is moved


def dense_step(learner, state, features, ranking, receipt, clicked):
    """The formulas of the docstring, with the inverse computed anew for each pair."""
    weights, precision = state.weights.copy(), as_matrix(state.precision).copy()
    seen = len(ranking) if state.shown < 0 else min(state.shown, len(ranking))
    for j in range(receipt.first, len(ranking) - 1, 2):
        upper, lower = ranking[j], ranking[j + 1]
        if j + 1 >= seen or clicked[upper] == clicked[lower]:
            continue
        winner, loser = (upper, lower) if clicked[upper] > clicked[lower] else (lower, upper)
        x, c = features[winner] - features[loser], 2 * (1 - receipt.order_probabilities[j // 2])
        c *= abs(clicked[upper] - clicked[lower])
        q = 1 / (1 + math.exp(-weights @ x))
        information = c * q * (1 - q) * np.outer(x, x)
        precision += np.diag(np.diag(information)) if learner.diagonal else information
        weights += c * (1 - q) * np.linalg.inv(precision) @ x
    return weights, precision


@pytest.mark.parametrize("diagonal", [False, True])
@given(st.integers(2, 7), st.sampled_from([None, 1, 2, 3, 6]), st.integers(0, 99))
def test_the_step_is_that_of_dense_algebra(diagonal, n_items, shown, seed):
    rng, learner = default_rng(seed), NewtonPairs(ridge=0.7, diagonal=diagonal)
    state, query = random_state(learner, 3, shown, rng), Query.of(rng.normal(size=(n_items, 3)))
    decision = learner.rank(state, query, rng)
    seen = decision.ranking[:shown]
    weights = rng.integers(0, 3, len(seen)).astype(float)
    clicked = np.zeros(n_items)
    clicked[seen] = weights
    learned = learner.learn(state, query, decision, Clicks(seen, weights))
    wanted = dense_step(learner, state, query.features, decision.ranking, decision.receipt, clicked)
    np.testing.assert_allclose(learned.weights, wanted[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(as_matrix(learned.precision), wanted[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(as_matrix(learned.covariance), np.linalg.inv(wanted[1]), rtol=1e-8, atol=1e-10)


def test_a_pair_of_which_one_item_is_not_seen_teaches_nothing():
    learner, query = NewtonPairs(), Query.of(np.eye(4))
    state = learner.init(Problem(4, shown=3))
    decision = Decision(np.arange(4), math.nan, Receipt(np.array([0.5, 0.5]), 0))
    learned = learner.learn(state, query, decision, clicks([2]))
    assert learned.rounds == 1
    assert not learned.weights.any()
    step = 1 * (1 / 2) * (1 / 10) / (1 + (1 / 4) * (2 / 10))  # c (1 − q) Σ x, Σ with the information c q (1 − q) in it
    assert learner.learn(state, query, decision, clicks([1])).weights == pytest.approx([-step, step, 0, 0])


@pytest.mark.parametrize("margin", [0.0, 0.3, 3.0])
def test_the_bias_of_positions_cancels(margin):
    """Equally good items get no step in expectation, however sure their order is; the ridge keeps steps small."""
    learner, features = NewtonPairs(ridge=1e9, alpha=1e4), np.array([[1.0, 0.5], [0.2, 0.1]])
    state = learner.init(Problem(2))._replace(weights=np.array([margin, 0.0]))
    learned_from = state._replace(weights=np.zeros(2))
    click, bias, query = 0.6, (0.9, 0.5), Query.of(features)
    total, largest = np.zeros(2), 0.0
    for ranking, first, p_order in orders(learner, state, features):
        probability = 2 * p_order  # of this order, given the pairing
        for pattern in itertools.product((0, 1), repeat=2):
            p_clicks = math.prod(click * b if hit else 1 - click * b for hit, b in zip(pattern, bias))
            decision = Decision(np.array(ranking), math.nan, Receipt(np.array([probability]), first))
            feedback = clicks([item for item, hit in zip(ranking, pattern) if hit])
            step = learner.learn(learned_from, query, decision, feedback).weights
            total += p_order * p_clicks * step
            largest = max(largest, np.abs(step).max())
    assert largest > 0
    assert np.abs(total).max() < 1e-6 * largest


@given(st.integers(1, 8), st.integers(0, 99))
def test_inverse_twin(n, seed):
    rows = default_rng(seed).normal(size=(n + 2, n))
    matrix = rows.T @ rows + 0.1 * np.eye(n)
    inverse = _inverse_of(matrix)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-7, atol=1e-9)
    assert np.array_equal(inverse, inverse.T)
    assert _spread_of(inverse, rows[0]) == pytest.approx(rows[0] @ np.linalg.inv(matrix) @ rows[0])


@pytest.mark.parametrize(("memory", "batch"), [(1, 1), (40, 2), (3000, 128), (10**6, 128)])
def test_it_forgets_a_batch_of_rounds_at_a_time(memory, batch):
    learner, rng = NewtonPairs(memory=memory, ridge=3.0), default_rng(0)
    state, precision = learner.init(Problem(3, shown=4)), 3.0 * np.eye(3)
    for t in range(1, 260):
        query = Query.of(rng.normal(size=(6, 3)))
        decision = learner.rank(state, query, rng)
        clicked = np.zeros(6)
        clicked[decision.ranking[:4]] = rng.integers(0, 2, 4)
        _, new = dense_step(learner, state, query.features, decision.ranking, decision.receipt, clicked)
        precision = precision + new - state.precision
        if t % batch == 0:
            gamma = (1 - 1 / memory) ** batch
            precision = gamma * precision + (1 - gamma) * 3.0 * np.eye(3)
        state = learner.learn(state, query, decision, clicks(np.flatnonzero(clicked)))
        np.testing.assert_allclose(state.precision, precision, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.covariance, np.linalg.inv(precision), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", [1e-9, 1e4, 1e7, 1e12])
@pytest.mark.parametrize("diagonal", [False, True])
def test_features_of_any_size_leave_a_state_that_loads(size, diagonal):
    session, rng = Session(NewtonPairs(diagonal=diagonal, memory=100), Problem(4)), default_rng(1)
    for _ in range(60):
        query = Query.of(size * rng.normal(size=(7, 4)))
        decision = session.rank(query)
        session.learn(query, decision, clicks(decision.ranking[rng.random(7) < 0.5]))
        assert loads(dumps(session)).state.rounds == session.state.rounds
    assert session.refused == 0
    if size < 1e6 and not diagonal:
        identity = session.state.precision @ session.state.covariance
        np.testing.assert_allclose(identity, np.eye(4), atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": 5.0 * np.eye(2)},
        {"covariance": -np.eye(2)},
        {"precision": np.diag([10.0, -10.0])},
        {"watch": np.array([0.5, 0.0, 0.0, -1.0])},
    ],
)
def test_a_state_that_no_learning_leads_to_is_refused(changes):
    initial = NewtonPairs().init(Problem(2))
    assert initial.reachable(initial)
    assert not initial._replace(**changes).reachable(initial)


@pytest.mark.parametrize("diagonal", [False, True])
def test_an_alarm_opens_the_precision_again(diagonal):
    learner, rng = NewtonPairs(ridge=2.0, alarm=15.0, diagonal=diagonal, start=(1.0, 0.0, -1.0)), default_rng(0)
    calm, query = NewtonPairs(ridge=2.0, alarm=0.0, diagonal=diagonal), Query.of(rng.normal(size=(4, 3)))
    state = random_state(learner, 3, None, rng)._replace(weights=rng.normal(size=3), watch=np.array([0.1, 14.9, 0, 99]))
    decision = learner.rank(state, query, rng)
    clicked = clicks(decision.ranking[:1])  # above the mean by 1 − .109, less .1: beyond the alarm
    before = calm.learn(state, query, decision, clicked)
    learned = learner.learn(state, query, decision, clicked)
    wanted = 0.03 * as_matrix(before.precision) + 0.97 * 2.0 * np.eye(3)
    np.testing.assert_allclose(as_matrix(learned.precision), wanted, rtol=1e-12)
    np.testing.assert_allclose(as_matrix(learned.covariance), np.linalg.inv(wanted), rtol=1e-9, atol=1e-12)
    away = before.weights - learner.start
    kept = 0.03 * as_matrix(before.precision) @ away  # of the sum of updates as of their precision
    np.testing.assert_allclose(learned.weights, learner.start + np.linalg.inv(wanted) @ kept, rtol=1e-9)
    assert (learned.alarms, before.alarms) == (1, 0)
    assert not learned.watch.any()
    assert before.watch.tolist() == pytest.approx([0.109, 14.9 + 1 - 0.109 - 0.1, 0.0, 100.0])


def test_it_notices_that_taste_has_changed():
    stream = build("drift(inner={kind='web_search', n_queries=200, n_items=12, n_features=10}, at=1500)", "stream")
    last = {}
    for spec in ("newton_pairs", "newton_pairs(alarm=0)"):
        rounds = list(play(build(spec), stream, build("dcm", "feedback"), horizon=2500, seed=2))
        last[spec] = rounds[-1].learned.alarms
        assert rounds[1499].learned.alarms == 0
    assert last == {"newton_pairs": 1, "newton_pairs(alarm=0)": 0}


@pytest.mark.parametrize("spec", ["newton_pairs", "newton_pairs(diagonal=true)"])
@pytest.mark.parametrize("users", ["dcm(behaviour='informational')", "dcm(behaviour='navigational')"])
def test_it_shows_better_rankings_than_chance(spec, users):
    ndcg, late = parse_measure("nDCG@5"), {}
    for text in (spec, "random_order"):
        rounds = play(build(text, "learner"), WebSearch(), build(users, "feedback"), horizon=2500, seed=1)
        values = [ndcg(round.decision.ranking, round.relevance) for round in rounds]
        late[text] = np.mean(values[-800:])
    assert late[spec] > late["random_order"] + 0.2


def test_rounds_that_decide_nothing_leave_the_arrays_as_they_are():
    learner, query = NewtonPairs(), Query.of(np.eye(3))
    state = learner.init(Problem(3))
    learned = learner.learn(state, query, learner.rank(state, query, default_rng(0)), clicks([]))
    assert isinstance(learned, State)
    assert learned.covariance is state.covariance
    assert learned.rounds == 1


def test_bad_parameters_are_refused():
    wrongs = (
        {"ridge": 0.0},
        {"ridge": math.inf},
        {"alpha": 0.0},
        {"floor": 0.6},
        {"floor": math.nan},
        {"memory": 0},
        {"alarm": -1.0},
    )
    for wrong in wrongs:
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            NewtonPairs(**wrong)


NOTHING = np.zeros(N_STATISTICS)


def after(values):
    watch = NOTHING
    for value in values:
        watch = _watched(watch, value)
    return watch


def test_where_people_click_first():
    ranking, clicked = np.array([2, 0, 1, 3]), np.array([0.0, 1.0, 0.0, 0.5])
    assert _first_click(ranking, clicked) == 1 / 3
    assert _first_click(ranking[:2], clicked) == 0.0  # beyond what is seen
    assert _first_click(ranking, np.ones(4)) == 1.0
    assert _first_click(ranking, np.zeros(4)) == 0.0


def test_the_sums_by_hand():
    mean, above, below, count = after([1.0, 0.0, 0.0])
    assert mean == pytest.approx(1 / 3)
    assert count == 3
    assert above == 0.0
    assert below == pytest.approx((1 / 2 - 0.1) + (1 / 3 - 0.1))
    assert after([0.0, 1.0, 1.0])[1] == pytest.approx((1 - 1 / 2 - 0.1) + (1 - 2 / 3 - 0.1))
    assert not NOTHING.any()


def test_small_departures_do_not_add_up():
    assert after([0.5] * 100 + [0.59] * 1000)[1:3].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("before", "later"), [(0.2, 0.9), (0.9, 0.2)])
def test_a_change_in_either_direction_is_noticed_soon(before, later):
    watch = after([before] * 1000)
    assert not _has_changed(watch, 15.0)
    n = 0
    while not _has_changed(watch, 15.0):
        watch, n = _watched(watch, later), n + 1
    assert 15 / (0.7 - 0.1) < n < 15 / (0.7 - 0.1) + 3  # the mean follows a little
    assert not _has_changed(watch, 0.0)


def test_what_is_no_watch():
    first = NewtonPairs().init(Problem(1))
    assert first.reachable(first)
    assert first._replace(watch=after([1.0, 0.0])).reachable(first)
    for wrong in ([2.0, 0.0, 0.0, 1.0], [0.5, -1.0, 0.0, 1.0], [0.5, 0.0, 0.0, -1.0]):
        assert not first._replace(watch=np.array(wrong)).reachable(first)
