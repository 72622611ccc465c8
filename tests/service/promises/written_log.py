"""A small log of format 1, as a service wrote it: `python -m tests.service.promises.written_log` writes it anew.

It is written once for a format and kept: a log that a user has must be read by every later version.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from rankloop.core.compilation import processor
from rankloop.service.application.rebuild import ReplayResult, replay_records
from rankloop.service.stores.sqlite import FILE_NAME
from tests.service.cases import SHOP, Location, feed, items, learn, rank, running, until
from tests.service.shop import NAMED, products, visit

LOG = Path(__file__).parent / "log-1.db.gz"
EXPECTED = LOG.with_suffix("").with_suffix(".json")


def unpack(folder: Path) -> Location:
    """Put the log into a folder, from where a service goes on."""
    (folder / FILE_NAME).write_bytes(gzip.decompress(LOG.read_bytes()))
    return Location(folder)


def results_of(location: Location) -> list[ReplayResult]:
    return replay_records(location.records())


def plain(results: list[ReplayResult]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(result._asdict())) for result in results]


def write() -> None:
    """Use rankers, a schema that changes, a catalogue, an alias and an experiment, and keep what was logged."""
    with tempfile.TemporaryDirectory() as folder:
        location = Location(Path(folder))
        with running(location) as client:
            client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
            learn(client, 5)
            until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
            client.post("/rankers/shop/rollback", json={"state": 2}).raise_for_status()
            client.post("/rankers/shop/freeze", json={"reason": "a pause"}).raise_for_status()
            learn(client, 1)
            client.post("/rankers/shop/resume").raise_for_status()
            client.patch("/rankers/shop", json={"window": 900}).raise_for_status()
            client.put("/aliases/today", json={"ranker": "shop"}).raise_for_status()
            rows = {"p0": {"price": 5}, "p1": {"brand": "Acme"}}
            client.put("/catalogues/products", json={"rows": rows}).raise_for_status()
            problem = NAMED["problem"] | {"catalogue": "products"}
            client.put("/rankers/named", json=NAMED | {"problem": problem, "snapshot_every": 1}).raise_for_status()
            visit(client, "named")
            client.patch("/rankers/named/schema", json={"features": {"stock": "number"}}).raise_for_status()
            visit(client, "named", items=products(3, stock=2), ids=[])
            variants = {"a": {"ranker": "shop"}, "b": {"weights": [1, 0, 0]}}
            client.put("/experiments/compared", json=variants).raise_for_status()
            shown = client.post("/experiments/compared/rank", json={"items": items()}).json()
            click = {"impression": shown["impression"], "clicks": shown["ranking"][:1], "final": True}
            client.post("/experiments/compared/feedback", json=click).raise_for_status()
            waiting = rank(client)["impression"]
            feed(client, waiting, clicks=["i1"]).raise_for_status()
        content = (location.data / FILE_NAME).read_bytes()
        LOG.write_bytes(gzip.compress(content, mtime=0))
        expected = {"processor": processor(), "waiting": waiting, "results": plain(results_of(location))}
        EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write()
