"""A small shop with a schema, which the tests of the service share."""

from __future__ import annotations

from typing import Any

import httpx

FEATURES = {"price": "number", "brand": "category", "title": "words", "sku": "id", "new": "flag"}
SCHEMA: dict[str, Any] = {
    "features": FEATURES | {"score": {"kind": "number", "scale": "linear"}},
    "context": {"segment": "category"},
    "crosses": ["segment*brand"],
    "bits": 12,
}
NAMED: dict[str, Any] = {"learner": "click_regression", "problem": {"schema": SCHEMA, "shown": 4}, "seed": 3}


def products(n: int = 6, shift: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"p{i}",
            "features": {
                "price": 10 * i + shift,
                "brand": ["Acme", ["Bolt", 7], None][i % 3],
                "title": f"Red shoes {i}",
                "new": i % 2 == 0,
                "score": -float(i),
            }
            | more,
        }
        for i in range(n)
    ]


def visit(client: httpx.Client, name: str = "shop", **body: Any) -> dict[str, Any]:
    """One ranking whose second item is clicked."""
    asked = {"items": products(), "context": {"segment": "sport"}} | body
    answer = client.post(f"/rankers/{name}/rank", json=asked)
    assert answer.status_code == 200, answer.text
    shown = dict(answer.json())
    click = {"impression": shown["impression"], "clicks": shown["ranking"][1:2], "final": True}
    answer = client.post(f"/rankers/{name}/feedback", json=click)
    assert answer.status_code == 200, answer.text
    return shown
