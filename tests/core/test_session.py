"""Tests of sessions."""

from dataclasses import dataclass
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import pytest

from rankloop import (
    Clicks,
    Decision,
    IncompatibleFeedback,
    InvalidInput,
    Preferred,
    Problem,
    Query,
    Relevances,
    Reward,
    Session,
    UnstableUpdate,
    build,
)
from rankloop.core.learner import require_finite
from rankloop.core.session import generators


class Sums(NamedTuple):
    total: Any
    rounds: int


@dataclass(frozen=True)
class Summing:
    """Adds up whatever comes back; random rankings."""

    accepts = (Relevances, Clicks, Preferred, Reward)
    reports = ()

    def init(self, problem):
        return Sums(np.zeros(1), 0)

    def rank(self, state, query, rng) -> Decision[tuple[()]]:
        return Decision(np.argsort(rng.random(len(query.features)), kind="stable"), float("nan"), ())

    def learn(self, state, query, decision, feedback):
        amount = feedback.value if isinstance(feedback, Reward) else 1.0
        if amount == 7.0:
            return 1 // 0
        return Sums(require_finite(state.total + amount), state.rounds + 1)

    def predict(self, state, query):
        return np.arange(len(query.features))

    def log_prob(self, state, query, ranking):
        return float("nan")


PROBLEM = Problem(n_features=2, shown=3, depth=2)
QUERY = Query.of(np.eye(5, 2))


@pytest.fixture
def session():
    return Session(Summing(), PROBLEM, seed=3)


def test_the_seed_decides_the_rankings_and_the_learner_has_draws_of_its_own():
    one, two = Session(Summing(), PROBLEM, 3), Session(Summing(), PROBLEM, 3)
    third = generators(3)[2]
    for _ in range(5):
        ranking = one.rank(QUERY).ranking
        assert ranking.tolist() == two.rank(QUERY).ranking.tolist()
        assert ranking.tolist() == np.argsort(third.random(5), kind="stable").tolist()
    assert len({tuple(g.random(3)) for g in generators(3)}) == 4


def test_good_feedback_of_every_kind_is_learned(session):
    decision = session.rank(QUERY)
    top = decision.ranking
    for feedback in (
        Relevances(top[:2], np.array([1.0, 0.0])),
        Relevances(top[[1, 0]], np.array([1.0, -1.0])),
        Clicks(top[2:3], np.array([2.5])),
        Clicks(top[:0], np.zeros(0)),
        Preferred(top[::-1].copy()),
        Reward(0.5),
    ):
        session.learn(QUERY, decision, feedback)
    assert session.state.rounds == session.learned == 6


def bad_feedback(top):
    nothing = np.zeros(0)
    return {
        "a click below the shown part": Clicks(top[3:4], np.ones(1)),
        "the same click twice": Clicks(top[[0, 0]], np.ones(2)),
        "an item that is not there": Clicks(np.array([9]), np.ones(1)),
        "a negative item": Clicks(np.array([-1]), np.ones(1)),
        "a weight that is no number": Clicks(top[:1], np.array([np.nan])),
        "an infinite weight": Clicks(top[:1], np.array([np.inf])),
        "a negative weight": Clicks(top[:1], np.array([-1.0])),
        "fewer weights than items": Clicks(top[:2], np.ones(1)),
        "items that are not whole": Clicks(np.array([0.5]), np.ones(1)),
        "weights in a table": Clicks(top[:1], np.ones((1, 1))),
        "weights that are words": Clicks(top[:1], np.array(["x"])),
        "too few grades": Relevances(top[:1], np.ones(1)),
        "too many grades": Relevances(top[:3], np.ones(3)),
        "grades of other items": Relevances(top[1:3], np.ones(2)),
        "no grades": Relevances(top[:0], nothing),
        "a grade that is no number": Relevances(top[:2], np.array([0.0, np.nan])),
        "a preferred order with a gap": Preferred(np.array([0, 1, 2, 3, 3])),
        "a preferred order too short": Preferred(np.array([0, 1])),
        "a preferred order too long": Preferred(np.arange(6)),
        "an infinite reward": Reward(float("inf")),
    }


@pytest.mark.parametrize("name", bad_feedback(np.arange(5)))
def test_bad_feedback_is_refused_and_changes_nothing(session, name):
    decision = session.rank(QUERY)
    before = session.state
    with pytest.raises(IncompatibleFeedback):
        session.learn(QUERY, decision, bad_feedback(decision.ranking)[name])
    assert session.state is before
    assert session.learned == session.refused == 0


