"""Hashed columns: AdaGrad around the inner learner on the columns in sight, and nothing else is touched."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query, Ranker
from rankloop.contracts.cases import _feedback_of, cases_of
from rankloop.core.registry import build, entries
from rankloop.core.session import Session
from rankloop.core.types import Rows
from rankloop.features.hashed_columns import hash_of
from rankloop.learners.wrappers.hashed_weights import UPDATE_COUNTER, Hashed, with_hashed
from tests.feedback import clicks
from tests.sparse_rows import to_array, with_weights

N_HASHED, N_DENSE = 32, 2
PROBLEM = Problem(N_HASHED + N_DENSE, n_hashed=N_HASHED, max_grade=2)
INNERS = [
    "fair_pairs",
    "3pr",
    "pdgd",
    "preference_perceptron",
    "averaged_preference_perceptron",
    "online_gradient",
    "online_gradient(surrogate='slam')",
    "topk_gradient",
    "structured_perceptron",
    "ranking_perceptron",
    "max_pair_perceptron",
    "click_regression",
    "explore_at_most(inner='pdgd', places=1)",
]
SPARSE = [entry for entry in entries("learner") if hasattr(entry.cls, "with_table_entries")]


def random_query(rng, n_items=4, id="", n_dense=N_DENSE, n_hashed=N_HASHED):
    """Rows of distinct columns in no order, some entries falling into one column, some items without any."""
    columns = rng.permutation(n_hashed)[: rng.integers(1, 12)]
    counts = rng.integers(0, 5, n_items)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions = rng.integers(0, len(columns), starts[-1])
    rows = Rows(starts, positions, rng.normal(size=starts[-1]), columns, rng.normal(size=(n_items, n_dense)))
    return Query(id, rows, np.empty(0))


def in_sight(query):
    return np.concatenate([query.features.columns, N_HASHED + np.arange(query.features.dense.shape[1])])


class PlainAdaGrad:
    """The same in plain numpy on whole arrays: gather, let `inner` learn on a dense array, scatter."""

    def __init__(self, wrapper, problem):
        self.wrapper, self.weights, self.squares = wrapper, np.zeros(problem.n_features), np.zeros(problem.n_features)
        self.inner = one_step(wrapper.inner)
        self.state = self.inner.init(problem._replace(n_features=0, n_hashed=0))

    def small(self, query):
        dense = Query(query.id, to_array(query.features), query.context)
        return with_weights(self.state, self.weights[in_sight(query)]), dense

    def learn(self, query, decision, feedback):
        state, dense = self.small(query)
        after, how = self.inner.learn(state, dense, decision, feedback), self.wrapper
        steps = getattr(after, "newest", after.weights) - self.weights[in_sight(query)]
        for column, step in zip(in_sight(query), steps):
            memory = N_HASHED // 2 <= column < N_HASHED
            rate, prior = (
                (how.memory_rate or how.rate, how.memory_prior or how.prior) if memory else (how.rate, how.prior)
            )
            self.squares[column] += step**2
            self.weights[column] += rate * step / np.sqrt(prior + self.squares[column])
        self.state = with_weights(after, np.empty(0))


def one_step(inner):
    if hasattr(inner, "inner"):
        return dataclasses.replace(inner, inner=one_step(inner.inner))
    return dataclasses.replace(inner, learning_rate=1.0) if hasattr(inner, "learning_rate") else inner


def feedback_for(learner, decision, rng):
    return _feedback_of(learner.accepts[int(rng.integers(len(learner.accepts)))], PROBLEM, decision, rng)


@pytest.mark.parametrize("inner", INNERS)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), grouped=st.booleans())
def test_it_is_adagrad_around_the_inner_learner(inner, seed, grouped):
    rng = default_rng(seed)
    groups = {"memory_rate": 0.05, "memory_prior": 3.0} if grouped else {}
    learner = Hashed(inner=build(inner, "learner"), rate=0.4, prior=1.5, **groups)
    state, plain = learner.init(PROBLEM), PlainAdaGrad(learner, PROBLEM)
    for _ in range(6):
        query = random_query(rng)
        small, dense = plain.small(query)
        assert learner.predict(state, query).tolist() == plain.inner.predict(small, dense).tolist()
        decision = learner.rank(state, query, default_rng(seed))
        expected = plain.inner.rank(small, dense, default_rng(seed))
        assert decision.ranking.tolist() == expected.ranking.tolist()
        assert decision.log_propensity == pytest.approx(expected.log_propensity, nan_ok=True)
        assert learner.log_prob(state, query, decision.ranking) == pytest.approx(decision.log_propensity, nan_ok=True)
        feedback = feedback_for(learner, decision, rng)
        state = learner.learn(state, query, decision, feedback)
        plain.learn(query, expected, feedback)
        found = state.table.at(np.arange(PROBLEM.n_features))
        np.testing.assert_allclose(found[:, 0], plain.weights, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[:, 1], plain.squares, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("entry", SPARSE, ids=lambda entry: entry.kind)
def test_a_column_that_is_0_is_neither_read_nor_changed(entry):
    """Dense or sparse: whatever weight it has, rankings, log-probabilities and steps are those without the column."""
    assert len(SPARSE) >= 12
    for case in cases_of(entry):
        learner = without(case.learner, "start", ())
        if getattr(learner, "radius", None) is not None:
            continue  # which bounds all weights together, those of other columns too
        rng = default_rng(1)
        narrow = learner.init(case.problem)
        wide = learner.init(case.problem._replace(n_features=case.problem.n_features + 1))
        for t in range(6):
            query = case.query(4, rng)
            zero = query._replace(features=np.hstack([query.features, np.zeros((query.n_items, 1))]))
            decision = learner.rank(narrow, query, default_rng(t))
            other = learner.rank(wide, zero, default_rng(t))
            assert decision.ranking.tolist() == other.ranking.tolist()
            assert decision.log_propensity == pytest.approx(other.log_propensity, nan_ok=True, abs=1e-12)
            assert learner.predict(narrow, query).tolist() == learner.predict(wide, zero).tolist()
            feedback = _feedback_of(learner.accepts[t % len(learner.accepts)], case.problem, decision, rng)
            narrow = learner.learn(narrow, query, decision, feedback)
            before = wide
            wide = learner.learn(wide, zero, other, feedback)
            for name in ("weights", "newest", "evidence"):
                if hasattr(wide, name):
                    np.testing.assert_allclose(getattr(wide, name)[:-1], getattr(narrow, name), rtol=1e-9, atol=1e-12)
                    if name != "weights" or not hasattr(wide, "newest"):
                        assert getattr(wide, name)[-1] == getattr(before, name)[-1], "the column itself stays"
            if not hasattr(wide, "newest"):
                wide = with_weights(wide, np.append(wide.weights[:-1], rng.normal()))


def without(learner, name, value):
    if hasattr(learner, "inner"):
        return dataclasses.replace(learner, inner=without(learner.inner, name, value))
    return dataclasses.replace(learner, **{name: value})


@pytest.mark.parametrize("inner", [*INNERS, "diagonal_thompson", "diagonal_ucb", "newton_pairs(diagonal=true)"])
def test_only_columns_in_sight_change(inner):
    learner, rng = Hashed(inner=build(inner, "learner")), default_rng(5)
    session = Session(learner, PROBLEM, 1)
    changed = 0
    for _ in range(10):
        query = random_query(rng)
        before = session.state.table
        decision = session.rank(query)
        session.learn(query, decision, feedback_for(learner, decision, rng))
        hidden = np.setdiff1d(np.arange(PROBLEM.n_features), in_sight(query))
        assert session.state.table.at(hidden).tolist() == before.at(hidden).tolist()
        changed += session.state.table != before
    assert changed > 3


def rows_of(*items, n_dense=1):
    """Items as {column: value}."""
    columns = sorted({column for item in items for column in item})
    starts = np.cumsum([0, *map(len, items)])
    positions = np.array([columns.index(column) for item in items for column in item], dtype=np.int64)
    values = np.array([value for item in items for value in item.values()], dtype=float)
    return Query(
        "q", Rows(starts, positions, values, np.array(columns, np.int64), np.zeros((len(items), n_dense))), np.empty(0)
    )


def learned(learner, state, query, item):
    decision = learner.rank(state, query, default_rng(0))
    return learner.learn(state, query, decision, clicks([item]))


# σ(−2) is what an item without weights is expected to be clicked with
EXPECTED = 1 / (1 + np.exp(2.0))


def test_a_step_by_hand():
    problem = Problem(9, n_hashed=8, shown=2)
    learner = Hashed(
        inner="click_regression(learning_rate=5.0, swap=0.0)", rate=0.3, prior=2.0, memory_rate=0.7, memory_prior=4.0
    )
    state = learned(learner, learner.init(problem), rows_of({1: 1.0}, {1: 2.0, 6: 1.0}), 1)
    general = 2.0 * (1 - EXPECTED) - EXPECTED  # the second item was clicked, the first was not
    memory = 1 - EXPECTED
    table = state.table.at(np.array([1, 6, 8]))
    assert table[0] == pytest.approx([0.3 * general / np.sqrt(2.0 + general**2), general**2])
    assert table[1] == pytest.approx([0.7 * memory / np.sqrt(4.0 + memory**2), memory**2])
    assert table[2].tolist() == [0.0, 0.0]


def test_updates_of_one_query_count_less_and_less():
    """1/n by hand: of the general columns only, and per query."""
    problem = Problem(2**12 + 1, n_hashed=2**12)
    learner = Hashed(inner="click_regression(swap=0.0)", by_query=True)
    state, general, memory = learner.init(problem), 5, 2**11 + 5
    weights, squares = np.zeros(2), np.zeros(2)
    offsets, offset_squares = np.full(2, -2.0), np.zeros(2)  # of the two positions, whose steps stay whole
    for n in range(1, 5):
        query = rows_of({general: 1.0}, {memory: 1.0})
        probabilities = 1 / (1 + np.exp(-weights - offsets))
        errors = np.array([1 - probabilities[0], -probabilities[1]])
        steps = errors / [n, 1]
        offset_squares += errors**2
        offsets += 0.3 * errors / np.sqrt(1 + offset_squares)
        squares += steps**2
        weights += 0.3 * steps / np.sqrt(1 + squares)
        state = learned(learner, state, query, 0)
        assert state.table.at(np.array([general, memory]))[:, 0] == pytest.approx(weights)
        counter = np.array([2**11 + hash_of(UPDATE_COUNTER, query.id) % 2**11])
        assert state.table.at(counter).tolist() == [[0.0, float(n)]]
    other = learned(learner, state, query._replace(id="another"), 0)
    step = 1 - 1 / (1 + np.exp(-weights[0] - offsets[0]))
    assert other.table.at(np.array([general]))[0, 0] == pytest.approx(
        weights[0] + 0.3 * step / np.sqrt(1 + squares[0] + step**2)
    )
    assert learned(learner, state, query._replace(id=""), 0).table.at(np.array([general]))[0, 0] == pytest.approx(
        other.table.at(np.array([general]))[0, 0]
    )


def test_a_column_that_counts_keeps_its_weight():
    """Hashes collide: the column of a query's updates may be that of an id, whose weight is not to be lost."""
    problem = Problem(4, n_hashed=4)
    learner = Hashed(inner="click_regression", by_query=True)
    query = rows_of({0: 1.0}, {1: 1.0}, n_dense=0)
    state = learner.init(problem)
    counter = np.array([2 + hash_of(UPDATE_COUNTER, query.id) % 2])
    state = state._replace(table=state.table.patched(counter, np.array([[0.25, 3.0]])))
    after = learned(learner, state, query, 0)
    assert after.table.at(counter).tolist() == [[0.25, 4.0]]


