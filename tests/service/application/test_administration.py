"""What operators ask for: rankers and experiments are deleted with all that there is of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.client import Client, Refused
from rankloop.service.application import administration as operations
from rankloop.service.application.rebuild import replay_log
from rankloop.service.records import Created
from rankloop.service.stores.open import log_at
from tests.service.cases import SHOP, Location, feed, inside, learn, rank, report, running, until

VARIANTS: dict[str, Any] = {"a": {"ranker": "shop"}, "b": {"weights": [1.0, 0.0, 0.0]}}


def address_of(location: Location) -> str:
    return location.store or str(location.data)


def left_of(location: Location, entity: str) -> int:
    """Rows of an entity."""
    with log_at(address_of(location)) as log:
        return len(list(log.read(entity))) + len(log.snapshots(entity))


def test_a_ranker_is_deleted_with_all_of_it_and_may_begin_anew(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "DELETION_NOTICED_SECONDS", 0.2)
    with running(location) as client, Client(str(client.base_url)) as mine:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        client.put("/rankers/other", json=SHOP).raise_for_status()
        learn(client, 5)
        until(lambda: len(client.get("/rankers/shop/snapshots").json()["snapshots"]) == 3)
        waiting = rank(client)
        client.put("/experiments/trial", json=VARIANTS).raise_for_status()
        with pytest.raises(Refused, match="used by experiments: trial"):
            mine.delete("shop")
        mine.delete("trial", experiment=True)
        mine.delete("shop")
        assert client.post("/rankers/shop/rank", json={"items": []}).status_code == 404
        assert feed(client, waiting["impression"], clicks=[], final=True).status_code == 404
        assert client.get("/log/shop.jsonl").status_code == 404
        assert client.delete("/rankers/shop").status_code == 404
        assert [ranker["name"] for ranker in client.get("/rankers").json()["rankers"]] == ["other"]
        until(lambda: left_of(location, "ranker/shop") == left_of(location, "experiment/trial") == 0)
        other = SHOP | {"problem": {"feature_names": ["price", "rating"]}, "snapshot_every": 2}
        assert client.put("/rankers/shop", json=other).status_code == 201
        assert report(client)["counts"]["learned"] == 0
        mine.delete("shop")
        assert client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).status_code == 201  # at once
        learn(client, 3)
        assert report(client)["counts"]["learned"] == 3
    with running(location) as client:
        assert report(client)["counts"]["learned"] == 3
        learn(client, 1)
        until(lambda: not inside(client).store.deletions())
        with log_at(address_of(location)) as log:
            assert isinstance(next(log.read("ranker/shop")).event, Created)
    results = {result.entity: result for result in replay_log(address_of(location))}
    assert results["ranker/shop"].learned == 4
    assert not any(result.differing for result in results.values())


def test_another_worker_notices(postgres: Any, tmp_path: Path) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as one, running(location, follower=True) as two:
        one.put("/rankers/shop", json=SHOP).raise_for_status()
        learn(two, 2)
        two.delete("/rankers/shop").raise_for_status()
        until(lambda: asked(one) == 404)
        assert two.put("/rankers/shop", json=SHOP | {"seed": 9}).status_code == 201
        until(lambda: asked(one) == 200)
        assert report(one)["spec"]["seed"] == 9
        learn(one, 2)
        until(lambda: report(two)["counts"]["learned"] == 2)


def asked(client: httpx.Client) -> int:
    return client.get("/rankers/shop").status_code


def test_a_window_changes_for_what_is_open_too(location: Location) -> None:
    with running(location) as client, Client(str(client.base_url)) as mine:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        learn(client, 1)
        rank(client)
        assert mine.set_window("shop", 0.3)["spec"]["window"] == 0.3
        until(lambda: report(client)["counts"]["open"] == 0)
        assert client.patch("/rankers/shop", json={"window": 0}).status_code == 422
        assert client.patch("/rankers/nobody", json={"window": 1}).status_code == 404
        rows = len(location.records())
        mine.set_window("shop", 0.3)  # the same again changes nothing
        assert len(location.records()) == rows
    with running(location) as client:
        assert report(client)["spec"]["window"] == 0.3
        assert client.put("/rankers/shop", json=SHOP).status_code == 200  # as it was created
        rank(client)
        until(lambda: report(client)["counts"]["open"] == 0)
    assert not any(result.differing for result in replay_log(address_of(location)))


def test_a_name_leads_to_another_ranker_and_feedback_finds_the_one_before(location: Location) -> None:
    with running(location) as client, Client(str(client.base_url)) as mine:
        for name in ("shop-1", "shop-2"):
            client.put(f"/rankers/{name}", json=SHOP).raise_for_status()
        mine.set_alias("shop", "shop-1")
        before = rank(client)
        mine.set_alias("shop", "shop-2")
        learn(client, 2)
        assert feed(client, before["impression"], clicks=before["ranking"][:1], final=True).status_code == 200
        assert [report(client, name)["counts"]["learned"] for name in ("shop-1", "shop-2")] == [1, 2]
        assert feed(client, "never-shown", clicks=[], final=True).status_code == 404
        assert client.get("/aliases").json() == {"aliases": {"shop": "shop-2"}}
        assert client.put("/rankers/shop", json=SHOP).status_code == 409
        assert client.put("/aliases/shop-1", json={"ranker": "shop-2"}).status_code == 409
        assert client.put("/aliases/other", json={"ranker": "nobody"}).status_code == 404
        assert client.delete("/rankers/shop-2").status_code == 409
    with running(location) as client, Client(str(client.base_url)) as mine:
        learn(client, 1)
        assert report(client, "shop-2")["counts"]["learned"] == 3
        mine.set_alias("shop", None)
        assert client.post("/rankers/shop/rank", json={"items": []}).status_code == 404
        assert client.delete("/aliases/shop").status_code == 404
    assert sorted(result.learned for result in replay_log(address_of(location))) == [1, 3]


def test_another_worker_follows_an_alias(postgres: Any, tmp_path: Path) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as one, running(location, follower=True) as two:
        for name in ("shop-1", "shop-2"):
            one.put(f"/rankers/{name}", json=SHOP).raise_for_status()
        one.put("/aliases/shop", json={"ranker": "shop-1"}).raise_for_status()
        rank(two)
        one.put("/aliases/shop", json={"ranker": "shop-2"}).raise_for_status()
        until(lambda: two.get("/aliases").json() == {"aliases": {"shop": "shop-2"}})
        learn(two, 1)
        until(lambda: report(one, "shop-2")["counts"]["learned"] == 1)


def test_who_does_not_learn_answers_with_what_was_changed(postgres: Any, tmp_path: Path) -> None:
    location = Location(tmp_path, postgres())
    with running(location) as one, running(location, follower=True) as two:
        one.put("/rankers/shop", json=SHOP).raise_for_status()
        until(lambda: two.get("/rankers/shop").status_code == 200)
        for window in (600.0, 601.0):
            assert two.patch("/rankers/shop", json={"window": window}).json()["spec"]["window"] == window
        two.post("/rankers/shop/freeze").raise_for_status()
        assert report(two)["frozen"] is True
