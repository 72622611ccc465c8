"""Click models fitted to logs: known people are found again, likelihood never falls, the right model is chosen."""

import numpy as np
import pytest

from rankloop.click_models.base import ALIKE, Prior, estimated_prior
from rankloop.click_models.fit import FIXED_ORDER, MODELS, all_alike, fit, fit_users
from rankloop.click_models.likelihood import prior_of_log
from rankloop.click_models.page_log import page_log
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.engine import Here, Threads
from tests.click_models.worlds import PEOPLE, world


@pytest.fixture(scope="module")
def logs():
    return {name: world(users) for name, users in PEOPLE.items()}


@pytest.fixture(scope="module")
def fits(logs):
    return {name: fit(log, name) for name, (log, _) in logs.items()}


@pytest.mark.parametrize("model", MODELS)
def test_known_people_are_found_again(logs, fits, model):
    truth, fitted = logs[model][1], fits[model]
    seen = fitted.examined > 60
    assert seen.sum() > 40
    assert np.abs(fitted.attraction - truth)[seen].mean() < 0.05
    assert 1.5 < fitted.prior.rows < 10  # the pairs were drawn as if 4 rows had been seen
    people = PEOPLE[model]
    if model == "pbm":
        np.testing.assert_allclose(fitted.examination[:, 0], [1, 0.6, 0.4, 0.3, 0.2, 0.1], atol=0.05)
    if model == "ubm":
        for position, way in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]:
            assert fitted.examination[position, way] == pytest.approx(people.examination[position][way], abs=0.1)
    if model == "dcm":
        np.testing.assert_allclose(fitted.stop[:2], people.stop[:2], atol=0.12)
        assert (fitted.stop[:4] > people.stop).all()  # as its closed form is known to be
    if model in ("sdbn", "dbn"):
        attraction, satisfaction = fitted.levels()
        true = np.interp(attraction, people.attraction, people.satisfaction)
        if model == "sdbn":
            assert (satisfaction > true).all()  # as its closed form is known to be
        else:
            np.testing.assert_allclose(satisfaction, true, atol=0.25)  # drawn together, as alike as they seem
            clicks, each = fitted.clicks, np.interp(truth, people.attraction, people.satisfaction)
            assert np.average(fitted.satisfaction - each, weights=clicks) == pytest.approx(0.0, abs=0.06)
            assert fitted.persistence == pytest.approx(0.8, abs=0.05)


def test_closed_forms_by_hand():
    """Pages a b c: clicks on a and b, on b, on none."""
    clicked = np.array([1.0, 1, 0, 0, 1, 0, 0, 0, 0])
    log = page_log(np.array([0, 3, 6, 9]), np.tile([0, 1, 2], 3), clicked, ["q"] * 9, list("abc") * 3)
    flat = Prior(np.full(3, 0.5), 0.0)
    assert MODELS["cascade"](log, flat).attraction.tolist() == pytest.approx([1 / 3, 1 / 2, 1e-6])
    assert MODELS["dcm"](log, flat).attraction.tolist() == pytest.approx([1 / 3, 2 / 3, 1e-6])
    assert MODELS["dcm"](log, flat).stop.tolist() == pytest.approx([0.5 / 2, 2.5 / 3, 0.5 / 1])
    assert MODELS["sdbn"](log, flat).attraction.tolist() == pytest.approx([1 / 3, 2 / 3, 1e-6])
    prior = Prior(np.full(3, 0.5), 2.0)
    assert MODELS["cascade"](log, prior).attraction.tolist() == pytest.approx([2 / 5, 2 / 4, 1 / 3])


@pytest.mark.parametrize("model", ["pbm", "ubm", "dbn"])
@pytest.mark.parametrize("rows", [0.0, 3.0])
def test_the_likelihood_never_falls(logs, model, rows):
    log, truth = logs["ubm"]
    objectives = np.array(MODELS[model](log, Prior(np.full(len(truth), 0.3), rows)).objectives)
    assert len(objectives) > 5
    assert np.diff(objectives).min() > -1e-6


def test_the_model_of_the_people_is_chosen(logs):
    for model in ("pbm", "cascade", "dbn"):
        log = logs[model][0]
        found = fit_users(log.pages(np.arange(1500)), folds=2)
        assert found.fitted.model == model
        assert found.held_out[model].log_likelihood == max(one.log_likelihood for one in found.held_out.values())
        assert all(1.0 < one.perplexity < 2.0 for one in found.held_out.values())
        assert found.notes == ()


def test_what_is_fitted_is_a_spec_of_people(fits):
    for fitted in fits.values():
        people = build(fitted.spec(), "feedback")
        assert build(spec_of(people), "feedback") == people
        assert people.shown == 6
        assert people.by_grade
        assert sorted(people.attraction) == list(people.attraction)


def test_noise_makes_all_items_alike():
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 200, 300).astype(float)
    assert estimated_prior(rng.binomial(rows.astype(int), 0.2).astype(float), rows).rows == ALIKE
    shares = rng.beta(2, 8, 300)
    found = estimated_prior(rng.binomial(rows.astype(int), shares).astype(float), rows)
    assert found.rows == pytest.approx(10, rel=0.3)
    assert found.mean[0] == pytest.approx(0.2, abs=0.02)
    assert estimated_prior(np.array([1.0, 0.0]), np.array([1.0, 1.0])).rows == ALIKE  # one row each tells nothing


def test_pairs_are_as_alike_as_their_clicks(logs):
    log, truth = logs["pbm"]
    for model in ("pbm", "dbn"):
        assert 1.5 < fit(log, model).prior.rows < 10
        known = all_alike(log, model, truth) if model == "pbm" else None
        assert known is None or prior_of_log(log, known).rows > 100  # nothing is left to explain
    shuffled = log._replace(pair=np.random.default_rng(0).permutation(log.pair))
    assert fit(shuffled, "pbm").prior.rows == ALIKE


def test_an_order_that_never_changes_is_said():
    clicked = np.array([1.0, 0, 1, 0, 0, 1] * 30)
    log = page_log(np.arange(0, 181, 2), np.tile([0, 1], 90), clicked, ["q"] * 180, ["a", "b"] * 90)
    assert FIXED_ORDER in fit_users(log, "pbm", folds=2).notes


@pytest.mark.parametrize(
    ("clicked", "sessions", "model", "message"),
    [
        ([0.0, 0.0], [0, 1], "best", "the log has no click"),
        ([1.0, 0.0], [0, 0], "pbm", "the log is of one visit"),
        ([1.0, 0.0], [0, 1], "pmb", "one of cascade, pbm, dcm, sdbn, dbn, ubm or best, not 'pmb'"),
    ],
)
def test_what_cannot_be_fitted(clicked, sessions, model, message):
    log = page_log(np.array([0, 1, 2]), np.array([0, 0]), np.array(clicked), ["q", "q"], ["a", "b"], sessions)
    with pytest.raises(InvalidInput, match=message):
        fit_users(log, model)


def test_folds_are_fitted_wherever_an_engine_says(logs):
    """The same answer to the last bit; progress counts every fold of every model, and the fit to the whole log."""
    log, seen = logs["pbm"][0], []
    small = log.pages(np.arange(300))
    here, there = (
        fit_users(small, engine=engine, folds=3, progress=lambda done, of: seen.append((done, of)))
        for engine in (Here(), Threads(workers=2))
    )
    assert seen == [(done, 19) for done in range(1, 20)] * 2
    for name, one in here.held_out.items():
        for mine, other in zip(one, there.held_out[name]):
            np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(here.fitted.attraction, there.fitted.attraction)
