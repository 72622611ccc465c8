"""Tests of the simulation loop."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

from rankloop import InvalidInput, Problem, Query, Relevances, Session, build, play
from rankloop.core.session import generators


@dataclass(frozen=True)
class Coins:
    """Six items, two features, grades that a coin decides."""

    scale: float = 1.0

    @property
    def problem(self):
        return Problem(n_features=2)

    def rounds(self, rng):
        while True:
            features = rng.random((6, 2)) * self.scale
            yield Query("", features, np.zeros(0)), np.floor(2 * rng.random(6))


FULL = build("full", "feedback")
LEARNER = build("online_gradient")


def test_play_is_the_session_in_a_loop():
    of_stream, of_users, _, _ = generators(9)
    session = Session(LEARNER, Coins().problem._replace(shown=FULL.shown, depth=FULL.depth), 9)
    rounds = islice(Coins().rounds(of_stream), 40)
    for played, (query, relevance) in zip(play(LEARNER, Coins(), FULL, horizon=40, seed=9), rounds, strict=True):
        assert played.query.features.tolist() == query.features.tolist()
        assert played.state.weights.tolist() == session.state.weights.tolist()
        decision = session.rank(query)
        session.learn(query, decision, FULL.observe(decision.ranking, relevance, of_users))
        assert played.decision.ranking.tolist() == decision.ranking.tolist()
        assert played.learned.weights.tolist() == session.state.weights.tolist()
        assert isinstance(played.feedback, Relevances)
        assert len(played.arrived) == 1
    assert played.t == 39


def test_two_learners_meet_the_same_queries():
    one = play(LEARNER, Coins(), FULL, horizon=20, seed=1)
    two = play(build("random_order"), Coins(), FULL, horizon=20, seed=1)
    for a, b in zip(one, two, strict=True):
        assert a.query.features.tolist() == b.query.features.tolist()
        assert a.relevance.tolist() == b.relevance.tolist()


def test_the_problem_says_what_people_see():
    (first,) = play(build("random_order"), Coins(), build("top_k(depth=2)", "feedback"), horizon=1, seed=0)
    assert len(first.feedback.items) == 2


def test_an_unstable_round_is_passed_over():
    with np.errstate(all="ignore"):
        rounds = list(play(build("online_gradient(surrogate='squared')"), Coins(1e200), FULL, horizon=5, seed=0))
    assert len(rounds) == 5
    assert np.all(np.isfinite(rounds[-1].learned.weights))


@dataclass(frozen=True)
class Spiteful:
    """Whatever is shown first is worthless."""

    @property
    def problem(self):
        return Problem(n_features=0, n_items=3)

    def rounds(self, rng):
        def relevance(ranking):
            grades = np.ones(3)
            grades[ranking[0]] = 0.0
            return grades

        while True:
            yield Query("", np.zeros((3, 0)), np.zeros(0)), relevance


def test_an_adaptive_adversary_sees_the_shown_ranking():
    for played in play(build("random_order"), Spiteful(), FULL, horizon=10, seed=0):
        assert played.relevance[played.decision.ranking[0]] == 0.0
        assert played.feedback.grades[0] == 0.0


def test_a_negative_horizon_is_refused():
    with pytest.raises(InvalidInput, match="horizon"):
        play(LEARNER, Coins(), FULL, horizon=-1, seed=0)


def arrivals(spec, horizon=200):
    rounds = play(LEARNER, Coins(), FULL, horizon=horizon, seed=2, delivery=build(spec, "delivery"))
    sent, received = {}, []
    for played in rounds:
        sent[id(played.decision)] = (played.t, played.decision)
        received += [(played.t, *sent[id(arrival.decision)]) for arrival in played.arrived]
    return received


def test_late_feedback_arrives_within_its_bound_and_out_of_order():
    delays = [now - then for now, then, _ in arrivals("late(rounds=5)")]
    assert set(delays) == {1, 2, 3, 4, 5}
    asked = [then for _, then, _ in arrivals("late(rounds=5)")]
    assert asked != sorted(asked)
    assert [now - then for now, then, _ in arrivals("late(rounds=0)")] == [0] * 200


def test_lost_feedback_never_arrives():
    assert arrivals("lost(share=1.0)") == []
    kept = len(arrivals("lost(share=0.3)", horizon=1000))
    assert abs(kept - 700) < 4 * np.sqrt(1000 * 0.3 * 0.7)


def test_repeated_feedback_arrives_twice():
    asked = [then for _, then, _ in arrivals("repeated(share=1.0)", horizon=50)]
    assert all(asked.count(t) == 2 for t in range(49))


@pytest.mark.parametrize("spec", ["late(rounds=-1)", "late(share=2.0)", "lost(share=-0.1)", "repeated(share=1.5)"])
def test_impossible_deliveries_are_refused(spec):
    with pytest.raises(InvalidInput):
        build(spec, "delivery")


def test_refused_updates_are_counted_in_the_rounds():
    wild = build({"kind": "online_gradient", "surrogate": "squared", "learning_rate": 1e200})
    rounds = list(play(wild, Coins(), FULL, horizon=5, seed=0))
    assert [played.refused for played in rounds] == [0, 1, 2, 3, 4]
    assert all(played.learned is played.state for played in rounds[1:])