@pytest.mark.parametrize("ranking", [[0, 1, 2, 3, 3], [0, 1], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 99]])
def test_a_decision_that_does_not_fit_the_query_is_refused(session, ranking):
    for feedback in (Reward(1.0), Clicks(np.array([0]), np.ones(1)), Preferred(np.arange(5))):
        with pytest.raises(IncompatibleFeedback):
            session.learn(QUERY, Decision(np.array(ranking), 0.0, ()), feedback)


def test_feedback_that_the_learner_does_not_accept_is_refused():
    session = Session(build("online_gradient"), PROBLEM, 0)
    with pytest.raises(IncompatibleFeedback, match="learns from Relevances, not from Clicks"):
        session.learn(QUERY, session.rank(QUERY), Clicks(np.array([0]), np.ones(1)))


@pytest.mark.parametrize("value", [1e308, 7.0])
def test_an_unstable_update_is_refused_counted_and_the_old_state_stands(session, value):
    decision = session.rank(QUERY)
    session.learn(QUERY, decision, Reward(1.7e308))
    before = session.state
    with pytest.raises(UnstableUpdate), np.errstate(over="ignore"):
        session.learn(QUERY, decision, Reward(value))
    assert session.state is before
    assert (session.learned, session.refused) == (1, 1)
    session.learn(QUERY, decision, Reward(-1.0))
    assert session.learned == 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query.of(np.ones((3, 4))), "4 features per item, the problem 2"),
        (Query.of(np.ones((0, 2))), "no items"),
        (Query.of(np.ones((3, 2)), context=[1.0]), "1 context features, the problem 0"),
    ],
)
def test_a_query_of_another_shape_is_refused(session, query, message):
    for use in (session.rank, session.predict):
        with pytest.raises(InvalidInput, match=message):
            use(query)


def test_a_fixed_set_keeps_its_size():
    session = Session(Summing(), Problem(n_features=0, n_items=3), 0)
    with pytest.raises(InvalidInput, match="4 items, the fixed set 3"):
        session.rank(Query.of(np.zeros((4, 0))))


def test_the_probability_of_what_is_no_ranking_is_refused(session):
    with pytest.raises(InvalidInput, match="permutation"):
        session.log_prob(QUERY, np.array([0, 0, 1, 2, 3]))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(n_features=-1),
        Problem(n_features=2, depth=0),
        Problem(n_features=2, shown=0),
        Problem(n_features=0, n_items=0),
        Problem(n_features=2, feature_names=("a",)),
        Problem(n_features=2.5),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(problem):
    with pytest.raises(InvalidInput):
        Session(Summing(), problem, 0)


def test_eight_threads_lose_no_update():
    session = Session(Summing(), PROBLEM, 0)
    n_threads, n_rounds = 8, 400
    failures = []

    def use():
        try:
            for _ in range(n_rounds):
                decision = session.rank(QUERY)
                assert sorted(decision.ranking) == list(range(5))
                session.learn(QUERY, decision, Reward(1.0))
                session.predict(QUERY)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=use) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert session.state.rounds == session.learned == n_threads * n_rounds
    assert session.state.total[0] == n_threads * n_rounds
    drawn = generators(0)[2]
    drawn.random(n_threads * n_rounds * 5)  # every draw was handed out exactly once
    assert session.snapshot()[1] == drawn.bit_generator.state


@pytest.mark.parametrize("kind", ["3pr", "fair_pairs", "pdgd", "dbgd"])
def test_a_receipt_that_the_learner_did_not_hand_out_is_refused(kind):
    session, query = Session(build(kind, "learner"), Problem(n_features=1)), Query.of([[0.0], [1.0], [2.0]])
    decision = session.rank(query)
    clicked = Clicks(decision.ranking[:1], np.ones(1))
    parts = (part.tolist() if isinstance(part, np.ndarray) else part for part in decision.receipt)
    for receipt in ((), None, [1], type(decision.receipt)(*parts)):
        with pytest.raises(IncompatibleFeedback, match="is not a receipt of this learner"):
            session.learn(query, decision._replace(receipt=receipt), clicked)
    session.learn(query, decision, clicked)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("learner", ["ftpl(epsilon=5e-324)", "linear_thompson(prior=1e200)"])
def test_a_first_state_that_is_not_finite_is_refused(learner):
    with pytest.raises(InvalidInput):
        Session(build(learner, "learner"), Problem(n_features=2, n_items=3))
