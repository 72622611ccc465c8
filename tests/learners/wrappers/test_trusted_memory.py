"""Trusted memory: what memory foretells is an examination, and its score counts by the mark that it gets."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.core.registry import build
from rankloop.core.types import Rows
from rankloop.learners.wrappers.hashed_weights import Hashed
from rankloop.learners.wrappers.trusted_memory import TrustedMemory, _agreement
from tests.feedback import clicks

N_HASHED = 2**12
MEMORY = N_HASHED // 2  # the columns from here on are memory
PROBLEM = Problem(N_HASHED, n_hashed=N_HASHED)
RESIDUALS = build("click_residuals(below=1, rate=0.5)", "learner")


def query_of(columns):
    """One item for each of these columns, which has nothing else."""
    n = len(columns)
    return Query(
        "q", Rows(np.arange(n + 1), np.arange(n), np.ones(n), np.array(columns), np.empty((n, 0))), np.empty(0)
    )


def learned(learner, state, query, ranking, clicked):
    decision = learner.rank(state, query, default_rng(0))._replace(ranking=np.array(ranking))
    return learner.learn(state, query, decision, clicks(clicked))


def weights_of(state):
    return state.table.at(np.arange(N_HASHED))[:, 0]


def test_two_updates_by_hand():
    """Item 0 is in the first column of memory, item 1 in column 0. Clicks have the residuals +½ and −½ at first."""
    learner = TrustedMemory(inner=RESIDUALS, rate=1.0, full_trust_t=6.0, span=10)
    query, state = query_of([MEMORY, 0]), learner.init(PROBLEM)
    assert learner.trust(state) == 1.0
    state = learned(learner, state, query, [0, 1], [0])
    assert (state.agreement, state.squares) == (0.0, 0.0)  # memory was empty, so it had predicted nothing
    step = 0.5 / math.sqrt(1 + 0.25)
    assert weights_of(state)[[MEMORY, 0]].tolist() == pytest.approx([step, -step])
    state = learned(learner, state, query, [0, 1], [])
    assert state.agreement == pytest.approx(-step / (step + 1.0))  # item 0 alone was read, and not clicked
    assert state.squares == pytest.approx(state.agreement**2)
    share = (math.sqrt(0.7) + state.agreement / 6) / math.sqrt(0.7 + state.squares)
    assert learner.trust(state) == pytest.approx((1 - 0.25 / share**2) / 0.75)
    assert learner.trust(state) < 1


HALF = (1 - 0.25 / 0.64) / 0.75  # trust at 0.8 of the statistic of full trust


@pytest.mark.parametrize(
    ("agreement", "squares", "trust"),
    [(0, 0, 1), (-1.2, 0, HALF), (-3, 0, 0), (-9, 0, 0), (60, 99, 1), (42, 99, HALF)],
)
def test_trust_takes_off_the_share_of_a_statistic_that_chance_explains(agreement, squares, trust):
    """With u = (6 + Σ a) / √(1 + Σ a²) / 6, trust is (1 − 0.25 / u²) / 0.75."""
    learner = TrustedMemory(inner=RESIDUALS, trust_prior=1.0)
    state = learner.init(PROBLEM)._replace(agreement=float(agreement), squares=float(squares))
    assert learner.trust(state) == pytest.approx(trust)


def test_sums_forget():
    learner = TrustedMemory(inner=RESIDUALS, span=4)
    state = learner.init(PROBLEM)._replace(agreement=-8.0, squares=16.0)
    after = learned(learner, state, query_of([0, 1]), [0, 1], [0])
    assert (after.agreement, after.squares) == (-6.0, 12.0)


def test_only_the_score_of_memory_is_multiplied():
    """Little trust turns a lead of memory into a lead of the other weights; what is remembered stays as it is."""
    learner = TrustedMemory(inner=RESIDUALS)
    state = learner.init(PROBLEM)
    table = state.table.patched(np.array([MEMORY, 0]), np.array([[3.0, 0.0], [2.5, 0.0]]))
    sure, doubtful = state._replace(table=table), state._replace(table=table, agreement=-2.0)
    query = query_of([MEMORY, 0])
    assert 0.3 < learner.trust(doubtful) < 0.7
    assert learner.predict(sure, query).tolist() == [0, 1]
    assert learner.predict(doubtful, query).tolist() == [1, 0]
    assert weights_of(doubtful)[MEMORY] == 3.0


def test_with_full_trust_it_is_hashed():
    ours, plain = TrustedMemory(inner=RESIDUALS), Hashed(inner=RESIDUALS)
    state, same, rng = ours.init(PROBLEM), plain.init(PROBLEM), default_rng(0)
    for _ in range(30):
        query, clicked = query_of(MEMORY + rng.permutation(16)[:4] - 8), rng.permutation(4)[:1].tolist()
        ranking = ours.predict(state._replace(agreement=1e6), query)
        np.testing.assert_array_equal(ranking, plain.predict(same, query))
        state = learned(ours, state._replace(agreement=1e6), query, ranking, clicked)
        same = learned(plain, same, query, ranking, clicked)
    np.testing.assert_array_equal(weights_of(state), weights_of(same))


def test_sums_that_share_a_column_with_memory_leave_its_weight():
    learner, problem = TrustedMemory(inner=RESIDUALS), Problem(4, n_hashed=4)  # two columns of memory
    state, query = learner.init(problem), query_of([0, 1])
    state = state._replace(table=state.table.patched(np.array([2, 3]), np.array([[1.5, 0.0], [-1.5, 0.0]])))
    state = learned(learner, state, query, [0, 1], [1])
    assert state.table.at(np.array([2, 3]))[:, 0].tolist() == [1.5, -1.5]


def trust_after(clicked_of, n=3_000):
    """Trust after n updates from 4 items of which the ranking shows all; a seed of its own for users."""
    learner, rng = TrustedMemory(inner=build("click_residuals(below=4)", "learner"), memory_rate=0.5), default_rng(1)
    state, query, least = learner.init(PROBLEM), query_of(MEMORY + np.arange(4)), 1.0
    for _ in range(n):
        ranking = learner.rank(state, query, rng).ranking
        state = learned(learner, state, query, ranking, clicked_of(ranking, rng))
        least = min(least, learner.trust(state))
    return learner.trust(state), least


def test_memory_that_is_right_keeps_its_trust():
    last, _ = trust_after(lambda ranking, rng: [2] if rng.random() < 0.8 else [])
    assert last == 1.0


def test_memory_of_random_clicks_loses_it():
    _, least = trust_after(lambda ranking, rng: [int(ranking[rng.integers(4)])])
    assert least == 0.0


def test_a_learner_with_evidence_of_its_own_is_refused():
    with pytest.raises(InvalidInput, match="diagonal_thompson has step sizes of its own"):
        TrustedMemory(inner=build("diagonal_thompson", "learner"))
    with pytest.raises(InvalidInput, match="full_trust_t"):
        TrustedMemory(inner=RESIDUALS, full_trust_t=0.0)


def test_a_user_who_contradicts_memory_counts_less():
    """Trust is 1 + Σ a / √(prior + Σ |a|) / user_distrust_t."""
    learner = TrustedMemory(inner=RESIDUALS, by_user=True, user_prior=1.0, user_distrust_t=2.0)
    assert learner._user_trust(5.0, 0.0) == learner._user_trust(0.0, 0.0) == 1.0
    assert learner._user_trust(0.0, 3.0) == pytest.approx(1.0 - 3.0 / 2.0 / 2.0)
    assert learner._user_trust(0.0, 50.0) == 0.0
    query = query_of([MEMORY + i for i in range(4)])
    state = learner.init(PROBLEM)
    for i in range(20):  # many users click the first two items
        state = learned(learner, state, query._replace(user=f"honest {i}"), [0, 1, 2, 3], [0, 1])
    before = state.table.at(query.features.columns)[:, 0]
    for _ in range(30):  # one user clicks the last two, again and again
        state = learned(learner, state, query._replace(user="spam", id="q"), [0, 1, 2, 3], [2, 3])
    after = state.table.at(query.features.columns)[:, 0]
    assert after[:2].min() > after[2:].max()  # still in front
    plain = TrustedMemory(inner=RESIDUALS)
    state = plain.init(PROBLEM)._replace(
        table=state.table.patched(query.features.columns, np.column_stack([before, before**2]))
    )
    for _ in range(30):
        state = learned(plain, state, query, [0, 1, 2, 3], [2, 3])
    spammed = state.table.at(query.features.columns)[:, 0]
    assert np.abs(after - before).max() < 0.5 * np.abs(spammed - before).max()


@pytest.mark.parametrize(("clicked", "rate"), [([1, 0, 1, 0], 0.3), ([0, 0, 0, 0], 0.5), ([0, 1, 0, 0], 0.1)])
def test_agreement_is_the_cosine_of_memory_and_surplus_clicks(clicked, rate):
    """s / (s + 1) · Σ m (c − r) / √(Σ m² · Σ (c − r)²) over the items down to the last click and one more."""
    memory, ranking = np.array([2.0, -1.0, 0.5, 3.0]), np.array([3, 0, 2, 1])
    chosen = np.array(clicked, float)[ranking]
    end = min(np.flatnonzero(chosen).max(initial=-1) + 2, 4)
    m, c = memory[ranking][:end], chosen[:end] - rate
    size = np.sqrt((m**2).mean())
    expected = size / (size + 1.0) * (m @ c) / np.sqrt((m @ m) * (c @ c))
    opinion, n_clicked, n_read = _agreement(memory, np.array(clicked, float), ranking, rate)
    assert opinion == pytest.approx(expected)
    assert (n_clicked, n_read) == (sum(clicked), end)
    assert _agreement(np.zeros(4), np.array(clicked, float), ranking, rate)[0] == 0.0


def test_leaving_a_list_of_liked_items_contradicts_memory():
    memory, ranking = np.array([2.0, 2.0, 2.0]), np.arange(3)
    stay, _, _ = _agreement(memory, np.ones(3), ranking, 0.6)
    leave, _, _ = _agreement(memory, np.zeros(3), ranking, 0.6)
    assert stay > 0.0 > leave


def test_later_updates_of_a_user_from_one_query_count_less():
    learner = TrustedMemory(inner=RESIDUALS, by_user=True)
    query = query_of([MEMORY, MEMORY + 1])._replace(user="u")
    state, weights = learner.init(PROBLEM), [0.0]
    for _ in range(8):
        state = learned(learner, state, query, [0, 1], [0])
        weights.append(state.table.at(query.features.columns)[0, 1] ** 0.5)
    squares = np.diff(np.square(weights))  # of the steps
    assert squares[6] < squares[0] * (3.0 / 7.0) ** 2 * 1.5
    other = learned(learner, state, query._replace(user="v"), [0, 1], [0])
    assert other.table.at(query.features.columns)[0, 1] - state.table.at(query.features.columns)[0, 1] > squares[6]
