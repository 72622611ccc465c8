"""A bad row of a rank key and the clicks of one user do not decide an order, through the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.cases import Location, feed, rank, report, running

N_ITEMS, N_GOOD = 20, 5
FEATURES = np.random.default_rng(1).normal(size=(N_ITEMS, 4))
BY_QUALITY = [f"i{i}" for i in np.argsort(-FEATURES @ [1.0, -0.7, 0.3, 0.0])]
GOOD, WORST = set(BY_QUALITY[:N_GOOD]), BY_QUALITY[-1]
RAW = {"clip": False, "max_step": 0.0, "once_per_user": False}
ITEMS = [{"id": f"i{i}", "features": row.tolist()} for i, row in enumerate(FEATURES)]


def create(client: httpx.Client, learner: Any) -> None:
    client.put("/rankers/shop", json={"learner": learner, "problem": {"n_features": 4}}).raise_for_status()


def honest_visits(client: httpx.Client, n_visits: int) -> list[str]:
    rng = np.random.default_rng(2)
    for visit in range(n_visits):
        shown = rank(client, items=ITEMS, user=f"user {visit % 40}", query_id=f"q{visit % 7}")
        order: list[str] = shown["ranking"]
        rates = [(0.6 if id in GOOD else 0.03) / (1 + 0.3 * place) for place, id in enumerate(order)]
        clicks = [id for id, rate in zip(order, rates) if rng.random() < rate]
        feed(client, shown["impression"], clicks=clicks, final=True).raise_for_status()
    return order


def mean_place_of_good(client: httpx.Client) -> float:
    order = rank(client, items=ITEMS)["ranking"]
    return float(np.mean([place for place, id in enumerate(order, 1) if id in GOOD]))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("newton_pairs", 1000.0),
        ("click_regression", -1e6),
        ("3pr", 1.7e308),
        ("linear_thompson", 1e6),
        ("pdgd", -1000.0),
    ],
)
def test_one_bad_row_of_a_rank_key_does_no_harm(tmp_path: Path, kind: str, value: float) -> None:
    with running(Location(tmp_path)) as client:
        create(client, kind)
        honest_visits(client, 100)
        earlier = mean_place_of_good(client)
        bad = [{"id": "bad", "features": [-value, value, value, value]}, *ITEMS]
        shown = rank(client, items=bad)
        feed(client, shown["impression"], clicks=["bad"], final=True).raise_for_status()
        assert mean_place_of_good(client) <= earlier + 2
        assert report(client)["health"]["clipped"] >= 4
        metrics = client.get("/metrics").text
    assert 'rankloop_clipped_total{ranker="shop"} 4.0' in metrics
    assert 'rankloop_capped_total{ranker="shop"}' in metrics


def clicks_to_the_top(client: httpx.Client, most: int) -> int:
    for n_clicks in range(most):
        shown = rank(client, items=ITEMS, user="mallory", query_id="q")
        if shown["ranking"][0] == WORST:
            return n_clicks
        feed(client, shown["impression"], clicks=[WORST], final=True).raise_for_status()
    return most


@pytest.mark.parametrize("limits", [{}, RAW])
def test_one_user_cannot_bring_the_worst_item_to_the_top(tmp_path: Path, limits: dict[str, Any]) -> None:
    with running(Location(tmp_path)) as client:
        create(client, {"kind": "robust", "inner": "click_regression", **limits})
        honest_visits(client, 120)
        needed = clicks_to_the_top(client, 60)
        repeated = report(client)["health"]["repeated"]
    assert (needed, repeated > 50) == (60, True) if not limits else (needed < 60 and repeated == 0)


def test_a_session_counts_as_a_user_and_a_purchase_is_no_repeated_click(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        create(client, "click_regression")
        for weight in (1.0, 1.0, 5.0):
            shown = rank(client, items=ITEMS, session="s", query_id="q")
            feed(client, shown["impression"], clicks={WORST: weight}, final=True).raise_for_status()
        assert report(client)["health"]["repeated"] == 1
