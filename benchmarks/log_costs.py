"""What the log costs: bytes per impression."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.http_client import Connection
from benchmarks.server_process import serve_command, started

WORDS = ("red", "running", "shoes", "blue", "light", "winter", "boots", "socks", "leather", "summer")
FIELDS = {
    "price": "number", "rating": "number", "age_days": "number", "stock": "number", "brand": "category",
    "colour": "category", "size": "category", "on_sale": "flag", "title": "words", "sku": "id",
}  # fmt: skip
SHOP = {
    "learner": "click_regression",
    "problem": {
        "shown": 10,
        "schema": {"features": FIELDS, "context": {"segment": "category"}, "crosses": ["segment*brand"]},
    },
}


def disk_per_impression(impressions: int) -> float:
    """Bytes of 50 products with ten fields, ranked and clicked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with started(serve_command, folder) as server:
            asyncio.run(_visits(server.port, 1))
        before = _size(folder)
        with started(serve_command, folder) as server:
            asyncio.run(_visits(server.port, impressions))
        return (_size(folder) - before) / impressions


async def _visits(port: int, impressions: int) -> None:
    connection, rng = Connection(port), random.Random(impressions)
    await connection.send("PUT", "/rankers/products", msgspec.json.encode(SHOP))
    for number in range(impressions):
        request = {"items": [_product(i, rng) for i in range(50)], "context": {"segment": rng.choice("abc")}}
        status, answer = await connection.post("/rankers/products/rank", msgspec.json.encode(request))
        shown: Any = msgspec.json.decode(answer)
        if status != 200:
            raise RuntimeError(f"rank answered {status}: {answer[:300]!r}")
        clicks = [shown["ranking"][number % 3]]
        body = {"impression": shown["impression"], "clicks": clicks, "final": True}
        await connection.post("/rankers/products/feedback", msgspec.json.encode(body))
    connection.close()


def _product(number: int, rng: random.Random) -> dict[str, Any]:
    features = {
        "price": round(rng.lognormvariate(3.5, 1), 2), "rating": round(rng.uniform(1, 5), 1),
        "age_days": rng.randrange(1000), "stock": rng.randrange(500), "brand": f"brand {rng.randrange(40)}",
        "colour": rng.choice(WORDS), "size": rng.choice(("S", "M", "L", "XL")), "on_sale": rng.random() < 0.2,
        "title": " ".join(rng.choices(WORDS, k=4)),
    }  # fmt: skip
    return {"id": f"sku-{rng.randrange(100_000):05d}-{number}", "features": features}


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
