"""The A/B test on the page: every number is that of the report, intervals and warnings are drawn."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.page.server import eventually, page_server, said

SOLD = {"purchase": {"weight": 20, "window": "7d"}, "revenue": {"weight": 0.5, "window": "7d"}}
SHOP = {"learner": "3pr(start=[1, 0])", "problem": {"feature_names": ["good", "cheap"]}, "outcomes": SOLD}
TEST = {
    "a": {"ranker": "shop"},
    "b": {"kind": "given_order"},
    "method": "split",
    "guardrails": {"clicks": 0.01},
}
READ_FIELDS = "all => all.map(one => [one.dataset.field, JSON.parse(one.dataset.value)])"
READ_PATHS = "all => all.map(one => [one.dataset.path, JSON.parse(one.dataset.value)])"


def visit_shop(address: str, users: int, seed: int = 1) -> None:
    """Users who click what is cheap and buy what is good."""
    rng = random.Random(seed)
    with httpx.Client(base_url=address, timeout=60) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        client.put("/experiments/new-or-today", json=TEST).raise_for_status()
        client.post("/rankers/shop/freeze").raise_for_status()  # its outcomes are counted, but its order stays
        for user in range(users):
            goods = {f"p{i}": (rng.random(), rng.random()) for i in range(6)}
            body = {"items": [{"id": id, "features": list(row)} for id, row in goods.items()], "user": f"u{user}"}
            shown = client.post("/experiments/new-or-today/rank", json=body).json()
            clicks = [id for id in shown["ranking"][:3] if rng.random() < goods[id][1]]
            bought = [id for id in clicks if rng.random() < goods[id][0] ** 2]
            outcomes = {
                "purchase": dict.fromkeys(bought, 1),
                "revenue": dict.fromkeys(bought, rng.lognormvariate(3, 0.5)),
            }
            feedback = {"impression": shown["impression"], "clicks": clicks, "outcomes": outcomes, "final": True}
            client.post("/experiments/new-or-today/feedback", json=feedback).raise_for_status()
            page = client.post("/rankers/shop/rank", json=body).json()
            feedback = {
                "impression": page["impression"],
                "clicks": [],
                "outcomes": {"purchase": {"p1": 1}},
                "final": True,
            }
            client.post("/rankers/shop/feedback", json=feedback).raise_for_status()


def test_an_a_b_test_is_shown_as_it_is_reported(tmp_path: Path, open_page: Any) -> None:
    with page_server(tmp_path, demo=False) as address:
        visit_shop(address, 400)
        page = open_page(f"{address}/#shop")

        def check() -> Any:
            result = said(address, "/experiments/new-or-today")  # What was sent last may be counted a moment later.
            assert result["users"]["a"] + result["users"]["b"] == 400
            fields = dict(page.eval_on_selector_all("[data-experiment='new-or-today'] [data-field]", READ_FIELDS))
            for metric in ("clicks", "purchase", "revenue"):
                for part in ("a", "b", "relative", "p_value", "days_needed"):
                    assert fields[f"{metric}.{part}"] == pytest.approx(result["metrics"][metric][part])
            tiles = dict(page.eval_on_selector_all("[data-outcome] [data-path]", READ_PATHS))
            assert tiles["outcomes.purchase.total"] == 400
            return result

        result = eventually(check)
        assert result["metrics"]["purchase"]["a"] > result["metrics"]["purchase"]["b"]
        assert page.locator("[data-experiment='new-or-today'] .interval:visible").count() == 3
        assert json.dumps(result["users"]["a"]) in page.inner_text("[data-experiment='new-or-today'] .verdict")
        assert "the order of the request" in page.inner_text("[data-experiment='new-or-today'] .variants")
        phone = open_page(f"{address}/#shop", 390)
        phone.wait_for_selector("[data-experiment='new-or-today'] tbody tr")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
