"""An ad policy in service: a fixed set of ads, the visitor in the context, a reward for the ad that was shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.bandits.auc_policy import AUCPolicy
from rankloop.client import Client, Refused
from rankloop.core.learner import Robust
from rankloop.core.saved_session import loads
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query, Reward
from rankloop.service.application.rebuild import replay_records
from rankloop.service.domain import feedback_acceptance
from rankloop.service.records import Ranked
from tests.service.cases import Location, running

ADS = ["shoes", "hats", "coats"]
POLICY = {"kind": "auc_policy", "epsilon": 0.3, "criterion": "click_rate"}
PROBLEM = {"items": ADS, "n_context": 2, "shown": 1}
VISITORS = np.random.default_rng(0).normal(size=(60, 2))


def earned(ad: str, visitor: np.ndarray) -> float:
    """Hats are for those with a large first feature, coats for the others; nobody wants shoes."""
    return float(ad == ("hats" if visitor[0] > 0 else "coats"))


def serve(client: Client, visitors: np.ndarray) -> list[str]:
    shown = []
    for visitor in visitors:
        answer = client.rank("ads", {}, context=visitor.tolist())
        first = str(answer.ranking[0])
        assert client.feedback("ads", answer, reward=earned(first, visitor), final=True).verdict == "closed"
        shown.append(first)
    return shown


def in_python(visitors: np.ndarray) -> tuple[list[str], Session]:
    policy = Robust(inner=AUCPolicy(epsilon=0.3, criterion="click_rate"))
    session = Session(policy, Problem(n_features=0, n_items=3, n_context=2, shown=1), 4)
    shown = []
    for visitor in visitors:
        query = Query.of(np.zeros((3, 0)), visitor)
        decision = session.rank(query)
        shown.append(ADS[decision.ranking[0]])
        session.learn(query, decision, Reward(earned(shown[-1], visitor)))
    return shown, session


def test_it_learns_from_rewards_and_survives_a_restart(location: Location) -> None:
    shown: list[str] = []
    for part in (VISITORS[:25], VISITORS[25:]):
        with running(location) as http, Client(str(http.base_url)) as client:
            client.create("ads", learner=POLICY, problem=PROBLEM, seed=4, snapshot_every=10)
            shown += serve(client, part)
            counts = client.ranker("ads")["counts"]
            saved = loads(http.get("/rankers/ads/state").content)
    assert counts["learned"] == len(VISITORS)
    expected, session = in_python(VISITORS)
    assert shown == expected
    np.testing.assert_array_equal(saved.state.inner.weights, session.state.inner.weights)
    np.testing.assert_array_equal(saved.state.inner.thresholds, session.state.inner.thresholds)
    (result,) = replay_records(location.records())
    assert result.differing == ()
    late = list(zip(shown, VISITORS))[30:]
    assert np.mean([earned(ad, visitor) for ad, visitor in late]) > 0.5  # at random: 1 in 3


def test_other_feedback_is_refused(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as http, Client(str(http.base_url)) as client:
        client.create("ads", learner=POLICY, problem=PROBLEM)
        answer = client.rank("ads", {}, context=[0.0, 1.0])
        with pytest.raises(Refused, match="learns from reward"):
            client.feedback("ads", answer, clicks=["hats"])
        with pytest.raises(Refused, match="2 finite numbers"):
            client.rank("ads", {}, context=[0.0])


def test_a_few_ids_are_found_as_in_the_table_of_all_shown_items() -> None:
    """Of either type, by their keys; an item that was not shown is none of them."""
    ranked = Ranked("a", ["x", 7, "8", "hidden"], b"", order=[2, 0, 1])
    table = {"8": 2, "x": 0, "7": 1}
    for named in (["x", 7], ["7", "x"], [8], ["8"], {"7": 1.0}, ["hidden"], ["x", "nowhere"], [7, "7"], [], 0.5):
        numbers = feedback_acceptance._index_by_id(named, ranked)
        ids = named if isinstance(named, list | dict) else []
        assert [numbers.get(str(id)) for id in ids] == [table.get(str(id)) for id in ids]
    assert feedback_acceptance._index_by_id(["x"], ranked) == {"x": 0}
    assert feedback_acceptance._index_by_id(["hidden"], ranked) == table
