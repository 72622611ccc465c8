"""Going back: the states that are listed, step by step, with the difference shown before it is made."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.cli.main import main
from rankloop.client import Client
from rankloop.core.errors import Conflict
from rankloop.service.application.rebuild import replay_log
from rankloop.service.domain.health import _rank_correlation
from rankloop.service.domain.rollback import StateList, StateRow
from rankloop.service.domain.trainer import digest
from rankloop.service.records import Created, Record, RolledBack
from rankloop.service.request_bodies import CreateBody, ProblemBody
from rankloop.service.stores import base
from tests.service.cases import SHOP, Location, inside, items, learn, rank, report, running, until
from tests.service.shop import NAMED, visit

CREATED = Created(CreateBody("3pr", ProblemBody(n_features=1)))


def test_the_correlation_is_that_of_the_positions() -> None:
    first = np.arange(5)
    for order in permutations(range(5)):
        second = np.array(order)
        expected = np.corrcoef(np.argsort(first), np.argsort(second))[0, 1]
        assert _rank_correlation(first, second) == pytest.approx(expected)
    assert _rank_correlation(np.array([0]), np.array([0])) == 1.0


def test_every_step_goes_further_back() -> None:
    """From 350: to 300, 200, 100, 0, and no further; what was learned after a rollback is undone first."""
    snapshots = [(100, 10, 1.0), (200, 20, 2.0), (300, 30, 3.0)]
    changes = [Record(1, "ranker/shop", 0.0, CREATED)]
    current, seq, steps = 350, 40, []
    for _ in range(4):
        to = StateList(changes, snapshots).before(current)
        steps.append(to)
        changes.append(Record(seq, "ranker/shop", 4.0, RolledBack(to)))
        current += 1
        snapshots.append((current, seq, 4.0))
        seq += 10
    assert steps == [300, 200, 100, 0]
    states = StateList(changes, snapshots)
    assert states.rows[0] == StateRow(0, 1, 0.0)
    assert [row.same_as for row in states.rows] == [None] * 4 + steps
    with pytest.raises(Conflict, match="initial state"):
        states.before(current)
    assert states.before(current + 5) == 0


def states(client: httpx.Client, name: str = "shop") -> list[int]:
    return [row["state"] for row in client.get(f"/rankers/{name}/snapshots").json()["snapshots"]]


def test_two_rollbacks_in_a_row_go_back_two(location: Location) -> None:
    with running(location) as service, Client(str(service.base_url)) as client:
        service.put("/rankers/shop", json=SHOP | {"snapshot_every": 3})
        serving, digests = inside(service).directory.ranker("shop").serving, {0: ""}
        digests[0] = digest(serving.state)
        for number in (3, 6, 9):
            learn(service, 3)
            until(lambda number=number: number in states(service))  # type: ignore[misc]
            digests[number] = digest(serving.state)
        learn(service, 1)
        for expected in (9, 6, 3, 0):
            assert client.rollback("shop")["rolled_back_to"] == expected
            assert digest(serving.state) == digests[expected]
        with pytest.raises(Exception, match="initial state"):
            client.rollback("shop")
        listed = client.states("shop")
        assert [row["same_as"] for row in listed["snapshots"]] == [None, None, None, None, 9, 6, 3, 0]
        assert listed["state"] == listed["snapshots"][-1]["state"] == 14
        learn(service, 2)
        assert client.rollback("shop")["rolled_back_to"] == 0
    assert not replay_log(location.store or str(location.data))[0].differing


@pytest.mark.parametrize("named", [False, True])
def test_the_difference_is_shown_before_it_is_made(tmp_path: Path, named: bool, capsys: Any) -> None:
    body = NAMED if named else SHOP
    with running(Location(tmp_path)) as service, Client(str(service.base_url)) as client:
        service.put("/rankers/shop", json=body | {"snapshot_every": 4})
        for shift in range(12):
            if named:
                visit(service)
            else:
                rank(service, items=items(shift=shift))
        assert client.rollback("shop", 0, preview=True)["lists"] == 12
        if not named:
            learn(service, 12)
        runtime = inside(service).directory.ranker("shop")
        before, number = digest(runtime.serving.state), report(service)["state"]
        if not named:
            until(lambda: number in states(service))
            same = client.rollback("shop", number, preview=True)
            assert (same["changed"], same["rank_correlation"], same["examples"]) == (0, 1.0, [])
        result = client.rollback("shop", 0, preview=True)
        assert result["state"] == 0
        assert 0 < result["changed"] <= result["lists"]
        assert -1 <= result["rank_correlation"] < 1
        example = result["examples"][0]
        assert sorted(example["now"]) == sorted(example["then"])
        assert example["now"] != example["then"]
        assert (digest(runtime.serving.state), report(service)["state"]) == (before, number)
        for options in (["--list"], ["--state", "0", "--preview"], ["--state", "0"], ["--list", "--json"]):
            with pytest.raises(SystemExit) as leaving:
                main(["rollback", "shop", *options, "--to", str(service.base_url)])
            assert not leaving.value.code
    printed = capsys.readouterr().out
    assert f"{result['changed']} of {result['lists']} recent lists would get another order" in printed
    assert f"shop is back at state 0, served as state {number + 1}" in printed
    assert '"same_as":0' in printed


def test_old_snapshots_are_thinned_and_their_number_is_bounded() -> None:
    """One a minute for two weeks: never more than the bound, and every age has one within a factor of two."""
    rows: list[tuple[int, float]] = []
    for number in range(1, 20_000):
        now = 60.0 * number
        rows.append((number, now))
        surplus = base._surplus_snapshots(rows, now)
        rows = [row for row in rows if row[0] not in surplus]
        assert len(rows) <= base.MAX_RECENT_SNAPSHOTS + base.SNAPSHOTS_PER_DOUBLING * 21
    assert [number for number, _ in rows[-20:]] == list(range(19_980, 20_000))
    ages = sorted(now - at for _, at in rows)
    assert ages[-1] > 0.5 * now
    assert all(later < 2.1 * age for age, later in pairwise(ages[20:]))


def test_thinned_states_do_not_stop_restarts_replays_and_erasures(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_RECENT_SNAPSHOTS", 2)
    address = location.store or str(location.data)
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 1})
        for round_number in range(4):
            shown = rank(client, items=items(shift=round_number), user="anne" if round_number == 1 else "bob")
            client.post(
                "/rankers/shop/feedback",
                json={"impression": shown["impression"], "clicks": [shown["ranking"][1]], "final": True},
            )
            until(lambda n=round_number: n + 1 in states(client))  # type: ignore[misc]
        to = states(client)[-2]
        client.post("/rankers/shop/rollback", json={"state": to}).raise_for_status()
        learn(client, 12)
        until(lambda: report(client)["state"] in states(client))
        assert len(states(client)) < 8
        assert to not in states(client)
        learned = digest(inside(client).directory.ranker("shop").serving.state)
    assert not replay_log(address)[0].differing
    with running(location) as client:
        assert digest(inside(client).directory.ranker("shop").serving.state) == learned
        assert client.delete("/users/anne").json()["impressions"] == 1
        assert digest(inside(client).directory.ranker("shop").serving.state) == learned
        assert not replay_log(address)[0].differing
        assert client.delete("/users/bob?relearn=true").json()["impressions"] == 3
        result = replay_log(address)[0]
        assert (result.differing, result.learned) == ((), 12)
        assert any(isinstance(record.event, RolledBack) for record in location.records())
        assert digest(inside(client).directory.ranker("shop").serving.state) == result.digest
