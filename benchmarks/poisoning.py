"""The number of clicks by which one user brings the worst item to the top, after honest visits.

python -m benchmarks.poisoning             a shop's ranker (two learners) and the search box, through the service
python -m benchmarks.poisoning --quick     fewer visits
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from benchmarks.server_process import serve_command, started
from rankloop.search import SearchBox

N_ITEMS, N_GOOD, N_USERS, N_QUERIES = 20, 5, 200, 30
CLICK_RATES = (0.03, 0.6)  # on other items and on good ones, at the first position
CLICK_DECAY = 0.3  # by position
UNLIMITED = {"once_per_user": False, "clip": False, "max_step": 0.0}  # as 0.2 learned
Show = Callable[[str, str], tuple[str, list[str]]]  # user and query give the impression and the order
Click = Callable[[str, list[str]], None]


def attack(show: Show, click: Click, good: set[str], worst: str, visits: int, most: int, queries: int = 1) -> str:
    """Play honest visits, then clicks of one user on the worst item; return the number that brings it to the top."""
    rng = np.random.default_rng(0)
    for _ in range(visits):
        impression, order = show(f"user {rng.integers(N_USERS)}", f"query {rng.integers(N_QUERIES)}")
        rates = [CLICK_RATES[id in good] / (1 + CLICK_DECAY * place) for place, id in enumerate(order)]
        click(impression, [id for id, rate in zip(order, rates) if rng.random() < rate])
    first = order.index(worst) + 1
    for n_clicks in range(most + 1):
        impression, order = show("mallory", f"query {n_clicks % queries}")
        if order[0] == worst:
            return f"from place {first} to 1 by {n_clicks} clicks"
        click(impression, [worst])
    return f"from place {first} to {order.index(worst) + 1} by {most} clicks"


def shop(learner: object, visits: int, most: int, queries: int) -> str:
    """Attack a ranker of the service with numeric features."""
    features = np.random.default_rng(1).normal(size=(N_ITEMS, 4))
    ids = [f"item {i}" for i in np.argsort(-features @ [1.0, -0.7, 0.3, 0.0])]
    items = [{"id": f"item {i}", "features": row.tolist()} for i, row in enumerate(features)]
    with (
        tempfile.TemporaryDirectory() as folder,
        started(serve_command, Path(folder)) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as http,
    ):
        http.put("/rankers/shop", json={"learner": learner, "problem": {"n_features": 4}}).raise_for_status()

        def show(user: str, query: str) -> tuple[str, list[str]]:
            answer = http.post("/rankers/shop/rank", json={"items": items, "user": user, "query_id": query}).json()
            return answer["impression"], answer["ranking"]

        def click(impression: str, clicked: list[str]) -> None:
            body = {"impression": impression, "clicks": clicked, "final": True}
            http.post("/rankers/shop/feedback", json=body).raise_for_status()

        return attack(show, click, set(ids[:N_GOOD]), ids[-1], visits, most, queries)


def search(visits: int, most: int) -> str:
    """Attack the search box: all documents have the words of the query, and five are good."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as data:
        for i in range(N_ITEMS):
            words = " ".join(f"word{i}x{j}" for j in range(5 + i))
            (Path(folder) / f"document{i:02}.txt").write_text(f"annual report\n{words}")
        with SearchBox(folder, data) as box:
            ids = box.predict("annual report", N_ITEMS).ids

            def show(user: str, query: str) -> tuple[str, list[str]]:
                results = box.search("annual report", N_ITEMS, visitor=user)
                return results.impression, results.ids

            return attack(show, box.learn, set(ids[:N_GOOD]), ids[-1], visits, most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    visits, most = (100, 60) if parser.parse_args().quick else (1000, 600)
    runs: dict[str, Callable[[], str]] = {"search box": partial(search, visits, most)}
    for kind in ("newton_pairs", "click_regression"):
        runs[f"shop, {kind}"] = partial(shop, kind, visits, most, 1)
        runs[f"shop, {kind}, another query each time"] = partial(shop, kind, visits, most, most)
        runs[f"shop, {kind}, as 0.2"] = partial(shop, {"kind": "robust", "inner": kind, **UNLIMITED}, visits, most, 1)
    for name, run in runs.items():
        print(f"{name}: {run()}", flush=True)


if __name__ == "__main__":
    main()
