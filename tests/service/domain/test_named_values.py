"""Requests by name: what is wrong is told with item and field, keys know the same values again, catalogues fill up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rankloop.adapter import RawValues
from rankloop.core.errors import InvalidInput
from rankloop.service.domain.named_values import (
    COMPRESSED_FROM_BYTES,
    ZLIB_FIRST_BYTE,
    logged_values,
    packed_values,
)
from rankloop.service.domain.trainer import digest
from rankloop.service.records import Ranked, decode, encode
from tests.service.cases import Location, inside, report, running
from tests.service.shop import NAMED, SCHEMA, products, visit

FIVE_HUNDRED = [f"sku-{i}" for i in range(500)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(Location(tmp_path_factory.mktemp("named"))) as client:
        client.put("/rankers/shop", json=NAMED).raise_for_status()
        visit(client)
        rows = {id: {"price": i, "brand": f"b{i % 9}", "warehouse": "not in the schema"} for i, id in
                enumerate(FIVE_HUNDRED)}  # fmt: skip
        client.put("/catalogues/products", json={"rows": rows}).raise_for_status()
        by_id = NAMED | {"problem": NAMED["problem"] | {"catalogue": "products"}}
        client.put("/rankers/by-id", json=by_id).raise_for_status()
        yield client


def refused(response: httpx.Response) -> tuple[str, str]:
    assert response.status_code == 422, response.text
    error = response.json()["errors"][0]
    return error["field"], error["reason"]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"items": [{"id": "a", "features": {"price": "ten"}}]}, "items", "item 'a': price must be a number"),
    ({"items": [{"id": "a", "features": {"prise": 1}}]}, "items", "item 'a' has the field 'prise'"),
    ({"items": [{"id": "a", "features": {"brand": {"x": 1}}}]}, "items", "item 'a': brand must be a text"),
    ({"items": [{"id": "a", "features": {"brand": [[1]]}}]}, "items", "item 'a': brand must be a text"),
    ({"items": [{"id": "a", "features": {"title": 3}}]}, "items", "item 'a': title must be a text"),
    ({"items": [{"id": "a", "features": {"new": "perhaps"}}]}, "items", "item 'a': new must be true or false"),
    ({"items": [{"id": "a", "features": {"title": "x" * 200_000}}]}, "items", "item 'a': title a text of 200000"),
    ({"items": [{"id": "a", "features": {"brand": ["x"] * 2000}}]}, "items", "item 'a': brand a list of 2000"),
    ({"items": [{"id": "a", "features": [1, 2]}]}, "items", "item 'a' has a list of numbers"),
    ({"items": [{"id": "a", "features": {"price": 10**400}}]}, "items", "item 'a': price a number beyond"),
    ({"items": products(2), "context": {"segment": {"x": 1}}}, "context", "segment must be a text"),
    ({"items": products(2), "context": {"colour": "red"}}, "context", "has the field 'colour'"),
    ({"items": products(2), "context": [1.0]}, "context", "values by name"),
    ({"items": products(2), "ids": ["x"]}, "ids", "need a catalogue"),
    ({"items": [*products(2), {"id": "z", "features": {"price": "x"}}], "pinned": ["z"]}, "items", "item 'z': price"),
    ({"items": products(2) * 2}, "items", "'p0' is given twice"),
    ({"items": []}, "items", "there are no items"),
]


@pytest.mark.parametrize(("body", "field", "reason"), WRONG)
def test_what_is_wrong_is_named_and_changes_nothing(
    client: httpx.Client, body: dict[str, Any], field: str, reason: str
) -> None:
    before = digest(inside(client).directory.rankers["shop"].serving.state), report(client)["counts"]
    where, said = refused(client.post("/rankers/shop/rank", json=body))
    assert (where, reason in said) == (field, True), said
    assert (digest(inside(client).directory.rankers["shop"].serving.state), report(client)["counts"]) == before


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"brand": None, "price": None, "title": "", "new": None},
        {"brand": "", "price": True},
        {"brand": [1, "1", True, None], "sku": 2**70, "price": 1e308},
        {"brand": 10**25, "price": 10**25},
    ],
)
def test_values_at_the_border_are_learned_from(client: httpx.Client, features: dict[str, Any]) -> None:
    """By what the log has of them."""
    asked = [{"id": "a", "features": features}, {"id": 5, "features": {"price": 3}}]
    shown = client.post("/rankers/shop/rank", json={"items": asked}).json()
    before = report(client)["counts"]["learned"]
    click = {"impression": shown["impression"], "clicks": ["a"], "final": True}
    assert client.post("/rankers/shop/feedback", json=click).json()["verdict"] == "closed"
    assert report(client)["counts"]["learned"] == before + 1


def test_a_key_knows_the_same_values_again(client: httpx.Client) -> None:
    def asked(**change: Any) -> httpx.Response:
        body = {"items": products(3), "context": {"segment": "sport"}} | change
        return client.post("/rankers/shop/rank", json=body, headers={"Idempotency-Key": "once"})

    first = asked().json()
    assert asked().json() == first
    turned = [{"id": item["id"], "features": dict(reversed(item["features"].items()))} for item in products(3)]
    assert asked(items=turned).json() == first
    assert asked(items=products(3, shift=1)).status_code == 409
    assert asked(context={"segment": "home"}).status_code == 409


def test_five_hundred_ids_in_a_small_body(client: httpx.Client) -> None:
    shown = visit(client, "by-id", items=[], ids=FIVE_HUNDRED)
    assert sorted(shown["ranking"]) == sorted(FIVE_HUNDRED)
    named = visit(client, "by-id", items=[{"id": id} for id in FIVE_HUNDRED[:5]])
    assert sorted(named["ranking"]) == FIVE_HUNDRED[:5]


def test_an_id_that_the_catalogue_has_not(client: httpx.Client) -> None:
    field, reason = refused(client.post("/rankers/by-id/rank", json={"ids": ["sku-1", "sku-999"]}))
    assert (field, "'sku-999' is not in the catalogue" in reason) == ("items", True)
    own = [{"id": "sku-1", "features": {"price": 5}}, {"id": "sku-999", "features": {"price": 5}}]
    assert client.post("/rankers/by-id/rank", json={"items": own}).status_code == 200


def test_what_a_request_gives_wins_over_the_catalogue(client: httpx.Client) -> None:
    asked = {"items": [{"id": "sku-1", "features": {"brand": "mine"}}], "ids": ["sku-2"]}
    shown = client.post("/rankers/by-id/rank", json=asked).json()
    names = _names(client, shown["impression"], "sku-1")
    assert "brand = mine" in names
    assert any(name.startswith("price ≈") for name in names)
    assert not any("warehouse" in name for name in names)


def test_an_impression_keeps_the_rows_of_its_time(client: httpx.Client) -> None:
    shown = client.post("/rankers/by-id/rank", json={"ids": ["sku-3"]}).json()
    answer = client.put("/catalogues/products", json={"rows": {"sku-3": {"brand": "other"}, "sku-499": None}}).json()
    assert (answer["rows"], answer["changed"], answer["rankers"]) == (499, 2, ["by-id"])
    assert "brand = b3" in _names(client, shown["impression"], "sku-3")
    later = client.post("/rankers/by-id/rank", json={"ids": ["sku-3"]}).json()
    assert "brand = other" in _names(client, later["impression"], "sku-3")


def test_a_key_knows_the_same_request_again_after_a_change_of_the_catalogue(client: httpx.Client) -> None:
    def asked(**body: Any) -> httpx.Response:
        return client.post("/rankers/by-id/rank", json=body, headers={"Idempotency-Key": "once by id"})

    first = asked(ids=["sku-5", "sku-6"]).json()
    client.put("/catalogues/products", json={"rows": {"sku-5": {"brand": "yet another"}}}).raise_for_status()
    assert asked(ids=["sku-5", "sku-6"]).json() == first
    assert asked(ids=["sku-5", "sku-7"]).status_code == 409


def _names(client: httpx.Client, impression: str, id: str) -> set[str]:
    found = client.get("/rankers/by-id/explain", params={"impression": impression, "id": id}).json()
    return {part["name"] for part in found["contributions"]}


@pytest.mark.parametrize(
    ("rows", "field", "reason"),
    [
        ({"a": {"price": "ten"}}, "rows", "item 'a': price must be a number"),
        ({"a": {"price": {"x": 1}}}, "rows.a.price", "got `object`"),
        ({"a": {"price": [[1]]}}, "rows.a.price[0]", "got `array`"),
        ({"": {"price": 1}}, "rows", "length >= 1 as a name"),
        ({"a" * 300: {"price": 1}}, "rows", "length <= 256 as a name"),
        ({"a": {"": 1}}, "rows.a", "length >= 1 as a name"),
        ({"a": {str(i): 1 for i in range(1001)}}, "rows.a", "length <= 1000"),
    ],
)
def test_a_row_that_could_not_be_read_is_refused(
    client: httpx.Client, rows: dict[str, Any], field: str, reason: str
) -> None:
    before = client.get("/catalogues/products").json()
    wrong, said = refused(client.put("/catalogues/products", json={"rows": rows | {"fine": {"price": 1}}}))
    assert (wrong, reason in said) == (field, True), said
    assert client.get("/catalogues/products").json() == before


def test_the_same_rows_again_are_no_event(client: httpx.Client) -> None:
    first = client.put("/catalogues/small", json={"rows": {"a": {"price": 1}}}).json()
    again = client.put("/catalogues/small", json={"rows": {"a": {"price": 1}}}).json()
    assert (first["changed"], again["changed"], again["version"]) == (1, 0, first["version"])
    assert client.get("/catalogues/nobody").status_code == 404
    listed = client.get("/catalogues").json()["catalogues"]
    assert {"products", "small"} <= {each["name"] for each in listed}


def test_a_catalogue_has_to_be_there_and_needs_a_schema(client: httpx.Client) -> None:
    unknown = NAMED | {"problem": {"schema": SCHEMA, "catalogue": "nobody"}}
    assert refused(client.put("/rankers/new", json=unknown))[0] == "problem.catalogue"
    dense = {"learner": "3pr", "problem": {"n_features": 2, "catalogue": "products"}}
    assert refused(client.put("/rankers/new", json=dense))[0] == "problem.catalogue"


def test_numbers_stay_numbers_without_a_schema(client: httpx.Client) -> None:
    dense = {"learner": "3pr", "problem": {"feature_names": ["price", "rating"]}}
    client.put("/rankers/dense", json=dense).raise_for_status()
    for value in ("1", True, None, [1], {}):
        field, reason = refused(
            client.post("/rankers/dense/rank", json={"items": [{"id": 1, "features": {"price": value}}]})
        )
        assert (field, "item 1: price must be a number" in reason) == ("items[0].features.price", True)
    assert refused(client.post("/rankers/dense/rank", json={"items": [{"id": 1, "features": {"price": 10**400}}]}))
    assert refused(client.post("/rankers/dense/rank", json={"ids": [1]}))[0] == "ids"


ROWS = [
    {"price": 19.99, "brand": "Acme", "tags": ["red", 4, None], "new": True},
    {},
    {"brand": None, "huge": 10**40, "least": -(2**63), "text": "grün", "empty": ""},
]


def packed(rows: list[Any], context: dict[str, Any]) -> bytes:
    return packed_values(RawValues(rows, context, 0.0, 1))


def unpacked(content: bytes, n_items: int) -> RawValues:
    return logged_values(Ranked("i", ["a"] * n_items, b"", [], values=content))


def test_values_come_back() -> None:
    given = unpacked(packed(ROWS, {"segment": "sport", "visits": -(10**30)}), 3)
    assert given.rows == ROWS
    assert given.context == {"segment": "sport", "visits": -(10**30)}
    assert [[type(value) for value in row.values()] for row in given.rows] == [
        [type(value) for value in row.values()] for row in ROWS
    ]


def test_rows_that_say_nothing_take_nothing() -> None:
    content = packed([{}] * 500, {})
    assert (len(content), unpacked(content, 500).rows) == (4, [{}] * 500)


def test_a_sparse_row_is_short() -> None:
    names = [f"field_{i}" for i in range(100)]
    full, sparse = dict.fromkeys(names, 1), {"field_7": 1}
    assert len(packed([full] + [sparse] * 50, {})) - len(packed([full], {})) <= 50 * 3 + 2


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be written to the log"):
        packed([{"thing": object()}], {})


def test_an_impression_of_fifty_products_is_small() -> None:
    """Ten fields each, of which a title of some words: at most 8 kB, the decision and the ids included."""
    rng = random.Random(0)
    words = [
        "red",
        "blue",
        "running",
        "light",
        "warm",
        "classic",
        "shoes",
        "shirt",
        "jacket",
        "women",
        "men",
        "kids",
        "pro",
    ]
    rows = [
        {
            "price": rng.randrange(500, 20_000) / 100,
            "brand": f"Brand {rng.randrange(200)}",
            "category": rng.choice(["shoes", "shirts", "jackets"]),
            "title": " ".join(rng.choices(words, k=6)),
            "rating": round(rng.uniform(1, 5), 1),
            "reviews": rng.randrange(10_000),
            "in_stock": rng.random() < 0.9,
            "colours": rng.sample(["red", "blue", "green", "black"], 2),
            "since": f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
            "discount": rng.randrange(50),
        }
        for _ in range(50)
    ]
    ranking = rng.sample(range(50), 50)
    ranked = Ranked(
        impression="k" * 33,
        ids=[f"sku-{rng.randrange(10**6)}" for _ in rows],
        features=b"",
        order=ranking,
        query_id="red shoes",
        decision={"ranking": ranking, "log_propensity": -0.5, "receipt": {"swapped": [0] * 25}},
        log_propensity=-0.5,
        state_number=12_345,
        generator_state="f" * 65,
        values=packed(rows, {"segment": "sport", "query": "red shoes"}),
        at=1.79e9,
        schema=3,
    )
    content = encode(ranked)
    assert len(content) <= 8_000
    assert decode(content) == ranked


def test_large_values_are_pressed_and_come_back() -> None:
    rows = [{"id": i, "vector": "AAAA" * 20, "huge": 10**40} for i in range(200)]
    content = packed(rows, {"query": "q"})
    assert content[:1] == ZLIB_FIRST_BYTE
    assert len(content) < 4_000
    assert unpacked(content, 200)[:2] == (rows, {"query": "q"})


def test_small_values_are_as_they_were_before() -> None:
    """And nothing that is not pressed begins as if it were."""
    for n in (0, 1, 3, 20):
        assert packed(ROWS * n, {})[:1] == b"\x93"
    text = "x" * (COMPRESSED_FROM_BYTES - 100)
    assert packed([{"a": text}], {})[:1] == b"\x93"
    assert packed([{"a": text + "x" * 100}], {})[:1] == ZLIB_FIRST_BYTE
