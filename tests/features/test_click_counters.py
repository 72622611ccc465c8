"""ClickCounters: what they count, how it decays, and that a ranker keeps, saves and replays them."""

import math

import pytest

from rankloop import InvalidInput, Ranker, Schema
from rankloop.features.click_counters import ClickCounters

DAY = 86_400.0


def value_of(counters, name, id, row=None, context=None, at=0.0):
    return counters.filled([id], [row or {}], context or {}, at)[0][name]


def test_a_rate_by_hand():
    counters = ClickCounters(Schema({"rate": {"kind": "counter", "half_life_days": 1.0, "impressions": 4.0}}))
    for clicked in ({"a": 1.0}, {"a": 2.5}, {}):
        counters.add([("a", {}), ("b", {})], {}, clicked, at=0.0)
    general = (2 + 1.0) / (6 + 10.0)
    assert value_of(counters, "rate", "a") == pytest.approx(math.log((2 + 4 * general) / (7 * general)))
    assert value_of(counters, "rate", "new") == 0.0
    general = (0.5 + 1.0) / (1.5 + 10.0)
    later = math.log((0.5 + 4 * general) / ((0.75 + 4) * general))
    assert value_of(counters, "rate", "a", at=2 * DAY) == pytest.approx(later)


def test_counts_by_fields_and_context():
    fields = {"brand": "category", "clicks": {"kind": "counter", "counts": "clicks", "by": "brand"}}
    fields |= {"shown": {"kind": "counter", "counts": "impressions", "by": "query"}}
    counters = ClickCounters(Schema(fields, {"query": "category"}, ["query*brand"]))
    counters.add([("a", {"brand": "x"}), ("b", {"brand": "x"})], {"query": "q"}, {"a": 1.0, "b": 1.0}, at=0.0)
    assert value_of(counters, "clicks", "new", {"brand": "x"}, {"query": "q"}) == pytest.approx(math.log(3))
    assert value_of(counters, "shown", "a", {"brand": "x"}, {"query": "q"}) == pytest.approx(math.log(2))
    assert value_of(counters, "shown", "a", {"brand": "x"}, {"query": "other"}) == 0.0
    assert value_of(counters, "clicks", "a", {"brand": "x", "clicks": 0.25}) == 0.25  # as given


def trained(n_pages=60):
    ranker = Ranker("click_regression", features={"popularity": "counter"}, seed=0, shown=2)
    for page in range(n_pages):
        shown = ranker.rank({"a": {}, "b": {}, "c": {}}, at=page * DAY)
        ranker.learn(shown, clicks=["c"] if "c" in shown.ids[:2] else [])
    return ranker


def test_a_ranker_keeps_saves_and_replays_its_counts(tmp_path):
    ranker, again = trained(), trained()
    assert ranker.predict({"a": {}, "b": {}, "c": {}}, at=60 * DAY)[0] == "c"
    assert ranker.counters.to_plain() == again.counters.to_plain()
    ranker.save(tmp_path / "news.rankloop")
    loaded = Ranker.load(tmp_path / "news.rankloop")
    items = {"a": {}, "b": {}, "c": {}}
    assert loaded.counters.to_plain() == ranker.counters.to_plain()
    assert [loaded.rank(items, at=61 * DAY) for _ in range(3)] == [ranker.rank(items, at=61 * DAY) for _ in range(3)]


def test_late_feedback_is_learned_with_the_counts_of_its_ranking():
    first, second = (Ranker("click_regression", features={"popularity": "counter"}, seed=0) for _ in range(2))
    items, shown = {"a": {}, "b": {}}, {}
    for name, ranker in (("first", first), ("second", second)):
        ranker.learn(ranker.rank(items, at=0.0), clicks=["a"])
        shown[name] = ranker.rank(items, at=DAY)
    plain = type(shown["second"]).from_json(shown["second"].to_json())
    first.learn(shown["first"], clicks=["b"])
    second.learn(plain, clicks=["b"])
    assert first.weights == second.weights


def test_pages_below_the_seen_part_are_not_counted():
    ranker = Ranker("click_regression", features={"shown": {"kind": "counter", "counts": "impressions"}}, shown=1)
    ranker.learn({"a": {}, "b": {}}, order=["a", "b"], clicks=[], at=0.0)
    assert set(ranker.counters.counts["shown"]) == {"'a'"}


def test_wrong_counters_are_refused():
    with pytest.raises(InvalidInput, match="half_life_days"):
        Ranker("click_regression", features={"n": {"kind": "counter", "half_life_days": 0}})
    with pytest.raises(InvalidInput, match="counts by 'brand', which is not another field"):
        Ranker("click_regression", features={"n": {"kind": "counter", "by": "brand"}})
