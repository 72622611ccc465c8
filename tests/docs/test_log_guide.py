"""A shop's daily work: every command of the guide, as it stands there, on a small simulated shop and a real server."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.cli import main
from tests.docs.pages import ROOT
from tests.service.page.server import page_server

PAGE = ROOT / "docs" / "guides" / "from-log-to-experiment.md"
SERVED = "http://localhost:8080"
IMPRESSION = "18e8…"
BRANDS, ADJECTIVES, NOUNS = ["Acme", "Bolt", "Coral"], ["red", "small", "oak"], ["lamp", "desk", "rug", "chair"]
N_ITEMS, N_SHOWN = 24, 6


def commands() -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").split("\n$ ")
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


def products() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "sku": f"p{i}",
            "price": None if i % 8 == 3 else round(float(rng.lognormal(3, 0.5)), 2),
            "stars": round(float(rng.uniform(2, 5)), 1),
            "brand": BRANDS[i % 3],
            "title": f"{ADJECTIVES[i % 5 % 3]} {NOUNS[i % 4]} {i}",
        }
        for i in range(N_ITEMS)
    ]


def write_pages(path: Path, n_pages: int, seed: int) -> None:
    """Users like one brand and what they search for, and look at the first positions most; every fifth click buys."""
    rng, items = np.random.default_rng(seed), products()
    lines = ["page;user;query;sku;position;price;stars;brand;title;click;purchased;revenue"]
    for page in range(n_pages):
        query, user = NOUNS[int(rng.integers(4))], f"u{int(rng.integers(60))}"
        for place, item in enumerate(items[i] for i in rng.permutation(N_ITEMS)[:N_SHOWN]):
            liked = 0.1 + 0.4 * (item["brand"] == "Coral") + 0.4 * (query in item["title"])
            click = int(rng.random() < liked / (1 + place / 2))
            bought = int(click and rng.random() < 0.2)
            paid = bought * (item["price"] or 20.0)
            numbers = ["" if item["price"] is None else str(item["price"]), str(item["stars"])]
            cells = [f"g{page}", user, query, item["sku"], place + 1, *numbers, item["brand"], item["title"]]
            lines.append(";".join(str(cell).replace(".", ",") for cell in [*cells, click, bought, paid]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_ubi(folder: Path) -> None:
    rng, items, queries, events = np.random.default_rng(5), products(), [], []
    head = "id,price,brand,title"
    rows = [f"{item['sku']},{item['price'] or ''},{item['brand']},{item['title']}" for item in items]
    (folder / "items.csv").write_text("\n".join([head, *rows]) + "\n")
    for number in range(150):
        who = {"query_id": f"u{number}", "client_id": f"c{number}", "timestamp": f"2026-05-01T{number % 24:02d}:00:00Z"}
        order = [items[i] for i in rng.permutation(N_ITEMS)[:N_SHOWN]]
        queries.append({**who, "user_query": "lamp", "query_response_hit_ids": [item["sku"] for item in order]})
        for place, item in enumerate(order):
            if rng.random() < (0.7 if item["brand"] == "Coral" else 0.2) / (1 + place / 2):
                where = {"object": {"object_id": item["sku"]}, "position": {"ordinal": place + 1}}
                events.append({**who, "action_name": "click", "event_attributes": where})
    for name, records in (("ubi_queries", queries), ("ubi_events", events)):
        (folder / f"{name}.ndjson").write_text("".join(json.dumps(record) + "\n" for record in records))


class Walk:
    """Runs commands of the page one after the other against a service, and keeps what they print."""

    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.address, self.capsys, self.impression = address, capsys, ""
        self.printed: dict[str, str] = {}

    def run(self, command: list[str]) -> None:
        name = " ".join(command)
        self.printed[name] = self._call(command) if command[0] == "curl" else self._rankloop(command[1:])

    def _rankloop(self, arguments: list[str]) -> str:
        more = {"rehearse": ["--workers", "1", "--engine", "here", "--seeds", "2", "--pages", "60"]}
        more |= {name: ["--to", self.address] for name in ("user", "rollback")}
        with pytest.raises(SystemExit) as leaving:
            main([*arguments, *more.get(arguments[0], [])])
        captured = self.capsys.readouterr()
        assert not leaving.value.code, captured.err
        return captured.out + captured.err

    def _call(self, command: list[str]) -> str:
        given = dict(pairwise(command))
        (url,) = [part for part in command if part.startswith(SERVED)]
        body = given.get("-d", "").replace(IMPRESSION, self.impression).encode()
        if "--data-binary" in given:
            body = Path(given["--data-binary"].removeprefix("@")).read_bytes()
        name, _, value = given.get("-H", "").partition(": ")
        headers = {name: value} if name else {}
        method, address = given.get("-X", "GET"), url.replace(SERVED, self.address)
        answer = httpx.request(method, address, content=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        self.impression = answer.json().get("impression", self.impression)
        return answer.text

    def said(self, *parts: str) -> str:
        """What the first command with these words printed."""
        return next(text for name, text in self.printed.items() if all(part in name for part in parts))


def other_visits(address: str) -> None:
    """Traffic of other users, whose updates stay when one user is erased."""
    items = [{"id": item["sku"], "features": {"brand": item["brand"]}} for item in products()[:3]]
    for user in ("u8", "u9"):
        shown = httpx.post(f"{address}/rankers/shop/rank", json={"user": user, "items": items}).json()
        feedback = {"impression": shown["impression"], "clicks": ["p2"], "final": True}
        assert httpx.post(f"{address}/rankers/shop/feedback", json=feedback).is_success


def test_the_walk_of_a_shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pages(tmp_path / "shop.csv", 300, seed=1)
    write_pages(tmp_path / "later.csv", 300, seed=2)
    write_ubi(tmp_path)
    with page_server(tmp_path / "shop-data", demo=False) as address:
        walk = Walk(address, capsys)
        for command in commands():
            if command[1:3] == ["user", "export"]:
                other_visits(address)
            if command[1] != "serve":
                walk.run(command)
        states = httpx.get(f"{address}/rankers/shop").json()
    assert "list is page, query is query, item is sku" in walk.said("fit-users")
    assert "the schema was guessed: sku (id), price (number), stars (number), brand (category)" in walk.said(
        "train-clicks"
    )
    for unit in ("clicks", "purchases", "money"):
        assert f"{unit} per 1,000 pages" in walk.said("evaluate")
    assert "earns" in walk.said("evaluate")
    report = json.loads(walk.printed[f"curl {SERVED}/experiments/shop-or-today"])
    assert "metrics" in report
    assert "u7" in walk.said("user export")
    assert "impressions of u7 erased" in walk.said("user erase")
    assert "counts of experiments stay" in walk.said("user erase")
    assert states["counts"]["impressions"] == 2
    assert "state" in walk.said("rollback", "--list")
    assert "brand (category), title (words)" in walk.said("train-clicks log.parquet")
