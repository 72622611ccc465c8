"""Old events move to Parquet: exports and replays still have them, a restart does not need them."""

from __future__ import annotations

import asyncio
import io
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from rankloop.cli.main import main
from rankloop.service.application.rebuild import replay_records
from rankloop.service.log.archive import Archive
from rankloop.service.records import ArchiveFile, Ranked, Rebased, Record, Resumed, SchemaChanged
from rankloop.service.stores.open import log_at
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until
from tests.service.shop import NAMED, products, visit

VARIANTS = {"a": {"ranker": "shop"}, "b": {"weights": [1.0, 0.0, 0.0]}}


def test_old_events_move_to_parquet_and_the_proof_still_holds(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        learn(client, 10)
        waiting = rank(client)
        learn(client, 10)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 6)
        store = inside(client).store
        before = list(store.read("ranker/shop"))
        moved = Archive(store, "ranker/shop", location.data).move_old_events(time.time() + 1)
        assert moved >= 20
        assert Archive(store, "ranker/shop", location.data).move_old_events(time.time() + 1) == 0
        assert len(list(store.read("ranker/shop"))) == len(before) - moved
        assert list(Archive(store, "ranker/shop", location.data).records()) == before
        lines = client.get("/log/shop.jsonl").text.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == [record.seq for record in before]
    with running(location) as client:
        assert feed(client, waiting["impression"], clicks=waiting["ranking"][1:2], final=True).status_code == 200
        assert report(client)["counts"]["learned"] == 21
    with log_at(location.store or str(location.data)) as log:
        (result,) = replay_records(Archive(log, "ranker/shop", location.data).records())
    assert (result.learned, result.differing) == (21, ())


def test_an_experiment_moves_too_and_goes_on(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP)
        assert client.put("/experiments/trial", json=VARIANTS).status_code == 201
        _compare(client, 10)
        waiting = client.post("/experiments/trial/rank", json={"items": items()}).json()
        _compare(client, 5)
        service = inside(client)
        moving = asyncio.run_coroutine_threadsafe(service.archive_events_before(time.time() + 1), service.log._loop)
        assert moving.result(30) >= 20
        assert len(list(service.store.read("experiment/trial"))) < 20
        lines = [json.loads(line) for line in client.get("/log/trial.jsonl").text.splitlines()]
        assert [line["kind"] for line in lines].count("ranked") == 16
        assert len({line["seq"] for line in lines}) == len(lines)
        assert pq.read_table(io.BytesIO(client.get("/log/trial.parquet").content)).num_rows == 15
        before = client.get("/experiments/trial").json()
    with running(location) as client:
        assert client.get("/experiments/trial").json() == before
        answer = client.post(
            "/experiments/trial/feedback",
            json={"impression": waiting["impression"], "clicks": waiting["ranking"][:1], "final": True},
        )
        assert answer.status_code == 200
        after = client.get("/experiments/trial").json()
    logged = [sum(found[name] for name in ("wins", "ties", "losses")) for found in (before, after)]
    assert logged == [15, 16]


def _compare(client: httpx.Client, times: int) -> None:
    for turn in range(times):
        shown = client.post("/experiments/trial/rank", json={"items": items(shift=turn)}).json()
        body = {"impression": shown["impression"], "clicks": shown["ranking"][:1], "final": True}
        client.post("/experiments/trial/feedback", json=body).raise_for_status()


def _records(*seqs: int) -> list[Record]:
    return [Record(seq, "ranker/a", float(seq), Resumed()) for seq in seqs]


class _Database:
    """A log from which events are moved while it is read."""

    def __init__(self, data: Path, records: list[Record]) -> None:
        self.data, self.records = data, records
        self.files: list[ArchiveFile] = []

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Any:
        found = [record for record in self.records if record.seq > after and (until is None or record.seq <= until)]
        old = [record for record in self.records if 1 < record.seq <= 40]
        if old:
            self.files = [Archive(None, "ranker/a", self.data).write(old)]
            self.records = [record for record in self.records if record not in old]
        return iter(found)

    def manifest(self, entity: str) -> list[ArchiveFile]:
        return self.files


