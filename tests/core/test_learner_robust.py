"""Robust updates: ranges that are learned, steps that are capped, users who count once."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop import Clicks, Problem, Query, Ranker, Reward, Session, build
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import HIGH, LOW, MAX_CLICKS_PER_ITEM, MIN_RANGE_UPDATES, RANGE_UPDATES, Robust
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import as_robust, row_in_range, with_robust
from rankloop.core.types import Floats

ONE_CLICK = Clicks(np.array([0]), np.ones(1))


def visit(session: Session, features: Floats) -> None:
    query = Query.of(features)
    session.learn(query, session.rank(query), ONE_CLICK)


def robust(inner: str = "click_regression", n_features: int = 2, **parameters: object) -> Session:
    learner = build({"kind": "robust", "inner": inner, **parameters}, "learner")
    return Session(learner, Problem(n_features), 0)


def limits(session: Session) -> tuple[list[float], list[float]]:
    return session.state.ranges[LOW].tolist(), session.state.ranges[HIGH].tolist()


@pytest.mark.parametrize("n_visits", [8, 39, 40, 120, 200, 203, 208, 399, 450])
def test_the_range_is_that_of_the_lists_without_the_most_extreme(n_visits: int) -> None:
    session, rng = robust(margin=0.25), np.random.default_rng(0)
    lists = rng.standard_cauchy((n_visits, 6, 2))
    for features in lists:
        visit(session, features)
    ends = []
    for sign in (1.0, -1.0):
        extremes = (sign * lists).max(axis=1)
        begin = (n_visits - 1) // RANGE_UPDATES * RANGE_UPDATES
        now, last = extremes[begin:], extremes[max(0, begin - RANGE_UPDATES) : begin]
        parts = [np.sort(last, axis=0)[-1 - 8]] if len(last) else []
        if len(now) >= MIN_RANGE_UPDATES:
            parts.append(np.sort(now, axis=0)[-1 - (3 + len(now) // 40)])
        ends.append(sign * np.max(parts, axis=0))
    high, low = ends
    low, high = low - 0.25 * (high - low), high + 0.25 * (high - low)
    assert np.allclose(limits(session), [low, high])


def test_values_outside_are_clipped_when_ranked_and_learned_and_are_counted() -> None:
    session, rng = robust(margin=0.0), np.random.default_rng(1)
    for _ in range(20):
        visit(session, rng.random((5, 2)))
    low, high = np.array(limits(session))
    extreme = np.array([[0.5, 0.5], [1e6, -1e6]])
    query, clipped = Query.of(extreme), Query.of(np.clip(extreme, low, high))
    assert session.log_prob(query, np.array([1, 0])) == session.log_prob(clipped, np.array([1, 0]))
    assert row_in_range(session.state, extreme[1]).tolist() == [high[0], low[1]]
    before = session.state.clipped
    visit(session, extreme)
    assert session.state.clipped == before + 2


def test_a_clipped_value_is_learned_as_the_limit() -> None:
    states = []
    for value in (1e6, 1.0):
        session = robust(ranges=[[0.0, 1.0], [0.0, 1.0]])
        visit(session, np.array([[0.5, 0.5], [value, 0.2]]))
        states.append(session.state)
    assert states[0].inner.weights.tolist() == states[1].inner.weights.tolist()
    assert (states[0].clipped, states[1].clipped) == (1, 0)


def test_first_lists_are_learned_from_in_units_of_their_largest_value() -> None:
    large, small = robust(max_step=0.0), robust(max_step=0.0)
    visit(large, np.array([[1e6, 0.5], [-5e5, 0.1]]))
    visit(small, np.array([[1.0, 0.5], [-0.5, 0.1]]))
    assert large.state.inner.weights.tolist() == small.state.inner.weights.tolist()


def test_a_column_that_begins_to_vary_is_learned_and_one_odd_list_before_does_no_harm() -> None:
    session, rng = robust("newton_pairs"), np.random.default_rng(2)
    for t in range(300):
        features = np.column_stack([rng.normal(size=8), np.zeros(8)])
        if t == 100:
            features[3, 1] = 1e5
        elif t > 120:
            features[:, 1] = rng.normal(size=8)
        query = Query.of(features)
        decision = session.rank(query)
        session.learn(query, decision, Clicks(np.array([int(np.argmax(features[:, 1]))]), np.ones(1)))
    assert session.predict(Query.of([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5]])).tolist() == [0, 2, 1]


def test_a_range_that_grows_is_followed_and_a_few_visitors_cannot_stretch_it() -> None:
    session, rng = robust(margin=0.5), np.random.default_rng(3)
    for t in range(300):
        features = rng.random((5, 2))
        if t % 60 == 59:
            features[0] = 10.0 ** (t / 60)  # slow growth in 5 of 300 lists
        visit(session, features)
    assert max(limits(session)[1]) < 2.0
    for _ in range(100):
        visit(session, 5.0 * rng.random((5, 2)))
    assert min(limits(session)[1]) > 4.0


def test_contexts_have_ranges_too_in_which_0_always_is() -> None:
    learner = build("robust(inner='linear_ucb', margin=0.0)")
    session, rng = Session(learner, Problem(0, n_items=3, n_context=2), 0), np.random.default_rng(4)
    for t in range(60):
        context = np.array([1.0, 3.0 + rng.random() if t % 10 == 0 else 0.0])
        query = Query.of(np.zeros((3, 0)), context)
        session.learn(query, session.rank(query), Reward(1.0))
    assert limits(session)[0] == [0.0, -np.finfo(float).max]  # too few visits with the second one
    query = Query.of(np.zeros((3, 0)), [1e9, 0.0])
    session.learn(query, session.rank(query), Reward(1.0))
    assert session.state.clipped == 1


def test_declared_ranges_hold_from_the_first_list_and_do_not_change() -> None:
    session, rng = robust(ranges=[[0.0, 1.0], []]), np.random.default_rng(5)
    visit(session, np.array([[1e6, 0.0], [0.5, 1.0]]))
    assert session.state.clipped == 1
    for _ in range(30):
        visit(session, 10.0 * rng.random((4, 2)))
    low, high = limits(session)
    assert (low[0], high[0]) == (0.0, 1.0)
    assert high[1] > 5.0


@pytest.mark.parametrize("ranges", [[[1.0, 0.0], []], [[0.0], []], [[0.0, float("inf")], []]])
def test_impossible_ranges_are_refused(ranges: list[list[float]]) -> None:
    with pytest.raises(InvalidInput, match="ranges"):
        robust(ranges=ranges)


def test_ranges_are_as_many_as_features() -> None:
    with pytest.raises(InvalidInput, match="3 ranges for 2 features"):
        robust(ranges=[[], [], []])


@pytest.mark.parametrize("inner", ["online_gradient", "click_regression", "fair_pairs"])
def test_a_step_is_at_most_three_mean_steps(inner: str) -> None:
    session, rng = robust(inner, max_step=3.0), np.random.default_rng(6)
    name = "newest" if hasattr(session.state.inner, "newest") else "weights"
    lengths = list[float]()
    for t in range(60):
        before = session.state
        query = Query.of(rng.random((5, 2)))
        decision = session.rank(query)
        clicked = Clicks(decision.ranking[1:2].copy(), np.full(1, 1e3 if t == 50 else 1.0))
        grades = build("full").observe(decision.ranking, rng.random(5) * (1e3 if t == 50 else 1.0), rng)
        session.learn(query, decision, grades if inner == "online_gradient" else clicked)
        after = session.state
        length = float(np.linalg.norm(getattr(after.inner, name) - getattr(before.inner, name)))
        if t == 50:
            assert length == pytest.approx(3.0 * before.typical_step)
            assert after.capped == before.capped + 1
        lengths += [length] if length else []
        assert after.typical_step == pytest.approx(np.mean(lengths or [0.0]))


@pytest.mark.parametrize("inner", ["click_regression", "newton_pairs"])
def test_an_invented_purchase_moves_the_weights_by_a_quarter_at_most(inner: str) -> None:
    """One of weight 20 had brought the worst of 20 items to the first position, for about 30 visits."""
    session, rng = robust(inner, n_features=4, max_weight=20.0), np.random.default_rng(7)
    features = rng.normal(size=(20, 4))
    by_quality = np.argsort(-features @ [1.0, -0.7, 0.3, 0.0])
    good, worst, query = by_quality[:5], int(by_quality[-1]), Query.of(features)

    def visit_honestly() -> None:
        decision = session.rank(query)
        rates = np.where(np.isin(decision.ranking, good), 0.6, 0.03) / (1.0 + 0.3 * np.arange(20))
        clicked = np.sort(decision.ranking[rng.random(20) < rates])
        session.learn(query, decision, Clicks(clicked, np.ones(len(clicked))))

    for _ in range(300):
        visit_honestly()
    before = session.state
    session.learn(query, session.rank(query), Clicks(np.array([worst]), np.array([20.0])))
    moved = np.linalg.norm(session.state.inner.weights - before.inner.weights)
    longest = max(0.25 * np.linalg.norm(before.inner.weights), 3.0 * before.typical_step)
    assert moved <= longest * (1 + 1e-9)
    for _ in range(3):
        visit_honestly()
    assert worst not in session.predict(query)[:5]


def test_a_shortened_step_of_a_belief_stays_short() -> None:
    """What rankings are drawn from is shortened with the weights, or the next visit would bring the step back."""
    session, rng = robust("linear_thompson", n_features=3), np.random.default_rng(0)
    for visit_number in range(51):
        features, is_bad = rng.normal(size=(10, 3)), visit_number == 50
        query = Query.of(50.0 * features if is_bad else features)
        liked = np.flatnonzero(features[:, 0] < -0.5 if is_bad else features[:, 0] > 0.5)
        session.learn(query, session.rank(query), Clicks(liked, np.full(len(liked), 20.0 if is_bad else 1.0)))
    belief = session.state.inner
    assert session.state.capped >= 1
    assert np.allclose(np.linalg.solve(belief.precision, belief.moment), belief.weights)


def test_a_ranker_is_robust_and_says_its_own_kind() -> None:
    ranker = Ranker("3pr", features=["a", "b"])
    assert isinstance(ranker.session.learner, Robust)
    assert "3pr" in repr(ranker)
    for row in range(20):
        shown = ranker.rank([{"id": i, "a": i / 5, "b": row / 20} for i in range(5)])
        ranker.learn(shown, clicks=[4])
    shown = ranker.rank({"x": {"a": 1e9, "b": 0.0}, "y": {"a": 0.5, "b": 0.0}})
    (part,) = [part for part in ranker.explain(shown, "x").contributions if part.name == "a"]
    assert part.value < 2.0


def test_wrapping_happens_once_and_only_where_it_helps() -> None:
    problem, learner = Problem(2), build("3pr")
    assert with_robust(with_robust(learner, problem), problem) == Robust(inner=learner)
    assert with_robust(build("ftpl"), Problem(0, n_items=3)) == build("ftpl")
    for fixed in (build("given_order"), build("random_order"), build("fixed_weights(weights=[1.0, 2.0])")):
        assert with_robust(fixed, problem, has_users=True) is fixed
    limits_users = build("trusted_memory(inner='click_residuals', by_user=True)")
    assert with_robust(limits_users, Problem(9, n_hashed=8), has_users=True) is limits_users


def test_a_state_without_the_wrapper_goes_on_with_it() -> None:
    plain, wrapped = Session(build("3pr"), Problem(2)), robust("3pr")
    visit(plain, np.array([[0.1, 0.2], [0.4, 0.1]]))
    assert as_robust(wrapped.state, plain.state).inner is plain.state
    assert as_robust(plain.state, plain.state) is plain.state


def voted(session: Session, user: str, query: str, clicked: list[int]) -> int:
    """Let a user click on items of a list; return 1 if the update counted."""
    items = Query.of(np.arange(8.0).reshape(4, 2) / 8.0)._replace(id=query, user=user, item_ids=("a", "b", "c", 4))
    before = session.state.repeated
    session.learn(items, session.rank(items), Clicks(np.array(clicked, np.int64), np.ones(len(clicked))))
    return 1 - (session.state.repeated - before)


def test_a_click_of_a_user_counts_once_per_query_and_for_three_queries() -> None:
    session = robust()
    assert [voted(session, "eve", "shoes", [2]) for _ in range(4)] == [1, 0, 0, 0]
    assert voted(session, "bob", "shoes", [2]) == 1
    assert [voted(session, "eve", f"query {n}", [2]) for n in range(5)] == [1] * (MAX_CLICKS_PER_ITEM - 1) + [0] * 3
    assert [voted(session, "", "shoes", [2]) for _ in range(3)] == [1, 1, 1]  # nobody is known


def test_new_clicks_do_not_carry_repeated_ones_for_ever() -> None:
    session = robust()
    voted(session, "eve", "q", [2])
    weights = []
    for n in range(4):
        assert voted(session, "eve", f"other {n}", [2, n % 2]) == 1
        weights.append(session.state.inner.weights.copy())
    alone = robust()
    decision_free = [voted(alone, "eve", f"other {n}", [n % 2]) for n in range(4)]
    assert decision_free == [1] * 4
    assert not np.array_equal(weights[0], weights[1])
    assert voted(session, "eve", "last", [2]) == 0


def test_a_second_visit_without_a_click_does_not_count() -> None:
    session = robust()
    assert [voted(session, "eve", "q", []) for _ in range(3)] == [1, 0, 0]


def test_votes_are_saved_and_an_old_vote_gives_place() -> None:
    session = robust()
    voted(session, "eve", "q", [1])
    assert voted(loads(dumps(session)), "eve", "q", [1]) == 0
    for n in range(6000):
        voted(session, f"user {n}", "q", [0])
    assert voted(session, "eve", "q", [1]) == 1
