"""The shop of `rankloop demo`: everybody meets the same visitors, and who learns gets more clicks."""

import numpy as np
import pytest

from research.shop import demo
from research.shop.players import RandomOrder
from research.shop.world import Shop


def test_a_page_is_worth_its_expected_clicks() -> None:
    visits = list(Shop(3).visits(20))
    steps = list[int]()
    clicks = demo.play(RandomOrder(1), visits, lambda: steps.append(1))
    orders = RandomOrder(1)
    by_hand = [visit.expected(orders.rank(visit.candidates, visit.context)) for visit in visits]
    np.testing.assert_array_equal(clicks, by_hand)
    assert len(steps) == 20


def test_who_learns_is_above_popularity_and_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    told = list[tuple[int, int]]()
    finding = demo.shop_finding(seed=0, n_visits=400, progress=lambda finished, of: told.append((finished, of)))
    clicks = {row[0]: float(row[1]) for row in finding.tables[0].rows}
    assert clicks["random order"] < clicks["most clicked first"] < clicks["rankloop"] < clicks["best possible"]
    assert clicks["rankloop"] > 1.2 * clicks["random order"]
    assert finding.missing == (demo.PEER_MISSING_TEXT,)
    assert told[-1] == (1200, 1200)
    assert finding.charts[0].name == "shop"
