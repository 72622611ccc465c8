"""Reports: the history of a ranker, which a restart reads from the snapshots."""

from __future__ import annotations

from rankloop.service.application.reports import MAX_POINTS
from tests.service.cases import SHOP, Location, learn, report, running, until


def test_a_restart_reads_the_past_from_the_snapshots(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2})
        assert [point["counts"]["learned"] for point in client.get("/rankers/shop/history").json()["points"]] == [0]
        learn(client, 21)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 11)
        before = report(client)
    with running(location) as client:
        points = client.get("/rankers/shop/history").json()["points"]
        learned = [point["counts"]["learned"] for point in points]
        assert learned == sorted(learned)
        assert learned[:10] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
        assert len(points) <= MAX_POINTS + 1
        assert [point["at"] for point in points] == sorted(point["at"] for point in points)
        last = points[-1]
        assert last["weights"] == before["weights"]
        assert last["health"]["ctr"] == before["health"]["ctr"]
