"""The drift alarm is a number, a metric and a line of the log, once when it is raised and once when it ends."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rankloop.service.domain.counters import Counters
from rankloop.service.domain.drift_alarm import DriftAlarms, click_rate_drift
from tests.service.cases import Location, learn, running


def counters(recent: float) -> Counters:
    return Counters(clickable=5000, clicked=1500, long_term_click_rate=0.3, recent_click_rate=recent)


def test_the_z_score_is_the_change_in_standard_errors() -> None:
    from rankloop.service.domain.counters import RECENT_RATE_STEP as STEP

    z_score, _ = click_rate_drift(counters(0.2))
    assert z_score == pytest.approx(-0.1 / (0.3 * 0.7 * STEP / (2 - STEP)) ** 0.5)
    assert click_rate_drift(Counters()) == (0.0, False)


def test_an_alarm_is_logged_when_it_is_raised_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    alarms = DriftAlarms()
    with caplog.at_level(logging.WARNING, "rankloop.service"):
        for recent in (0.3, 0.01, 0.0, 0.3, 0.3):
            alarms.watch("shop", counters(recent))
    raised, ended = (record.getMessage() for record in caplog.records)
    assert raised.startswith("drift alarm of ranker shop: the click rate went from 0.300 to 0.010, z = -")
    assert ended == "drift alarm of ranker shop has ended"


def test_the_alarm_is_a_metric(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json={"learner": "3pr", "problem": {"feature_names": ["a", "b", "c"]}})
        learn(client, 2)
        metrics = client.get("/metrics").text
    assert 'rankloop_drift_alarm{ranker="shop"} 0.0' in metrics
    assert 'rankloop_click_rate_z_score{ranker="shop"}' in metrics