def test_learning_from_an_older_state_forks():
    learner, rng = Hashed(inner="click_regression"), default_rng(0)
    first = learner.init(PROBLEM)
    queries = [random_query(rng) for _ in range(6)]
    states = [first]
    for query in queries:
        states.append(learned(learner, states[-1], query, 1))
    again = first
    for query, expected in zip(queries, states[1:]):
        again = learned(learner, again, query, 1)
        assert again.table == expected.table
    fork = learned(learner, states[2], queries[2], 1)
    assert fork.table == states[3].table
    assert states[-1].table == again.table


def test_an_empty_update_copies_nothing():
    for inner in ("fair_pairs", "preference_perceptron", "pdgd"):
        learner = Hashed(inner=inner, by_query=True)
        query = random_query(default_rng(0), id="q")
        state = learner.init(PROBLEM)
        decision = learner.rank(state, query, default_rng(0))
        assert learner.learn(state, query, decision, clicks([])).table is state.table


def test_a_narrower_block_is_that_of_an_older_schema():
    learner, rng = Hashed(inner="click_regression"), default_rng(0)
    session = Session(learner, PROBLEM, 0)
    query = random_query(rng, n_dense=1)
    session.learn(query, session.rank(query), clicks([0]))
    assert session.state.table.at(np.array([N_HASHED + 1])).tolist() == [[0.0, 0.0]]
    assert session.state.table.at(np.array([N_HASHED]))[0, 1] > 0
    with pytest.raises(InvalidInput, match="the query has 3 numbers per item, the problem 2"):
        session.rank(random_query(rng, n_dense=3))


