"""A/B tests by user: sticky variants, means per user with intervals, sample ratio, guardrails, restarts."""

from __future__ import annotations

import random
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.service.domain import ab_test
from rankloop.service.domain.ab_test import SplitCounts, UserTotals, variant_of
from rankloop.service.records import Ranked
from tests.service.cases import SHOP, Location, inside, items, running

SOLD = {"purchase": {"weight": 20, "window": "7d"}, "revenue": {"weight": 0.5}}
TEST: dict[str, Any] = {
    "a": {"ranker": "new"},
    "b": {"kind": "given_order"},
    "method": "split",
    "guardrails": {"purchase": 0.02},
}


def test_users_keep_their_side_and_are_divided_anew_in_every_experiment() -> None:
    users = [f"user-{number}" for number in range(4000)]
    first, again, other = ([variant_of(name, 0, user) for user in users] for name in ("x", "x", "y"))
    assert first == again
    assert 0.46 < first.count("a") / len(users) < 0.54
    assert 0.46 < np.mean([one == two for one, two in zip(first, other)]) < 0.54
    assert variant_of("x", 1, "user-1") in ("a", "b")


def _shown(user: str, variant: str, number: int) -> Ranked:
    return Ranked(f"i{number}", ["p"], b"", [0], user=user, variant=variant)


def test_sums_are_those_of_the_users() -> None:
    rng, counts, totals = random.Random(5), SplitCounts(), UserTotals("salt", ["clicks", "revenue"])
    brought: dict[tuple[str, str], float] = {}
    for number in range(600):
        user = f"u{rng.randrange(80)}"
        ranked = _shown(user, variant_of("x", 0, user), number)
        totals.show(counts, ranked, at=1000.0 + number)
        brought.setdefault((ranked.variant, user), 0.0)
        if number % 3 == 0:
            values = {"revenue": {0: rng.random(), 3: 2.0}}
            totals.add(counts, ranked, values)
            brought[ranked.variant, user] += sum(values["revenue"].values())
        if number == 300:  # a restart from a snapshot
            content, totals = totals.saved(), UserTotals("salt", ["clicks", "revenue"])
            totals.restore(content)
    for name, sums in zip("ab", counts.sums("revenue")):
        values = np.array([value for (variant, _), value in brought.items() if variant == name])
        assert sums.users == len(values)
        assert sums.mean == pytest.approx(values.mean())
        assert sums.variance == pytest.approx(values.var())
    assert (counts.began, counts.latest) == (1000.0, 1599.0)


def test_too_many_users_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ab_test, "MAX_USERS", 3)
    counts, totals = SplitCounts(), UserTotals("", ["clicks"])
    for number in range(5):
        totals.show(counts, _shown(f"u{number}", "a", number), at=1.0)
        totals.add(counts, _shown(f"u{number}", "a", number), {"clicks": {0: 1.0}})
    assert (counts.users, counts.not_counted, counts.metrics["clicks"].total) == ([3, 0], 2, [3.0, 0.0])
    assert "not counted" in counts.result(["clicks"], {})["warnings"][-1]


def _counts(users: tuple[int, int], means: tuple[float, float], variance: float) -> SplitCounts:
    squares = [n * (variance + mean**2) for n, mean in zip(users, means)]
    sums = ab_test.MetricSums([n * mean for n, mean in zip(users, means)], squares)
    return SplitCounts(list(users), metrics={"purchase": sums}, began=1.0, latest=1.0 + 10 * 86400)


def test_a_guardrail_alarms_when_the_interval_is_below_it() -> None:
    worse = _counts((20_000, 20_000), (0.08, 0.10), 0.09).result(["purchase"], {"purchase": 0.02})
    assert worse["alarms"] == ["purchase fell by more than 2%"]
    result = worse["metrics"]["purchase"]
    assert result["relative"] == pytest.approx(-0.2)
    assert result["relative_low"] < -0.2 < result["relative_high"] < -0.02
    assert result["is_decided"]
    unsure = _counts((2_000, 2_000), (0.095, 0.10), 0.09).result(["purchase"], {"purchase": 0.02})
    assert (unsure["alarms"], unsure["metrics"]["purchase"]["is_decided"]) == ([], False)
    # 40,000 users in 10 days; the days that are left follow from the users that are needed.
    needed = result["users_needed"]
    assert result["days_needed"] == pytest.approx(max(0, needed - 40_000) / 4000, rel=1e-6)
    assert SplitCounts().result(["purchase"], {})["metrics"]["purchase"]["days_needed"] is None


def test_sides_that_are_not_halves_are_warned_of() -> None:
    for users, is_wrong in (((5000, 5100), False), ((5000, 5600), True), ((0, 30), True), ((0, 3), False)):
        result = _counts(users, (0.1, 0.1), 0.09).result(["purchase"], {})
        assert result["sample_ratio"]["is_wrong"] is is_wrong
        assert bool(result["warnings"]) is is_wrong


