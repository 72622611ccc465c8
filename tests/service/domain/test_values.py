"""Raw values in the log: they come back as they were, sparse rows are short, and an impression is small."""

from __future__ import annotations

import random

import pytest
from rankloop.service.domain.values import LARGE, ZLIB, packed, unpacked

from rankloop.core.errors import InvalidInput
from rankloop.service.records import Ranked, decode, encode

ROWS = [
    {"price": 19.99, "brand": "Acme", "tags": ["red", 4, None], "new": True},
    {},
    {"brand": None, "huge": 10**40, "least": -(2**63), "text": "grün", "empty": ""},
]


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
        generator="f" * 65,
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
    assert content[:1] == ZLIB
    assert len(content) < 4_000
    assert unpacked(content, 200) == (rows, {"query": "q"})


def test_small_values_are_as_they_were_before() -> None:
    """And nothing that is not pressed begins as if it were."""
    for n in (0, 1, 3, 20):
        assert packed(ROWS * n, {})[:1] == b"\x93"
    text = "x" * (LARGE - 100)
    assert packed([{"a": text}], {})[:1] == b"\x93"
    assert packed([{"a": text + "x" * 100}], {})[:1] == ZLIB
