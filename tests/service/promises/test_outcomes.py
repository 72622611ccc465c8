"""Purchases and revenue are learned once each, with the clicks or days later, and a replay gives the same state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rankloop import Ranker, evaluate, read_log
from rankloop.client import Client
from rankloop.experiments.rehearsal.attraction import RehearsalLog
from rankloop.service.application.rebuild import replay_records
from rankloop.service.application.service_log_reader import read_service_log
from rankloop.service.domain import feedback_acceptance
from rankloop.service.records import OutcomesReceived
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running

OUTCOMES = {"purchase": {"weight": 20, "window": "7d"}, "revenue": {"weight": 0.5, "window": "2d"}}
MONEY_SHOP = SHOP | {"outcomes": OUTCOMES, "snapshot_every": 10}


@pytest.fixture(scope="module")
def client(module_position: Location) -> Iterator[httpx.Client]:
    with running(module_position) as client:
        assert client.put("/rankers/shop", json=MONEY_SHOP).status_code == 201
        yield client


def _learned(client: httpx.Client) -> int:
    return int(report(client)["counts"]["learned"])


def _totals(client: httpx.Client) -> dict[str, float]:
    return {name: counts["total"] for name, counts in report(client)["outcomes"].items()}


def test_outcomes_before_the_close_are_one_update_with_the_clicks(client: httpx.Client) -> None:
    before, totals, shown = _learned(client), _totals(client), rank(client)
    second = shown["ranking"][1]
    answers = [
        feed(client, shown["impression"], outcomes={"purchase": {second: 1}}),
        feed(client, shown["impression"], outcomes={"purchase": {second: 1}}),
        feed(client, shown["impression"], clicks=[second], outcomes={"revenue": {second: 19.9}}, final=True),
    ]
    assert [answer.json()["verdict"] for answer in answers] == ["accepted", "repeated", "closed"]
    assert _learned(client) == before + 1
    assert _totals(client) == {"purchase": totals["purchase"] + 1, "revenue": totals["revenue"] + 19.9}


def test_late_outcomes_are_learned_once_each(client: httpx.Client) -> None:
    before, shown = _learned(client), rank(client)
    first, second = shown["ranking"][:2]
    assert feed(client, shown["impression"], clicks=[second], final=True).json()["verdict"] == "closed"
    assert feed(client, shown["impression"], clicks=[first]).status_code == 410
    for _ in range(2):
        feed(client, shown["impression"], outcomes={"purchase": {second: 1}}).raise_for_status()
    assert _learned(client) == before + 2
    # Totals: a second purchase adds one, a smaller total adds nothing.
    verdicts = [feed(client, shown["impression"], outcomes={"purchase": {second: n}}).json()["verdict"] for n in (2, 1)]
    assert verdicts == ["accepted", "repeated"]
    # Clicks that were sent already and an outcome in one request: only the outcome is new.
    repeated = feed(client, shown["impression"], clicks=[second], final=True, outcomes={"revenue": {second: 5}})
    assert repeated.json()["verdict"] == "accepted"


def test_an_outcome_after_its_window_is_gone(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    before, shown = _learned(client), rank(client)
    second = shown["ranking"][1]
    feed(client, shown["impression"], clicks=[second], outcomes={"revenue": {second: 3.0}}, final=True)
    now, three_days = feedback_acceptance.time.time, 3 * 86400.0
    monkeypatch.setattr(feedback_acceptance.time, "time", lambda: now() + three_days)
    late = feed(client, shown["impression"], outcomes={"revenue": {second: 8.0}})
    same = feed(client, shown["impression"], outcomes={"revenue": {second: 3.0}})
    in_time = feed(client, shown["impression"], outcomes={"purchase": {second: 1}})
    monkeypatch.undo()
    assert (late.status_code, same.json()["verdict"], in_time.status_code) == (410, "repeated", 200)
    assert "revenue" in late.json()["detail"]
    assert _learned(client) == before + 2


def test_only_what_was_added_is_learned_up_to_the_limit(client: httpx.Client, module_position: Location) -> None:
    shown = rank(client)
    first, second = shown["ranking"][:2]
    for outcomes in (
        {"revenue": {first: 10}},
        {"purchase": {first: 1}, "revenue": {first: 10, second: 4}},
        {"purchase": {first: 2}, "revenue": {second: 1000}},
    ):
        feed(client, shown["impression"], outcomes=outcomes).raise_for_status()
    numbers = {id: [each["id"] for each in items()].index(id) for id in (first, second)}
    written = [record.event for record in module_position.records() if isinstance(record.event, OutcomesReceived)][-3:]
    learned = [{id: event.weights.get(number, 0.0) for id, number in numbers.items()} for event in written]
    # 20 per purchase and 0.5 per unit of money, each at most 20 in all.
    assert learned == [{first: 5.0, second: 0.0}, {first: 20.0, second: 2.0}, {first: 0.0, second: 18.0}]


@pytest.mark.parametrize(
    ("outcomes", "problem"),
    [
        ({"refund": {"i1": 1}}, "refund"),
        ({"purchase": {"i9": 1}}, "i9"),
        ({"purchase": {"i1": -1}}, "negative"),
        ({"purchase": {"i1": "one"}}, "purchase"),
    ],
)
def test_wrong_outcomes_change_nothing(client: httpx.Client, outcomes: Any, problem: str) -> None:
    shown, written = rank(client), len(inside(client).store.rows("SELECT seq FROM rankloop_events"))
    answer = feed(client, shown["impression"], clicks=["i1"], outcomes=outcomes)
    assert answer.status_code == 422
    assert problem in answer.text
    assert len(inside(client).store.rows("SELECT seq FROM rankloop_events")) == written


def test_a_declaration_is_checked(client: httpx.Client) -> None:
    for outcomes, reason in (
        ({"purchase": {"weight": -1}}, "weight"),
        ({"purchase": {"window": "7 weeks"}}, "window"),
        ({"purchase": {"window": "365d"}}, "90d"),
        ({"clicks": {}}, "kind of feedback"),
        ({"Kauf!": {}}, "a to z"),
    ):
        answer = client.put("/rankers/wrong", json=SHOP | {"outcomes": outcomes})
        assert answer.status_code == 422
        assert reason in answer.text
    graded = {"learner": "online_gradient", "problem": SHOP["problem"], "outcomes": {"purchase": {"weight": 20}}}
    refused = client.put("/rankers/graded", json=graded)
    assert refused.status_code == 422
    assert "click_regression" in refused.text
    reported = client.put("/rankers/graded", json=graded | {"outcomes": {"purchase": {"weight": 0}}})
    assert reported.status_code == 201


def test_outcomes_are_in_metrics_and_exports(client: httpx.Client) -> None:
    import io

    import pyarrow.parquet as pq

    shown = rank(client)
    second = shown["ranking"][1]
    feed(client, shown["impression"], clicks=[second], outcomes={"purchase": {second: 1}}, final=True)
    feed(client, shown["impression"], outcomes={"purchase": {second: 2}, "revenue": {second: 7.5}})
    totals = _totals(client)
    assert f'rankloop_outcomes_total{{outcome="purchase",ranker="shop"}} {totals["purchase"]}' in (
        client.get("/metrics").text
    )
    table = pq.read_table(io.BytesIO(client.get("/log/shop.parquet").content)).to_pylist()
    row = next(row for row in table if row["impression"] == shown["impression"])
    position = row["ranking"].index(second)
    assert (row["outcome.purchase"][position], row["outcome.revenue"][position]) == (2.0, 7.5)
    assert sum(sum(row["outcome.purchase"]) for row in table) == totals["purchase"]


def test_a_replay_gives_the_same_state(client: httpx.Client, module_position: Location) -> None:
    """After outcomes with clicks and late ones, with snapshots in between."""
    bought = {"purchase": {"i1": 1}}
    first, second = rank(client), rank(client)
    feed(client, first["impression"], clicks=["i1"], outcomes=bought, final=True).raise_for_status()
    feed(client, second["impression"], clicks=["i1"], final=True).raise_for_status()
    feed(client, second["impression"], outcomes=bought).raise_for_status()
    learn(client, 12)
    served, (result, *_) = report(client), replay_records(module_position.records())
    assert (result.learned, result.state, result.differing) == (served["counts"]["learned"], served["state"], ())
    assert result.checked
    late = [record.event for record in module_position.records() if isinstance(record.event, OutcomesReceived)]
    assert any(event.ranked is not None for event in late)
    assert any(event.ranked is None for event in late)


def test_a_restart_and_a_bounded_log_keep_outcomes(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=MONEY_SHOP)
        shown = rank(client)
        feed(client, shown["impression"], clicks=["i1"], outcomes={"purchase": {"i1": 1}}, final=True)
        learn(client, 12)
    n_events = len(location.records())
    with running(location, max_log_days=1e-9) as client:
        time.sleep(0.3)
        assert len(location.records()) == n_events  # an outcome may still come
        assert feed(client, shown["impression"], outcomes={"purchase": {"i1": 1}}).json()["verdict"] == "repeated"
        assert feed(client, shown["impression"], outcomes={"purchase": {"i1": 3}}).json()["verdict"] == "accepted"
        assert _totals(client)["purchase"] == 3


def test_the_service_learns_what_the_ranker_learns(tmp_path: Any) -> None:
    """The same clicks and outcomes in Python and over HTTP lead to the same weights."""
    ranker = Ranker("click_regression(swap=0)", features=SHOP["problem"]["feature_names"], outcomes=OUTCOMES)
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=MONEY_SHOP | {"learner": "click_regression(swap=0)"}).raise_for_status()
        for shift in range(6):
            rows = {
                each["id"]: dict(zip(SHOP["problem"]["feature_names"], each["features"])) for each in items(shift=shift)
            }
            here, there = ranker.rank(rows), rank(client, items=items(shift=shift))
            assert here.ids == there["ranking"]
            item = here.ids[shift % 3]
            outcomes = {"purchase": {item: 1}, "revenue": {item: 100.0 * shift}}
            if shift % 2:
                ranker.learn(here, clicks=[item], outcomes=outcomes)
                feed(client, there["impression"], clicks=[item], outcomes=outcomes, final=True).raise_for_status()
            else:
                ranker.learn(here, clicks=[item])
                ranker.learn(here, outcomes=outcomes)
                feed(client, there["impression"], clicks=[item], final=True).raise_for_status()
                feed(client, there["impression"], outcomes=outcomes).raise_for_status()
        assert report(client)["weights"] == ranker.weights


def test_an_uploaded_model_keeps_its_outcomes_or_takes_others(tmp_path: Any) -> None:
    for name, declared in (("sold", OUTCOMES), ("plain", {})):
        Ranker("3pr", features=SHOP["problem"]["feature_names"], outcomes=declared).save(tmp_path / name)
    with running(Location(tmp_path / "data")) as client, Client(str(client.base_url)) as ours:
        kept = ours.upload("kept", tmp_path / "sold")
        assert kept["spec"]["outcomes"]["purchase"] == {"weight": 20.0, "window": 7 * 86400.0}
        assert list(ours.upload("new", tmp_path / "plain", outcomes={"purchase": {"weight": 5}})["outcomes"]) == [
            "purchase"
        ]
        shown = ours.rank("new", {"i1": [1.0, 0.0, 0.0], "i2": [0.0, 1.0, 0.0]})
        assert ours.feedback("new", shown, outcomes={"purchase": {"i1": 1}}).verdict == "accepted"


def test_evaluate_and_rehearse_report_each_outcome(tmp_path: Any) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=MONEY_SHOP).raise_for_status()
        for shift in range(80):
            shown = rank(client, items=items(shift=shift), query_id=str(shift % 4))
            clicks = shown["ranking"][shift % 2 : 2]
            feed(client, shown["impression"], clicks=clicks, final=True).raise_for_status()
            if shift % 4 == 0:
                sold = {"purchase": {clicks[0]: 1}, "revenue": {clicks[0]: 10.0}}
                feed(client, shown["impression"], outcomes=sold).raise_for_status()
        model = tmp_path / "shop.rankloop"
        model.write_bytes(client.get("/rankers/shop/state").content)
        export = tmp_path / "export.parquet"
        export.write_bytes(client.get("/log/shop.parquet").content)
    assert Ranker.load(model).outcomes["purchase"].weight == 20
    log = read_service_log(str(tmp_path))
    brought, _ = log.outcomes()
    assert {name: values.sum() for name, values in brought.items()} == {"purchase": 20.0, "revenue": 200.0}
    assert sum(page.outcomes["revenue"].sum() for page in log.rankings()) == 200.0  # type: ignore[misc]
    for each in (log, export):
        answer = evaluate(model, each)
        assert "purchase per 1,000 pages" in str(answer)
        assert "revenue per 1,000 pages" in str(answer)
    assert set(RehearsalLog.of(read_log(export)).worth) == {"clicks", "purchase", "revenue"}
