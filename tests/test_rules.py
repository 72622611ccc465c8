"""Rules on top of a learned order, against enumerations of all orders of small lists."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations, product
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from rankloop import Query, Ranker
from rankloop.cli.main import main
from rankloop.client import Client, Refused
from rankloop.core.errors import InvalidInput
from rankloop.logs.reader import lists_in
from rankloop.rules import AtMost, Boost, Rules, Spread
from rankloop.service.application.rebuild import replay_records
from rankloop.service.application.service_log_reader import read_service_log
from rankloop.service.records import Ranked
from tests.service.cases import Location, feed, rank, report, running

BRANDS = ["x", "y", None]


def arranged(rules: Rules, order: Any, brands: Any, n_pinned: int = 0) -> tuple[int, ...]:
    return tuple(rules.arrange(list(order), n_pinned, lambda item, field: brands[item])[0])


@pytest.mark.parametrize(("n", "within"), [(1, 2), (1, 3), (2, 3), (2, 4)])
def test_a_limit_gives_the_first_order_that_keeps_it(n: int, within: int) -> None:
    """Of all orders that keep the limit, the one that changes the top least; if none does, as many as possible."""
    rules = Rules(at_most=(AtMost(field="brand", n=n, within=within),))

    def kept(order: Any, brands: Any) -> bool:
        counts = Counter(brands[item] for item in order[:within])
        del counts[None]
        return max(counts.values(), default=0) <= n

    for brands in product(BRANDS, repeat=4):
        orders = [order for order in permutations(range(4)) if kept(order, brands)]
        result = arranged(rules, range(4), brands)
        assert sorted(result) == [0, 1, 2, 3]
        if orders:
            assert result == min(orders)
        changes = any(arranged(rules, order, brands) != order for order in permutations(range(4)))
        could = rules.could_change(range(4), 0, lambda item, field, brands=brands: brands[item])  # type: ignore[misc]
        assert could or not changes


def test_pinned_items_stay_and_count() -> None:
    rules = Rules(at_most=(AtMost(field="brand", n=1, within=3),))
    assert arranged(rules, [3, 0, 1, 2], ["x", "y", "z", "x"], n_pinned=1) == (3, 1, 2, 0)


@pytest.mark.parametrize("by", [1, 2, 5])
def test_a_boosted_item_moves_up_by_so_many_positions(by: int) -> None:
    rules = Rules(boost=(Boost(field="brand", value="x", by=by),))
    for item in range(5):
        brands = ["x" if i == item else "y" for i in range(5)]
        others = [i for i in range(5) if i != item]
        position = max(item - by, 0)
        assert arranged(rules, range(5), brands) == (*others[:position], item, *others[position:])
    for brands in product("xy", repeat=4):
        result = arranged(rules, range(4), brands)
        for brand in "xy":  # among equals the order stays
            assert [i for i in result if brands[i] == brand] == [i for i in range(4) if brands[i] == brand]
        if len(set(brands)) == 1:
            assert result == (0, 1, 2, 3)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0])
def test_variety_is_the_greedy_choice_of_the_formula(weight: float) -> None:
    rules = Rules(spread=(Spread(field="brand", weight=weight, window=2),))
    for brands in product(BRANDS, repeat=5):
        chosen: list[int] = []
        while len(chosen) < 5:
            last = [brands[item] for item in chosen[-2:]]
            gain = {
                item: (1 - weight) * (1 - item / 5) - weight * (brands[item] is not None and brands[item] in last)
                for item in range(5)
                if item not in chosen
            }
            chosen.append(max(gain, key=lambda item: (gain[item], -item)))
        assert arranged(rules, range(5), brands) == tuple(chosen)


def test_what_is_out_of_stock_or_excluded_is_not_shown() -> None:
    rules = Rules(pin=("d", "b"), exclude=("a",), stock="stock")
    rows = {id: {"stock": stock} for id, stock in zip("abcde", [1, 0, 3, None, "no"])}
    page = rules.apply(list("abcde"), rows)
    assert page.ids == ["d", "c"]
    assert page.touched == {"pin": ["d"], "exclude": ["a"], "stock": ["b", "e"]}
    assert not page.could_change
    assert rules.apply(["b", "e"], {"b": {"stock": 0}, "e": {"stock": False}}).ids == ["b", "e"]  # all are out
    for wrong in ({"by": 0}, {"n": 0}, {"weight": 2.0}):
        with pytest.raises(InvalidInput):
            (Boost if "by" in wrong else AtMost if "n" in wrong else Spread)(field="f", **wrong)  # type: ignore[arg-type]


def test_a_ranker_learns_from_the_page_that_users_saw() -> None:
    rows = {id: {"brand": brand, "price": price} for id, brand, price in zip("abc", "xxy", [1.0, 2.0, 3.0])}
    ranker = Ranker("click_regression", features={"brand": "category", "price": "number"})
    rules = Rules(at_most=(AtMost(field="brand", n=1, within=2),))
    for _ in range(20):
        page = rules.apply(ranker.rank(rows).ids, rows)
        assert {rows[id]["brand"] for id in page.ids[:2]} == {"x", "y"}
        ranker.learn(rows, order=page.ids, clicks=["c"])
    assert ranker.predict(rows)[0] == "c"


SHELF: dict[str, Any] = {
    "learner": "pdgd",
    "problem": {"feature_names": ["price", "rating", "brand", "stock"]},
    "seed": 1,
}


def shelf(brands: list[float], stock: list[float] | None = None) -> list[dict[str, Any]]:
    stock = stock or [1.0] * len(brands)
    return [{"id": f"p{i}", "features": [0.1 * i, 1.0, b, s]} for i, (b, s) in enumerate(zip(brands, stock))]


@pytest.fixture(scope="module", name="client")
def service_client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(Location(tmp_path_factory.mktemp("rules"))) as client:
        yield client


def test_known_propensities_are_those_of_the_enumeration(client: httpx.Client) -> None:
    """Every order that is shown with a propensity is shown with the sum over all rankings that lead to it."""
    client.put("/rankers/shelf", json=SHELF).raise_for_status()
    runtime = client.server.app.state.node.directory.ranker("shelf")  # type: ignore[attr-defined]
    known = unknown = 0
    for rules in (
        Rules(exclude=("p3",), stock="stock"),
        Rules(pin=("p2",), at_most=(AtMost(field="brand", n=2),)),
        Rules(at_most=(AtMost(field="brand", n=1, within=2),)),
        Rules(boost=(Boost(field="brand", value=1.0, by=2),)),
    ):
        client.put("/rankers/shelf/rules", json=_plain(rules)).raise_for_status()
        for brands in ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0]):
            rows = shelf(brands, [1.0, 0.0, 1.0, 1.0])
            shown = rank(client, "shelf", items=rows)
            ids = [row["id"] for row in rows]
            values = {row["id"]: dict(zip(SHELF["problem"]["feature_names"], row["features"])) for row in rows}
            candidates = [id for id in shown["ranking"] if id not in rules.pin] if rules.pin or rules.exclude else ids
            candidates = sorted(candidates)
            total = 0.0
            for order in permutations(candidates):
                page = rules.apply(list(order) + [id for id in ids if id not in candidates], values)
                if page.ids == shown["ranking"]:
                    features = np.array([[*values[id].values()] for id in candidates])
                    ranking = np.array([candidates.index(id) for id in order])
                    query = Query("", np.ascontiguousarray(features), np.empty(0))
                    total += math.exp(runtime.config.learner.log_prob(runtime.serving.state, query, ranking))
            if shown["log_propensity"] is None:
                unknown += 1
            else:
                known += 1
                assert math.exp(shown["log_propensity"]) == pytest.approx(total)
    assert (known, unknown) == (5, 3)


def _plain(rules: Rules) -> Any:
    return msgspec.json.decode(msgspec.json.encode(rules))


def test_rules_are_logged_explained_and_replayed(tmp_path: Path) -> None:
    location = Location(tmp_path)
    rules = Rules(pin=("p5",), at_most=(AtMost(field="brand", n=1, within=3),), stock="stock")
    brands, stock = [1.0, 1.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    with running(location) as service, Client(str(service.base_url)) as client:
        client.create("shelf", learner="pdgd", problem=SHELF["problem"])
        assert client.set_rules("shelf", rules)["rules"] == _plain(rules)
        for _ in range(12):
            shown = rank(service, "shelf", items=shelf(brands, stock))
            assert shown["ranking"][0] == "p5"
            assert "p4" not in shown["ranking"]
            assert shown["ranking"].index("p3") < 3
            assert shown["log_propensity"] is None
            assert feed(service, shown["impression"], "shelf", clicks=["p3"], final=True).status_code == 200
        assert client.explain("shelf", shown["impression"], "p5").rules == ("pin",)
        assert client.explain("shelf", shown["impression"], "p4").rules == ("stock",)
        assert report(service, "shelf")["counts"]["learned"] == 12
        service.post("/rankers/shelf/freeze")
        key = {"Idempotency-Key": "one"}
        first = service.post("/rankers/shelf/rank", json={"items": shelf(brands, stock)}, headers=key).json()
        client.set_rules("shelf", Rules())
        assert "rules" not in client.ranker("shelf")
        again = service.post("/rankers/shelf/rank", json={"items": shelf(brands, stock)}, headers=key).json()
        assert again == first  # the page that was shown, though the rules are gone
        free = rank(service, "shelf", items=shelf(brands, stock))
        assert sorted(free["ranking"]) == [f"p{i}" for i in range(6)]
        assert free["log_propensity"] is not None
        with pytest.raises(Refused, match="not a field of the items"):
            client.set_rules("shelf", Rules(stock="amount"))
        assert service.put("/rankers/shelf/rules", json={"at_most": [{"field": "brand", "n": 0}]}).status_code == 422
        (tmp_path / "log.parquet").write_bytes(service.get("/log/shelf.parquet").content)
        client.download("shelf", tmp_path / "shelf.rankloop")
    with running(location) as service:
        assert "rules" not in report(service, "shelf")
    events = [record.event for record in location.records() if isinstance(record.event, Ranked)]
    assert all(event.reordered and event.rules["pin"] == [5] for event in events[:13])
    (result,) = replay_records(location.records())
    assert (result.differing, result.learned) == ((), 12)
    with pytest.raises(InvalidInput, match="rules have changed the order"):
        list(read_service_log(str(location.data), "shelf").rankings())
    assert np.isnan(lists_in(tmp_path / "log.parquet").log_propensity[:12]).all()
    for log, code in ((tmp_path / "log.parquet", 0), (location.data, 2)):
        with pytest.raises(SystemExit) as leaving:
            main(["evaluate", str(tmp_path / "shelf.rankloop"), "--log", str(log)])
        assert (leaving.value.code or 0) == code


def test_rules_with_a_schema_and_a_catalogue(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        schema = {"features": {"brand": "category", "price": "number"}, "bits": 10}
        client.put("/catalogues/things", json={"rows": {i: {"brand": "ab"[i > "1"], "price": 3} for i in "0123"}})
        body = {"learner": "given_order", "problem": {"schema": schema, "catalogue": "things"}}
        client.put("/rankers/shop", json=body).raise_for_status()
        spread = {"spread": [{"field": "brand", "weight": 0.9}], "boost": [{"field": "price"}]}
        client.put("/rankers/shop/rules", json=spread).raise_for_status()
        shown = client.post("/rankers/shop/rank", json={"ids": ["0", "1", "2", "3"]}).json()
        assert shown["ranking"] == ["0", "2", "1", "3"]
        assert shown["log_propensity"] == 0.0  # the policy is certain, so the order is
