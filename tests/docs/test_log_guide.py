"""From a log to an experiment: the eight commands of the guide, as they stand there, on a made-up shop."""

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
from rankloop.service.http.app import make_app
from rankloop.service.settings import Settings
from tests.coroutines import run_coroutine
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "guides" / "from-log-to-experiment.md"
N_ITEMS = 12


def commands() -> list[list[str]]:
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


def visits(rng: Any, n: int) -> list[tuple[int, list[int], list[int]]]:
    """A query, what was shown, and what was clicked: people like what is cheap, and see less further down."""
    found = []
    for _ in range(n):
        query, order = int(rng.integers(3)), rng.permutation(N_ITEMS)[:5].tolist()
        found.append((query, order, [item for k, item in enumerate(order) if rng.random() < (1 - item / 12) / (k + 1)]))
    return found


def write_shop(folder: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["id,price,brand", *(f"p{i},{5 + 10 * i},{['acme', 'bolt'][i % 2]}" for i in range(N_ITEMS))]
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    queries, events = [], []
    for number, (query, order, clicked) in enumerate(visits(rng, 240)):
        at = f"2026-05-{1 + number // 24:02d}T{number % 24:02d}:00:00Z"
        who = {"query_id": f"u{number}", "client_id": f"c{number // 2}", "timestamp": at}
        queries.append({**who, "user_query": f"query {query}", "query_response_hit_ids": [f"p{i}" for i in order]})
        for item in clicked:
            place = {"object": {"object_id": f"p{item}"}, "position": {"ordinal": order.index(item) + 1}}
            events.append({**who, "action_name": "click", "event_attributes": place})
    for name, rows in (("ubi_queries", queries), ("ubi_events", events)):
        (folder / f"{name}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    later = ["session,query,position,item,clicked,purchased,price,brand"]
    for number, (query, order, clicked) in enumerate(visits(rng, 200)):
        for k, item in enumerate(order):
            hit = int(item in clicked)
            cells = f"v{number},query {query},{k + 1},p{item},{hit},{hit * int(rng.random() < 0.5)}"
            later.append(f"{cells},{5 + 10 * item},{['acme', 'bolt'][item % 2]}")
    (folder / "later.csv").write_text("\n".join(later) + "\n")


def test_eight_commands_lead_from_a_log_to_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = commands()
    assert len(asked) == 8
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path)
    said = []
    for command in asked[:6]:
        more = (
            ["--workers", "1", "--engine", "here", "--seeds", "2", "--pages", "60"] if command[1] == "rehearse" else []
        )
        with pytest.raises(SystemExit) as leaving:
            main([*command[1:], *more])
        captured = capsys.readouterr()
        assert not leaving.value.code, captured.err
        said.append(captured.out)
    assert (tmp_path / "users.toml").is_file()
    assert "earns" in said[5]
    assert "purchases per 1,000 pages" in said[5]
    assert "money per 1,000 pages" in said[5]
    shown = run_coroutine(calls(asked[6:], tmp_path))
    assert sorted(shown) == sorted(f"p{i}" for i in range(N_ITEMS))


async def calls(commands: list[list[str]], folder: Path) -> list[str]:
    """Make the calls to a service that has the ranker `today`; what the experiment then shows."""
    app = make_app(Settings(data=folder / "data"))
    async with app.router.lifespan_context(app):
        where = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=where, base_url="http://localhost:8080", timeout=60) as service:
            model = (folder / "trained" / "model.rankloop").read_bytes()
            (await service.put("/rankers/today/state", content=model)).raise_for_status()
            for command in commands:
                method, address, body, headers = curl(command)
                (await service.request(method, address, content=body, headers=headers)).raise_for_status()
            # The engine's order is the side that the guide names; a ranker that serves today may be it instead.
            assert b'"given_order"' in body
            sides = {"a": {"ranker": "new"}, "b": {"ranker": "today"}}
            (await service.put("/experiments/rankers", json=sides)).raise_for_status()
            items = [{"id": f"p{i}", "features": {"price": 5 + 10 * i}} for i in range(N_ITEMS)]
            (await service.post("/experiments/rankers/rank", json={"items": items})).raise_for_status()
            answer = await service.post("/experiments/new-or-today/rank", json={"items": items})
            return list(answer.raise_for_status().json()["ranking"])


def curl(command: list[str]) -> tuple[str, str, bytes, dict[str, str]]:
    """The method, the address, the body and the headers of a call, with what curl says unless it is told."""
    assert command[:2] == ["curl", "-X"]
    given = dict(pairwise(command))
    body = given.get("-d", "").encode() or Path(given["--data-binary"].removeprefix("@")).read_bytes()
    name, _, value = given.get("-H", "Content-Type: application/x-www-form-urlencoded").partition(": ")
    return given["-X"], next(part for part in command if part.startswith("http")), body, {name: value}