def test_events_that_move_while_they_are_read_are_read_once(tmp_path: Path) -> None:
    every = _records(*range(1, 60))
    database = _Database(tmp_path, every)
    assert list(Archive(database, "ranker/a", tmp_path).records()) == every
    assert list(Archive(database, "ranker/a", tmp_path).records()) == every
    assert list(Archive(database, "ranker/a", tmp_path).records(45, 30)) == every[30:45]


def test_a_file_whose_events_are_still_in_the_database_gives_every_record_once(tmp_path: Path) -> None:
    database = _Database(tmp_path, _records(*range(1, 60)))
    database.files = [
        Archive(None, "ranker/a", tmp_path).write(_records(50, 51)),
        Archive(None, "ranker/a", tmp_path).write(_records(52)),
    ]
    Archive(None, "ranker/a-2", tmp_path).write(_records(70))  # of another, whose name begins alike
    assert list(Archive(database, "ranker/a", tmp_path).records()) == _records(*range(1, 60))
    assert [path.stem for path in Archive(None, "ranker/a-2", tmp_path).files()] == [
        "ranker-a-2-000000000000070-000000000000070"
    ]


def test_a_clock_that_jumped_back_loses_nothing(location: Location, tmp_path: Path) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        learn(client, 4)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        store = inside(client).store
        before = list(store.read("ranker/shop"))

        class Jumped:
            """The store, one of whose events carries a time far ahead."""

            snapshot, move_to_archive, changes = store.snapshot, store.move_to_archive, store.changes
            manifest = store.manifest

            def read(self, *where: Any) -> Any:
                for record in store.read(*where):
                    yield record._replace(at=record.at + 1e9 * (record.seq == before[4].seq))

        Archive(Jumped(), "ranker/shop", tmp_path).move_old_events(time.time() + 1)  # type: ignore[arg-type]
        assert [r.seq for r in Archive(store, "ranker/shop", tmp_path).records()] == [r.seq for r in before]


