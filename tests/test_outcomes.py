"""Declared outcomes: weights, windows, caps, and which learners can learn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop import Ranker
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Problem, Query
from rankloop.outcomes import DeclaredOutcome, DeclaredOutcomes, declared_outcomes

PAGE = {"a": {"price": 0.1}, "b": {"price": 0.5}, "c": {"price": 0.9}}
SOLD = {"purchase": {"weight": 20, "window": "7d"}}


def test_windows_are_seconds_or_texts() -> None:
    plain = {"a": {}, "b": {"window": "12h"}, "c": {"window": 90, "weight": 0}, "d": {"window": "1.5m"}}
    windows = {name: outcome.window for name, outcome in declared_outcomes(plain).items()}
    assert windows == {"a": 7 * 86400.0, "b": 43200.0, "c": 90.0, "d": 90.0}


@pytest.mark.parametrize("window", ["7", "d", "-1d", 0, "91d", None, "1w", float("nan")])
def test_other_windows_are_refused(window: object) -> None:
    with pytest.raises(InvalidInput, match=r"outcomes\.purchase\.window"):
        declared_outcomes({"purchase": {"window": window}})


@pytest.mark.parametrize("weight", ["20", None, True, -1, float("nan"), 1e7, [20], {"of": 20}])
def test_other_weights_are_refused(weight: object) -> None:
    with pytest.raises(InvalidInput, match=r"outcomes\.purchase\.weight"):
        declared_outcomes({"purchase": {"weight": weight}})


def test_outcomes_add_up_to_a_limit() -> None:
    outcomes = DeclaredOutcomes(purchase=DeclaredOutcome(30.0, 1.0), revenue=DeclaredOutcome(0.5, 1.0))
    values = {"purchase": {"a": 1.0, "b": 4.0}, "revenue": {"a": 10.0, "c": 1e9, "d": 0.0}}
    # One purchase is the declared 30, though it is above the limit; four are not 120, and money ends at the limit.
    assert outcomes.weights(values, 20.0) == {"a": 35.0, "b": 30.0, "c": 20.0}


@pytest.mark.parametrize("kind", ["3pr", "fair_pairs", "newton_pairs", "pairrank", "pdgd", "click_regression"])
def test_learners_that_weigh_clicks_learn_more_from_heavier_ones(kind: str) -> None:
    assert from_layers(build(kind, "learner"), "weighs_clicks")
    query, moved = Query.of([[0.0], [1.0], [2.0], [3.0]]), []
    for weight in (1.0, 3.0):
        steps = 0.0  # of the first update, over several draws: a pair with two or no clicks teaches nothing
        for seed in range(8):
            session = Session(build(kind, "learner"), Problem(n_features=1), seed)
            decision = session.rank(query)
            state = session.learn(query, decision, Clicks(decision.ranking[1:2], np.array([weight])))
            steps += abs(float(state.weights[0]))
        moved.append(steps)
    assert moved[1] > 1.5 * moved[0] > 0


def test_learners_that_take_all_clicks_as_equal_are_refused() -> None:
    for kind in ("preference_perceptron", "online_gradient", "random_order"):
        with pytest.raises(InvalidInput, match="click_regression"):
            Ranker(kind, features=["price"], outcomes=SOLD)
    Ranker("online_gradient", features=["price"], outcomes={"purchase": {"weight": 0}})


def test_a_purchase_counts_as_declared_also_when_it_comes_later() -> None:
    rankers = {name: Ranker("newton_pairs", features=["price"], outcomes=SOLD, seed=4) for name in ("at_once", "later")}
    clicked = Ranker("newton_pairs", features=["price"], seed=4)
    for _ in range(5):
        at_once, later, unsold = (each.rank(PAGE) for each in (*rankers.values(), clicked))
        rankers["at_once"].learn(at_once, clicks=["c"], outcomes={"purchase": {"c": 1}})
        rankers["later"].learn(later, clicks=["c"])
        rankers["later"].learn(later, outcomes={"purchase": {"c": 1}})
        clicked.learn(unsold, clicks=["c"])
    weights = [each.weights["price"] for each in (*rankers.values(), clicked)]
    assert weights[0] > 2 * weights[2]
    assert weights[1] > 2 * weights[2]
    assert all(each.predict(PAGE) == ["c", "b", "a"] for each in rankers.values())


def test_a_rare_purchase_is_not_cut_down_to_a_few_clicks() -> None:
    """Steps are capped at three times the usual one, but a declared weight is no mistake."""
    steps = {}
    for name, outcomes in (("declared", SOLD), ("not declared", {})):
        ranker = Ranker("pdgd", features=["price"], outcomes=outcomes, seed=1)
        for _ in range(30):
            ranker.learn(ranker.rank(PAGE), clicks=["b"])
        before, shown = ranker.weights["price"], ranker.rank(PAGE)
        if outcomes:
            ranker.learn(shown, outcomes={"purchase": {"c": 1}})
        else:
            ranker.learn(shown, clicks={"c": 20.0})
        steps[name] = abs(ranker.weights["price"] - before)
    assert steps["declared"] > 2 * steps["not declared"] > 0


def test_outcomes_are_saved_and_checked(tmp_path: Path) -> None:
    ranker = Ranker("click_regression", features=["price"], outcomes=SOLD)
    ranker.save(tmp_path / "shop.rankloop")
    loaded = Ranker.load(tmp_path / "shop.rankloop")
    assert loaded.outcomes == {"purchase": DeclaredOutcome(20.0, 7 * 86400.0)}
    shown = loaded.rank(PAGE)
    for outcomes, reason in (({"refund": {"a": 1}}, "refund"), ({"purchase": {"z": 1}}, "z"), ({"purchase": 1}, "id")):
        with pytest.raises(InvalidInput, match=reason):
            loaded.learn(shown, outcomes=outcomes)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="shwon"):
        Ranker("3pr", features=["price"], shwon=3)  # type: ignore[call-arg]