def _visit(client: httpx.Client, user: str, shift: int) -> tuple[list[Any], str]:
    body = {"items": items(shift=shift)} | ({"user": user} if user else {})
    shown = client.post("/experiments/test/rank", json=body)
    assert shown.status_code == 200, shown.text
    return shown.json()["ranking"], shown.json()["impression"]


def _feed(client: httpx.Client, **body: Any) -> None:
    client.post("/experiments/test/feedback", json=body).raise_for_status()


def test_an_a_b_test_over_http(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/new", json=SHOP | {"learner": "3pr(start=[0, 0, 1])", "outcomes": SOLD}).raise_for_status()
        created = client.put("/experiments/test", json=TEST)
        assert created.status_code == 201, created.text
        assert client.put("/experiments/test", json=TEST).status_code == 200
        assert list(created.json()["metrics"]) == ["clicks", "purchase", "revenue"]
        variants = {}
        for number in range(40):
            user = f"u{number % 20}"
            ranking, impression = _visit(client, user, number)
            variant = variant_of("experiment/test", 0, user)
            given = [each["id"] for each in items(shift=number)]
            assert ranking == (given[::-1] if variant == "a" else given)
            variants[user] = variant
            _feed(client, impression=impression, clicks=ranking[:1], final=True)
            if variant == "b":
                _feed(client, impression=impression, outcomes={"purchase": {ranking[0]: 2}})
                _feed(client, impression=impression, outcomes={"purchase": {ranking[0]: 2}})
        ranking, impression = _visit(client, "", 3)  # the variant of an unknown user is that of the impression
        report = client.get("/experiments/test").json()
    unknown = variant_of("experiment/test", 0, impression)
    n_a = sum(variant == "a" for variant in [*variants.values(), unknown])
    assert report["users"] == {"a": n_a, "b": 21 - n_a}
    assert report["metrics"]["clicks"]["a"] == pytest.approx(2 * sum(s == "a" for s in variants.values()) / n_a)
    assert report["metrics"]["purchase"]["a"] == 0.0
    assert report["metrics"]["purchase"]["b"] == pytest.approx(
        4 * sum(s == "b" for s in variants.values()) / (21 - n_a)
    )
    assert report["metrics"]["purchase"]["p_value"] is None  # too few users
    with running(location) as client:
        again = client.get("/experiments/test").json()
        assert again == report
        _feed(client, impression=impression, outcomes={"purchase": {ranking[0]: 1}})
        assert inside(client).learning.worker.consumers["experiment/test"].projection.users is not None
        table = client.get("/log/test.jsonl?of=experiment").text
        assert '"variant":"a"' in table


def test_interleaving_reports_each_outcome(tmp_path: Any) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/new", json=SHOP | {"learner": "3pr(start=[0, 0, 1])", "outcomes": SOLD}).raise_for_status()
        client.put("/experiments/test", json={"a": {"ranker": "new"}, "b": {"kind": "given_order"}}).raise_for_status()
        for number in range(30):
            _, impression = _visit(client, "u", 0)
            _feed(client, impression=impression, clicks=["i3"], final=True)
            if number % 2:
                _feed(client, impression=impression, outcomes={"purchase": {"i0": 1}})
        report = client.get("/experiments/test").json()
    assert report["wins"] > report["losses"]
    assert report["win_share"][0] > 0.5
    assert report["p_value"] < 0.05
    assert report["outcomes"]["purchase"]["losses"] > report["outcomes"]["purchase"]["wins"] == 0


def test_an_erased_user_leaves_the_counts_consistent(tmp_path: Any) -> None:
    location = Location(tmp_path)
    with running(location) as client:
        client.put("/rankers/new", json=SHOP | {"outcomes": SOLD}).raise_for_status()
        client.put("/experiments/test", json=TEST).raise_for_status()
        for number in range(12):
            ranking, impression = _visit(client, f"u{number % 6}", number)
            _feed(client, impression=impression, clicks=ranking[:1], final=True)
            _feed(client, impression=impression, outcomes={"purchase": {ranking[0]: 1}})
        before = client.get("/experiments/test").json()
        erased = client.delete("/users/u3")
        assert erased.status_code == 200, erased.text
        ranking, impression = _visit(client, "u4", 0)
        _feed(client, impression=impression, outcomes={"purchase": {ranking[0]: 1}}, clicks=[], final=True)
        after = client.get("/experiments/test").json()
        assert after["users"] == before["users"]
        table = client.get("/log/test.jsonl?of=experiment").text
        assert '"u3"' not in table
    with running(location) as client:
        assert client.get("/experiments/test").json() == after


@pytest.mark.parametrize(
    "change",
    [{"guardrails": {"returns": 0.1}}, {"guardrails": {"clicks": 2}}, {"method": "interleaving"}, {"method": "coin"}],
)
def test_wrong_tests_are_refused(tmp_path: Any, change: dict[str, Any]) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/new", json=SHOP | {"outcomes": SOLD}).raise_for_status()
        assert client.put("/experiments/test", json=TEST | change).status_code == 422
