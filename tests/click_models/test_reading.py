"""Families of users: attraction from clicks beside a background, and clicks that go to any item."""

import numpy as np

from benchmarks.log_worlds import KINDS, SECOND_KINDS, STEEP, THIRD_KINDS, build_world
from rankloop.click_models.examination import estimate_examination
from rankloop.click_models.reading import (
    _expected_attraction,
    fit_readings,
    lacks_pages_with_two_clicks,
    lacks_pages_without_clicks,
)
from tests.click_models.worlds import PEOPLE, world


def test_attraction_without_background_is_the_mean_of_a_gamma_distribution():
    clicks, examined, mean = np.array([0.0, 3.0, 1.0]), np.array([10.0, 20.0, 2.0]), np.full(3, 0.2)
    expected = _expected_attraction(clicks, examined, np.full(3, 1e-12), mean)
    # Rates below 2 % of the mean are cut, which lifts the expectation without clicks a little.
    np.testing.assert_allclose(expected, (clicks + 1.0) / (examined + 1.0 / mean), rtol=0.06)


def test_clicks_that_a_background_explains_say_little_of_attraction():
    clicks, examined = np.full(2, 4.0), np.full(2, 10.0)
    without, beside = _expected_attraction(clicks, examined, np.array([1e-12, 4.0]), np.full(2, 0.1))
    assert beside < 0.7 * without


def test_clicks_by_trust_and_by_chance_stay_possible():
    for kind in (KINDS["trust bias"], THIRD_KINDS["bots"]):
        log = build_world(kind, 0).second
        readings = fit_readings(log, estimate_examination(log))
        assert any(reading.trusts for reading in readings)
        assert not all(reading.trusts for reading in readings)


def test_daily_re_ranking_by_clicks_is_noticed():
    log = build_world(SECOND_KINDS["daily re-ranking by clicks with noise"], 0).second
    estimate = estimate_examination(log)
    low, high = estimate.interval
    assert estimate.reaction_z > 3.0
    assert estimate.reacts
    assert ((low <= STEEP) & (high >= STEEP)).all()


def test_pages_kept_for_a_click_do_not_make_users_stop():
    log = build_world(KINDS["good order, few moves"], 0).second
    assert not lacks_pages_without_clicks(log)
    kept = log.pages(np.flatnonzero(np.add.reduceat(log.clicked, log.offsets[:-1])))
    assert lacks_pages_without_clicks(kept)
    readings = fit_readings(kept, estimate_examination(kept))
    assert not readings[0].has_memory
    assert not readings[0].trusts


def test_one_click_on_a_page_does_not_show_that_users_stop_there():
    log = world(PEOPLE["cascade"])[0]
    assert lacks_pages_with_two_clicks(log)
    assert not lacks_pages_with_two_clicks(world(PEOPLE["pbm"])[0])
    memories = [reading.has_memory for reading in fit_readings(log, estimate_examination(log))]
    assert memories[0]
    assert not all(memories)  # users who choose one of what they read resemble those who stop
