"""Choosing a click model for a log by visits that were held out."""

import numpy as np
import pytest

from rankloop.click_models.examination import estimate_examination
from rankloop.click_models.fit import fit_users
from rankloop.core.errors import InvalidInput
from rankloop.engine import Here, Threads
from rankloop.logs.list_log import ClickArrays
from rankloop.training.clicks.weights import estimate_examined
from tests.click_models.worlds import PEOPLE, world


@pytest.fixture(scope="module")
def logs():
    return {name: world(users) for name, users in PEOPLE.items()}


def test_the_model_of_the_people_is_chosen(logs):
    for model in ("pbm", "cascade", "dbn"):
        log = logs[model][0]
        found = fit_users(log.pages(np.arange(1500)), folds=2)
        assert found.fitted.name == model
        best = max(fit.log_likelihood for fit in found.held_out.values())
        assert found.held_out[model].log_likelihood >= best - 0.001
        assert all(1.0 < one.perplexity < 2.0 for one in found.held_out.values())
        assert found.examination.evidence == "moves"


def test_every_command_has_the_same_curve(logs):
    log = logs["pbm"][0]
    shared = estimate_examination(log)
    users = fit_users(log, "pbm", folds=2)
    np.testing.assert_array_equal(users.examination.curve, shared.curve)
    np.testing.assert_allclose(users.fitted.examination[:, 0], np.minimum(shared.curve, 1.0))
    assert shared.curve == pytest.approx([1, 0.6, 0.4, 0.3, 0.2, 0.1], abs=0.06)
    assert str(shared) in str(users)
    np.testing.assert_allclose(estimate_examined(log), np.minimum(shared.curve, 1.0))


def test_an_order_that_never_changes_is_said():
    clicked = np.array([1.0, 0, 1, 0, 0, 1] * 30)
    log = ClickArrays.of(np.arange(0, 181, 2), np.tile([0, 1], 90), clicked, ["q"] * 180, ["a", "b"] * 90)
    assert "a guess" in fit_users(log, "pbm", folds=2).notes[0]


@pytest.mark.parametrize(
    ("clicked", "sessions", "model", "message"),
    [
        ([0.0, 0.0], [0, 1], "best", "the log has no click"),
        ([1.0, 0.0], [0, 0], "pbm", "the log has only one visit"),
        ([1.0, 0.0], [0, 1], "pmb", "one of cascade, pbm, dcm, sdbn, dbn, ubm or best, not 'pmb'"),
    ],
)
def test_what_cannot_be_fitted(clicked, sessions, model, message):
    log = ClickArrays.of(np.array([0, 1, 2]), np.array([0, 0]), np.array(clicked), ["q", "q"], ["a", "b"], sessions)
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
