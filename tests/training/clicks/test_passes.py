"""A ranker with a schema from logged lists: it finds what people like, chooses its passes, and keeps its names."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import Ranker
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import from_layers
from rankloop.features import Schema
from rankloop.logs.list_log import ShownList
from rankloop.training.clicks.passes import OnlinePasses
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import _train_on_lists

SCHEMA = Schema({"brand": "category", "price": "number"}, {"segment": "category"}, ("segment*brand",), bits=10)
EXAMINED = [1.0, 0.6, 0.4, 0.3]
BRANDS = ["acme", "bolt", "cora", "dune"]


def liked(segment: str, brand: str) -> float:
    return 0.7 if (segment == "sport") == (brand in BRANDS[:2]) else 0.1


def logged(n_lists: int = 400, seed: int = 0, fixed: bool = False) -> list[ShownList]:
    """Lists of four brands; `fixed`: each of them always at one position."""
    rng, lists = random.Random(seed), []
    for _ in range(n_lists):
        segment = rng.choice(["sport", "office"])
        brands = BRANDS if fixed else rng.sample(BRANDS, 4)
        clicked = [float(rng.random() < EXAMINED[p] * liked(segment, brand)) for p, brand in enumerate(brands)]
        rows = [{"brand": brand, "price": rng.randint(1, 99)} for brand in brands]
        lists.append(ShownList("", list(brands), rows, {"segment": segment}, 0.0, np.arange(4), np.array(clicked)))
    return lists


def train_with_schema(lists: Any, schema: Schema, learner: Any = None, passes: int = 5, **more: Any) -> ClickTraining:
    return _train_on_lists(lists, schema, OnlinePasses(max_passes=passes), learner=learner, **more)


@pytest.mark.parametrize(
    "learner", ["click_regression", {"kind": "hashed", "inner": "click_regression", "rate": 0.1}, "online_gradient"]
)
def test_it_learns_what_people_like(learner: Any, tmp_path: Path) -> None:
    trained = train_with_schema(logged(), SCHEMA, learner, passes=3)
    assert max(trained.gains[done] for done in (1, 2, 3)) > trained.logged_gain + 0.1
    assert trained.chosen == max((1, 2, 3), key=lambda done: trained.gains[done])
    assert trained.session.learned == trained.chosen * 400
    assert trained.examined_is_known
    np.testing.assert_allclose(trained.examined, EXAMINED, atol=0.12)
    trained.save(tmp_path / "model.rankloop")
    ranker = Ranker.load(tmp_path / "model.rankloop")
    assert ranker.features == ["brand", "price", "logged_score"]
    items = {brand: {"brand": brand, "price": 20} for brand in BRANDS}
    for segment, best in (("sport", {"acme", "bolt"}), ("office", {"cora", "dune"})):
        shown = ranker.rank(items, context={"segment": segment})
        contributions = {item: ranker.explain(shown, item).score for item in items}
        assert set(sorted(contributions, key=contributions.__getitem__)[2:]) == best


def test_the_gain_is_the_discounted_sum_of_weighted_clicks() -> None:
    """By hand: one held-out list in five, in the logged order."""
    lists = logged(10)
    trained = train_with_schema(lists, SCHEMA, passes=1, position_bias=EXAMINED, seed=3)
    held_out = [one for one, out in zip(lists, np.random.default_rng(3).permutation(10) % 5 == 0) if out]
    by_hand = [
        sum(click / EXAMINED[p] / np.log2(p + 2) for p, click in enumerate(one.clicked.tolist())) for one in held_out
    ]
    assert trained.logged_gain == pytest.approx(np.mean(by_hand))


def test_the_verdict_is_that_of_evaluate_on_held_out_lists() -> None:
    """Random orders can be improved; orders by what people like, a little shuffled, cannot."""
    trained = train_with_schema(logged(1200), SCHEMA, passes=1)
    assert (trained.verdict, trained.as_logged_wins) == ("better", False)
    assert trained.judgement is not None
    assert 0.0 < trained.judgement.gain.lower < 1.19 - 0.92 < trained.judgement.gain.upper  # best − random order
    assert "BETTER THAN AS LOGGED" in str(trained)
    plain = trained.to_json()
    assert (plain["verdict"], plain["gain"]["lower"]) == ("better", trained.judgement.gain.lower)
    rng, best = random.Random(1), []
    for page in logged(1200, seed=5):
        likes = [liked(page.context["segment"], row["brand"]) for row in page.rows]
        order = sorted(range(4), key=lambda item: -likes[item] + rng.gauss(0.0, 0.3))
        clicked = [float(rng.random() < EXAMINED[p] * likes[item]) for p, item in enumerate(order)]
        ids, rows = [page.ids[item] for item in order], [page.rows[item] for item in order]
        best.append(page._replace(ids=ids, rows=rows, clicked=np.array(clicked)))
    noise = [page._replace(rows=[{"price": row["price"]} for row in page.rows]) for page in best]
    trained = train_with_schema(noise, Schema({"price": "number"}, bits=10), passes=1)
    assert trained.verdict != "better"


def test_a_given_position_bias_is_not_learned() -> None:
    trained = train_with_schema(logged(50), SCHEMA, passes=1, position_bias=EXAMINED)
    assert from_layers(trained.session.learner, "examination") == tuple(EXAMINED)
    assert from_layers(trained.session.learner, "order_weight") == 0.0
    assert trained.examined.tolist() == EXAMINED
    with pytest.raises(InvalidInput, match="position_bias needs 4 probabilities above 0"):
        train_with_schema(logged(50), SCHEMA, passes=1, position_bias=[1.0, 0.5])


def test_where_nothing_moved_the_learner_says_how_positions_matter() -> None:
    """Not for one that needs to be told."""
    trained = train_with_schema(logged(300, fixed=True), SCHEMA, passes=1)
    assert not trained.examined_is_known
    assert trained.examined[0] == 1.0
    assert (np.diff(trained.examined) < 0).any()
    with pytest.raises(InvalidInput, match="no item stands at two positions"):
        train_with_schema(logged(300, fixed=True), SCHEMA, "online_gradient", passes=1)


@pytest.mark.parametrize("learner", ["fair_pairs", "pdgd", "3pr"])
def test_what_learns_from_its_own_trials_is_refused(learner: str) -> None:
    with pytest.raises(InvalidInput, match=f"{learner} learns from its own exploration"):
        train_with_schema(logged(10), SCHEMA, learner)


def test_what_cannot_be_learned_from_is_refused() -> None:
    silent = [one._replace(clicked=np.zeros(4)) for one in logged(10)]
    for lists, more, message in (
        (silent, {}, "the log has no click"),
        (logged(10)[:1], {}, "there must be at least two"),
        (logged(10), {"passes": 0}, "passes = 0 must be at least 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train_with_schema(lists, SCHEMA, **more)


def test_positions_below_those_that_are_seen_do_not_count() -> None:
    """Whatever was clicked there, the same is learned."""
    lists = logged(30)
    other = [one._replace(clicked=np.append(one.clicked[:2], [1.0, 1.0])) for one in lists]
    first, second = (
        train_with_schema(given, SCHEMA, passes=1, position_bias=EXAMINED, shown=2) for given in (lists, other)
    )
    assert first.session.problem.shown == 2
    for before, after in zip(first.session.state.table.used(), second.session.state.table.used()):
        np.testing.assert_array_equal(before, after)
