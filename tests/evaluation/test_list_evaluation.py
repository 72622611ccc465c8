"""Answers in worlds where the truth is known, and none where a log has none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.list_logs import PEOPLE, World
from rankloop import Problem, Query, Session, build
from rankloop.click_models.feature_fit import logistic
from rankloop.core.errors import InvalidInput
from rankloop.evaluation.list_evaluation import (
    ListOptions,
    _allowance,
    _intervals,
    evaluate_pages,
    told_apart,
)
from rankloop.evaluation.list_model import ListModel, Values
from rankloop.evaluation.list_pages import ShownPage, page_table

QUICK = ListOptions(resamples=30)
MARGIN = 0.03  # clicks per page: the truth itself is simulated


@pytest.fixture(scope="module")
def world() -> World:
    return World(PEOPLE["position-based"], seed=5, pages=900)


def fixed(world: World, weights: Any) -> Session:
    return world.session({"kind": "fixed_weights", "weights": tuple(np.asarray(weights).tolist())})


def test_a_list_log_answers_for_a_ranker_without_chance(world: World) -> None:
    """Fifty candidates, ten shown, and an order that was never shown: a clear win, found with its size."""
    session = fixed(world, world.state.weights)
    found, truth = evaluate_pages(session, world.pages, options=QUICK), world.truth(session, 1000)
    interval = found.ranker["clicks"]
    assert found.method == "examination_dr"
    assert found.cannot_tell == ()
    assert interval.lower - MARGIN < truth < interval.upper + MARGIN
    assert found.gain["clicks"].lower > 0
    assert found.doubts.known_by == "swaps"
    assert np.array(found.doubts.examined) == pytest.approx(1 / np.arange(1, 11), abs=0.1)
    assert found._replace(name="new ranker").verdicts[0].startswith("The new ranker earns")


def test_it_answers_for_one_that_explores_and_for_a_bad_one(world: World) -> None:
    end, first = (world.session(world.learner, state) for state in (world.state, None))
    for session in (end, first):
        found, truth = evaluate_pages(session, world.pages, options=QUICK), world.truth(session, 1000)
        assert found.ranker["clicks"].lower - MARGIN < truth < found.ranker["clicks"].upper + MARGIN
        assert found.cannot_tell == ()
    assert found.gain["clicks"].upper < 0  # as it began
    assert found.doubts.beyond > 0.4
    assert "is worse than what was shown" in found.verdicts[0]


def test_people_who_leave_after_a_click_are_known_by_it() -> None:
    """Here the position-based model promises a gain, and there is none; the log itself says so."""
    world = World(PEOPLE["dependent"], seed=0, pages=900)
    session = world.session(world.learner)
    found, truth = evaluate_pages(session, world.pages, options=QUICK), world.truth(session, 1000)
    assert found.method == "cascade_dr"
    assert "leave after a click" in found.why
    assert found.ranker["clicks"].lower - 3 * MARGIN < truth < found.ranker["clicks"].upper + 3 * MARGIN
    wrong = evaluate_pages(session, world.pages, "examination_dr", QUICK)
    assert any("users leave after a click" in warning for warning in wrong.warnings)
    assert abs(wrong.ranker["clicks"].value - truth) > 2 * abs(found.ranker["clicks"].value - truth)


def test_people_who_examine_by_their_last_click_are_known_by_it() -> None:
    """By position alone the learner at first seems to earn far more than it does."""
    world = World("ubm(max_grade=4, shown=10)", 0, 900, stream="linear_gaussian(n_items=25, n_features=5)")
    session = world.session(world.learner)
    found, truth = evaluate_pages(session, world.pages, options=QUICK), world.truth(session, 1000)
    assert found.method == found.doubts.likeliest == "browsing_dr"
    assert "depends on their last click" in found.why
    assert found.ranker["clicks"].lower - MARGIN < truth < found.ranker["clicks"].upper + MARGIN
    assert found.gain["clicks"].upper < 0
    wrong = evaluate_pages(session, world.pages, "cascade_dr", QUICK)
    assert any("use browsing_dr" in warning for warning in wrong.warnings)
    assert abs(wrong.ranker["clicks"].value - truth) > 2 * abs(found.ranker["clicks"].value - truth)


def pages_of(clicks: Any, seed: int = 0) -> list[ShownPage]:
    rng = np.random.default_rng(seed)
    return [ShownPage(Query.of(rng.normal(size=(6, 2))), rng.permutation(6), np.array(row)) for row in clicks]


def ranker(*weights: float) -> Session:
    return Session(build({"kind": "fixed_weights", "weights": weights}, "learner"), Problem(n_features=len(weights)))


def test_it_cannot_tell_of_items_that_are_like_none_that_was_shown() -> None:
    """The candidates that the ranker prefers lie where nothing was ever shown."""
    rng, pages = np.random.default_rng(0), []
    for _ in range(400):
        rows = np.concatenate([rng.normal(size=(3, 2)), rng.normal(size=(3, 2)) + 20.0])
        clicked = (rng.random(3) < [0.5, 0.3, 0.2]).astype(float)
        pages.append(ShownPage(Query.of(rows), np.concatenate([rng.permutation(3), [3, 4, 5]]), clicked))
    found = evaluate_pages(ranker(1.0, 1.0), pages, options=QUICK)
    assert found.doubts.novel > 0.9
    assert "like none that was shown" in found.verdicts[0]
    assert evaluate_pages(ranker(-1.0, 0.0), pages, options=QUICK).cannot_tell == ()


def test_it_cannot_tell_of_unknown_items_without_features() -> None:
    """Ten items with nothing but their ids, of which the last seven were never shown."""
    rng, pages = np.random.default_rng(0), []
    rows = Query.of(np.zeros((10, 0)))
    learner = build({"kind": "top_rank"}, "learner")
    session = Session(learner, Problem(n_features=0, n_items=10, shown=3))
    for _ in range(300):
        order = np.concatenate([rng.permutation(3), np.arange(3, 10)])
        clicked = (rng.random(3) < [0.5, 0.3, 0.2]).astype(float)
        pages.append(ShownPage(rows, order, clicked, pairs=list(range(10))))
    found = evaluate_pages(session, pages, options=QUICK)
    assert found.doubts.novel > 0.1
    assert found.cannot_tell


def test_it_cannot_tell_without_clicks_or_without_any_below() -> None:
    nothing = np.zeros((50, 3))
    with pytest.raises(InvalidInput, match="nothing was clicked"):
        evaluate_pages(ranker(1.0, 0.0), pages_of(nothing), options=QUICK)
    few = nothing.copy()
    few[:5, 1] = 1.0
    assert "5 clicks" in evaluate_pages(ranker(1.0, 0.0), pages_of(few), options=QUICK).cannot_tell[0]
    first = nothing.copy()
    first[:40, 0] = 1.0
    found = evaluate_pages(ranker(1.0, 0.0), pages_of(first), options=QUICK)
    assert "below the first position it has 0 clicks" in found.cannot_tell[0]
    told = evaluate_pages(
        ranker(1.0, 0.0), pages_of(first), options=QUICK._replace(position_bias=np.array([1.0, 0.5, 0.2]))
    )
    assert not any("below the first" in reason for reason in told.cannot_tell)
    assert told.doubts.known_by == "told"


def test_sessions_are_resampled_as_a_whole() -> None:
    """The same page twenty times over is one page to a bootstrap by session."""
    rng = np.random.default_rng(3)
    clicks = (rng.random((40, 3)) < 0.4).astype(float)
    pages = pages_of(clicks)
    again = [page._replace(session=number) for number, page in enumerate(pages) for _ in range(20)]
    options = QUICK._replace(position_bias=np.array([1.0, 0.6, 0.3]))
    one, many = (evaluate_pages(ranker(1.0, 0.0), given, options=options) for given in (pages, again))
    apart = evaluate_pages(ranker(1.0, 0.0), [page._replace(session=None) for page in again], options=options)
    wide, narrow = (found.log["clicks"].upper - found.log["clicks"].lower for found in (many, apart))
    assert wide == pytest.approx(one.log["clicks"].upper - one.log["clicks"].lower)
    assert narrow < 0.5 * wide
    assert many.n_sessions == 40


def people(*held_out: Any) -> Any:
    return SimpleNamespace(examination=SimpleNamespace(held_out=np.array(held_out, dtype=float)))


def test_people_are_told_apart_by_two_standard_errors() -> None:
    """Leads over four sessions: 4 with a spread of 0.5 · √4 = 1, then 1.6 with one of √0.68 · √4 = 1.65."""
    simple, leaving = people(0, 0, 0, 0), people(1.5, 0.5, 1.5, 0.5)
    browsing = people(2.5, 0.5, 2.3, 0.3)
    models: Any = {"examination_dr": simple, "cascade_dr": leaving}
    assert told_apart(models) == ("cascade_dr", ())
    assert told_apart(models | {"browsing_dr": browsing}) == ("cascade_dr", ("browsing_dr",))
    assert told_apart({"examination_dr": simple, "cascade_dr": people(1, -1, 1, -0.5)}) == (
        "examination_dr",
        ("cascade_dr",),
    )


def test_an_interval_holds_for_all_people_that_may_be() -> None:
    none = np.zeros(1)
    found = Values(np.array([2.0]), np.array([1.5]), none)
    own = [Values(np.array([value]), np.array([1.5]), none) for value in np.linspace(1.9, 2.1, 21)]
    rival = [Values(np.array([value]), np.array([1.4]), none) for value in np.linspace(2.2, 2.4, 21)]
    ranker, log, gain = _intervals(("clicks",), found, [own, rival], 0.95, np.array([0.05]))
    assert ranker["clicks"] == pytest.approx((2.0, 1.91 - 0.05, 2.39 + 0.05))
    assert log["clicks"] == pytest.approx((1.5, 1.4, 1.5))
    assert gain["clicks"] == pytest.approx((0.5, 0.41 - 0.05, 0.99 + 0.05))


def test_only_what_was_not_shown_is_allowed_for() -> None:
    """By hand: the click model's part of unseen items, by how far it is off, and by what a plainer one says of them."""
    rng, pages = np.random.default_rng(4), []
    for _ in range(150):
        order = rng.permutation(6)
        query = Query.of(rng.normal(size=(6, 2)))
        pages.append(ShownPage(query, order, (rng.random(3) < logistic(query.features[order[:3], 0] ** 2)) * 1.0))
    told = np.array([1.0, 0.6, 0.3])
    model = ListModel(page_table(pages, ranker(1.0, 0.0), positions=3), told=told)
    a, plain, row, wanted = model.attraction([one.weights for one in model.folds]), model.straight(), 0, np.zeros(2)
    for page in pages:
        best = np.argsort(-page.query.features[:, 0], kind="stable")[:3].tolist()
        items = list(dict.fromkeys([*page.ranking[:3].tolist(), *best]))
        for position, item in enumerate(best):
            if item not in page.ranking[:3]:
                at = row + items.index(item)
                wanted += told[position] * np.array([a[at], plain[at]]) / len(pages)
        row += len(items)
    doubts: Any = SimpleNamespace(calibration=0.9)
    assert abs(wanted[0] - wanted[1]) > 0.001
    assert _allowance(model, doubts) == pytest.approx([0.1 * wanted[0] + abs(wanted[0] - wanted[1])])