def test_the_start_is_that_of_the_block():
    state = Hashed(inner="pdgd", start=(0.5, -1.0)).init(PROBLEM)
    assert state.table.used()[0].tolist() == [N_HASHED, N_HASHED + 1]
    assert state.table.at(np.array([N_HASHED, N_HASHED + 1])).tolist() == [[0.5, 0.0], [-1.0, 0.0]]
    with pytest.raises(InvalidInput, match="start"):
        Hashed(inner="pdgd", start=(0.5, 1.0, 2.0)).init(PROBLEM)


def test_steps_that_overflow_are_refused():
    learner = Hashed(inner="preference_perceptron")
    query = rows_of({1: 1e200}, {2: 1e200})
    session = Session(learner, Problem(9, n_hashed=8), 0)
    decision = session.rank(query)
    with pytest.raises(ArithmeticError):
        session.learn(query, decision, clicks(decision.ranking[1:]))
    assert session.refused == 1
    assert session.state.table.used()[0].tolist() == []


@pytest.mark.parametrize("kind", ["dbgd", "mgd", "kernel_perceptron", "linear_thompson", "standardised(inner='pdgd')"])
def test_who_cannot_says_so(kind):
    name = kind.split("(")[0]
    for make in (lambda: Hashed(inner=kind), lambda: Ranker(kind, features={"a": "category"})):
        with pytest.raises(InvalidInput, match=f"{name} needs a number for every feature of every item"):
            make()


def test_every_learner_can_or_says_so():
    """Found by walking the registry: whoever needs all columns is refused in words, not by an error of the kernels."""
    for entry in entries("learner"):
        for case in cases_of(entry)[:1]:
            if entry.kind == "hashed":
                assert with_hashed(case.learner) is case.learner
                continue
            try:
                hashed = Hashed(inner=case.learner)
            except InvalidInput as error:
                refused = str(error)
            else:
                refused = ""
            if refused:
                assert re.search("needs a number for every feature|radius|matrix", refused)
                continue
            session = Session(hashed, PROBLEM._replace(max_grade=case.problem.max_grade), 0)
            session.rank(random_query(default_rng(0)))


def test_a_radius_is_refused():
    with pytest.raises(InvalidInput, match="radius"):
        Hashed(inner="online_gradient(radius=1.0)")


@pytest.mark.parametrize(
    "parameters",
    [{"rate": 0.0}, {"prior": -1.0}, {"memory_rate": float("inf")}, {"memory_prior": 0.0}, {"start": (float("nan"),)}],
)
def test_bad_parameters(parameters):
    with pytest.raises(InvalidInput, match=next(iter(parameters))):
        Hashed(inner="pdgd", **parameters)