def test_a_schema_outlives_the_events_that_made_it(tmp_path: Path) -> None:
    """Snapshots keep every version: the events of evolution may have moved to the archive."""
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/shop", json=NAMED).raise_for_status()
        visit(client)
        early = client.post("/rankers/shop/rank", json={"items": products(3)}).json()
        client.patch("/rankers/shop/schema", json={"features": {"stock": "number"}}).raise_for_status()
        visit(client, items=products(stock=1))
        late = {"impression": early["impression"], "clicks": ["p0"], "final": True}
        assert feed(client, **late).json()["verdict"] == "closed"
        waiting = client.post("/rankers/shop/rank", json={"items": products(3, stock=2)}).json()
    with running(location) as client:
        store = inside(client).store
        assert Archive(store, "ranker/shop", tmp_path).move_old_events(time.time() + 1) >= 6
        assert not any(isinstance(record.event, SchemaChanged) for record in store.read("ranker/shop"))
    with running(location) as client:
        assert report(client)["schema"]["version"] == 2
        visit(client, items=products(stock=3))
        assert feed(client, waiting["impression"], clicks=["p0"], final=True).json()["verdict"] == "closed"
        assert report(client)["counts"]["rejected"] == 0
    with log_at(str(tmp_path)) as log:
        (result,) = replay_records(Archive(log, "ranker/shop", tmp_path).records())
    assert (result.learned, result.differing) == (5, ())


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_an_archive_that_is_not_whole_is_said_so(
    location: Location, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not an export of a part, and not a replay that differs."""
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        client.put("/rankers/other", json=SHOP)
        learn(client, 9)
        learn(client, 1, "other")
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        assert Archive(inside(client).store, "ranker/shop", location.data).move_old_events(time.time() + 1) > 4
        before = client.get("/log/shop.jsonl").text
        (file,) = (location.data / "archive").iterdir()
        content = file.read_bytes()
        file.unlink() if harm == "missing" else file.write_bytes(content[:-1] + b"\0")
        for form in ("jsonl", "parquet"):
            answer = client.get(f"/log/shop.{form}")
            assert (answer.status_code, answer.json()["title"]) == (500, "archive damaged")
            assert answer.json()["detail"].startswith(f"{harm}: {file}")
        rank(client)  # all else goes on
        where = [location.store or str(location.data), "--data", str(location.data)]
        said = _replay(where, capsys)
        assert f"ranker/shop: {harm}: {file}" in said
        assert "ranker/other" in said
        assert "DIFFER" not in said
        file.write_bytes(content)
        assert client.get("/log/shop.jsonl").text.startswith(before)


def _replay(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        main(["replay", *arguments])
    assert left.value.code == 1
    return capsys.readouterr().out


def test_a_crash_leaves_files_over_that_nobody_reads_and_the_next_move_deletes(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        learn(client, 9)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        store, data = inside(client).store, location.data
        before = list(store.read("ranker/shop"))
        Archive(store, "ranker/shop", data).move_old_events(time.time() + 1)
        (listed,) = store.manifest("ranker/shop")
        changes: dict[int, Any] = {listed.first: None}
        Archive(None, "ranker/shop", data).amend(changes, [listed])  # and there the process ended
        assert len(list((data / "archive").iterdir())) == 2
        assert list(Archive(store, "ranker/shop", data).records()) == before
        Archive(store, "ranker/shop", data).drop_orphans()
        assert [file.name for file in (data / "archive").iterdir()] == [listed.name]


def test_old_events_are_deleted_and_a_replay_goes_on_from_the_state_that_they_left(location: Location) -> None:
    """The log is bounded: closed impressions before a time go, in any number of rounds, and nothing else changes."""
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 4})
        for learned in (20, 40, 60):
            learn(client, 10)
            early = rank(client)  # its feedback comes late, perhaps after its ranking has moved
            learn(client, 9)
            if learned < 60:
                feed(client, early["impression"], clicks=early["ranking"][1:2], final=True)
            else:
                learn(client, 1)
            until(lambda n=learned: report(client)["counts"]["learned"] == n)  # type: ignore[misc]
            node, store = inside(client), inside(client).store
            until(lambda node=node, n=learned: _snapshot_number(node) == n)  # type: ignore[misc]
            served, n_files = report(client)["counts"], len(store.manifest("ranker/shop"))
            Archive(store, "ranker/shop", location.data).move_old_events(time.time() + 1)
            assert _deleted(node, time.time() - 60) == 0
            assert _deleted(node, time.time() + 1) >= 18
            assert _deleted(node, time.time() + 1) == 0
            assert len(store.manifest("ranker/shop")) <= n_files + 1
            records = list(Archive(store, "ranker/shop", location.data).records())
            assert sum(isinstance(record.event, Rebased) and bool(record.event.projection) for record in records) == 1
            assert sum(isinstance(record.event, Ranked) for record in records) <= 15
            assert report(client)["counts"] == served
            (result,) = replay_records(iter(records))
            assert (result.learned, result.differing) == (learned, ())
    with running(location) as client:
        assert feed(client, early["impression"], clicks=early["ranking"][1:2], final=True).status_code == 200
        assert report(client)["counts"]["learned"] == 61
        first = next(record for record in location.records() if isinstance(record.event, Ranked))
        forgotten = client.post("/rankers/shop/forget", json={"shown_before": first.at + 1e-6})
        assert forgotten.json() == {"forgotten": 1}
    with log_at(location.store or str(location.data)) as log:
        (result,) = replay_records(Archive(log, "ranker/shop", location.data).records())
    assert (result.learned, result.differing) == (60, ())


def _deleted(node: Any, end_time: float) -> int:
    return int(asyncio.run_coroutine_threadsafe(node.delete_events_before(end_time), node.log._loop).result())


def _snapshot_number(node: Any) -> int:
    node.learning.worker.request_snapshot("ranker/shop").result(15)
    return int(node.store.snapshots("ranker/shop")[-1][0])
