"""Which moves are comparable: orders for single users, smooth moves, and queries that are read to different depths."""

import numpy as np
import pyarrow
import pytest

from rankloop.click_models.comparable_moves import pairs_by_viewer, positions_follow_users, segments_of_users
from rankloop.click_models.examination import Examination, estimate_examination
from rankloop.click_models.reading import _fit_steepness, fit_readings
from rankloop.evaluation.list_evaluation import LogJudge
from rankloop.evaluation.list_pages import PageTable
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ClickArrays
from rankloop.logs.reader import read_log
from rankloop.training.clicks.weights import pages_as_log

N_QUERIES, N_ITEMS, N_SHOWN = 20, 12, 6
CURVE = 1.0 / np.arange(1, N_SHOWN + 1)


def simulated_log(kind: str, seed: int = 0, n_pages: int = 3000) -> tuple[ClickArrays, np.ndarray]:
    """Return a log, and by row the probability of a click if its position were examined."""
    rng = np.random.default_rng(seed)
    quality, taste = rng.normal(size=(N_QUERIES, N_ITEMS)), 1.5 * rng.normal(size=(30, N_QUERIES, N_ITEMS))
    offsets, items, attraction, clicked, queries, users = np.arange(n_pages + 1) * N_SHOWN, [], [], [], [], []
    phase = rng.random((N_QUERIES, N_ITEMS))
    for page in range(n_pages):
        query, user = int(rng.integers(N_QUERIES)), int(rng.integers(30))
        appeal = quality[query].copy()
        if kind == "users":
            appeal += taste[user, query]
        if kind == "trends":
            appeal += 1.0 * np.sin(2 * np.pi * (1.5 * page / n_pages + phase[query]))
        moves = kind in ("noise", "depths") or (kind == "fixed" and query % 2 == 0)
        height = appeal + (1.0 * rng.normal(size=N_ITEMS) if moves else 0.0)
        if kind in ("variants", "layouts") and user % 2:
            height = quality[(query + 1) % N_QUERIES]
        shown = np.argsort(-height)[:N_SHOWN]
        chance = 1.0 / (1.0 + np.exp(1.0 - appeal[shown]))
        power = 2.5 if kind in ("depths", "fixed") and query % 2 else 0.3 if kind == "layouts" and user % 2 else 1.0
        items += [f"{query}-{item}" for item in shown]
        attraction += chance.tolist()
        clicked += (rng.random(N_SHOWN) < CURVE**power * chance).tolist()
        queries += [f"query {query}"] * N_SHOWN
        users.append(user)
    position = np.tile(np.arange(N_SHOWN), n_pages)
    log = ClickArrays.of(offsets, position, np.array(clicked, dtype=float), queries, items, users)
    return log, np.array(attraction)


@pytest.mark.parametrize(
    ("kind", "expected"), [("users", True), ("noise", False), ("variants", False), ("trends", False)]
)
def test_orders_of_single_users_are_told_from_noise_and_variants(kind: str, expected: bool) -> None:
    for seed in range(3):
        assert positions_follow_users(simulated_log(kind, seed)[0]) is expected


def test_without_returning_users_nothing_is_said_of_them() -> None:
    log = simulated_log("users")[0]
    assert not positions_follow_users(log._replace(session=np.arange(log.n_pages)))


def test_pairs_by_viewer_are_those_that_the_same_user_saw() -> None:
    log = simulated_log("users", n_pages=200)[0]
    by_user, user = pairs_by_viewer(log, log.session), np.repeat(log.session, np.diff(log.offsets))
    seen = {(int(u), log.query_ids[pair], log.items[pair]) for u, pair in zip(user, log.pair)}
    assert by_user.n_pairs == len(seen)
    assert {(int(u), by_user.query_ids[pair], by_user.items[pair]) for u, pair in zip(user, by_user.pair)} == seen


def test_orders_of_single_users_do_not_steepen_the_curve() -> None:
    log = simulated_log("users", n_pages=20_000)[0]
    estimate = estimate_examination(log)
    assert estimate.by_user
    assert "pages of the same user" in str(estimate)
    by_moves_of_all = estimate_examination(log._replace(session=np.arange(log.n_pages)))
    assert (by_moves_of_all.interval[1][1:] < CURVE[1:]).all()  # what would be believed otherwise
    low, high = estimate.interval
    assert (low <= CURVE).all()
    assert (high >= CURVE).all()


@pytest.mark.parametrize("seed", range(3))
def test_segments_are_kept_apart_where_they_click_otherwise(seed: int) -> None:
    same, other = simulated_log("variants", seed)[0], simulated_log("layouts", seed)[0]
    for log in (same, other):
        segment = segments_of_users(log)
        assert segment is not None
        assert segment.mean() == pytest.approx(0.5, abs=0.1)
        assert len(set(zip(log.session.tolist(), segment.tolist()))) == 30  # users
    assert estimate_examination(same).evidence == "moves"
    estimate = estimate_examination(other)  # inside a segment nothing moves
    assert (estimate.evidence, estimate.by_segment, estimate.by_user) == ("none", True, False)
    table = PageTable.of_clicks(other)
    answer = LogJudge(table).judge(table.slots_by(other.position.astype(float)))
    assert answer.verdict == "cannot tell"
    assert "segments click otherwise" in answer.reasons[0]
    assert segments_of_users(other._replace(session=np.arange(other.n_pages))) is None


def test_training_sees_the_users_whom_evaluation_sees() -> None:
    log = simulated_log("users", n_pages=4000)[0]
    page = log.page
    rows = {"page": page, "user": log.session[page], "position": log.position + 1, "clicked": log.clicked}
    names = {"query": [log.query_ids[pair] for pair in log.pair], "item": [log.items[pair] for pair in log.pair]}
    lists = read_log(pyarrow.table(rows | names), kind="lists")
    shared = estimate_examination(lists.clicks())
    assert shared.by_user
    pages = pages_as_log(lists.lists(Schema({"item": "id"})))
    np.testing.assert_allclose(estimate_examination(pages).log_curve, shared.log_curve)


@pytest.mark.parametrize("seed", range(3))
def test_queries_that_never_move_may_be_read_otherwise(seed: int) -> None:
    log, attraction = simulated_log("fixed", seed, 6000)
    examination = estimate_examination(log)
    readings = fit_readings(log, examination)
    fixed = readings[-1].steepness
    assert fixed is not None
    query = np.array([int(log.query_ids[pair].split()[1]) for pair in log.pair])
    assert (fixed.query[log.page] == query % 2).all()
    assert fixed.mean[0] == 1.0
    assert fixed.mean[1] > 1.5  # the truth is 2.5, and the order of these queries counts, too
    table = PageTable.of_clicks(log)
    gain = LogJudge(table).judge(table.slots_by(log.position.astype(float))).ranker.gain["clicks"]
    new, power = N_SHOWN - 1 - log.position, np.where(query % 2, 2.5, 1.0)
    truth = float((attraction * (CURVE[new] ** power - CURVE[log.position] ** power)).sum() / log.n_pages)
    assert gain.lower <= truth <= gain.upper


def test_smooth_moves_are_compared_near_in_time_only() -> None:
    covered = 0
    for seed in range(4):
        estimate = estimate_examination(simulated_log("trends", seed)[0])
        assert estimate.is_smooth
        assert estimate.n_epochs > 1
        assert "items rise and fall slowly" in str(estimate)
        low, high = estimate.interval
        covered += int(((low <= CURVE) & (high >= CURVE))[1:].sum())
    assert covered >= 17  # of 20
    assert not any(estimate_examination(simulated_log("noise", seed)[0]).is_smooth for seed in range(3))


def test_queries_that_are_read_less_deeply_have_steeper_curves() -> None:
    log = simulated_log("depths", n_pages=6000)[0]
    examination = estimate_examination(log)
    steepness = _fit_steepness(log, examination)
    assert steepness is not None
    names = [log.query_ids[pair] for pair in log.pair[log.offsets[:-1]]]
    number = dict(zip(names, steepness.query.tolist()))
    steep = [steepness.mean[number[f"query {query}"]] for query in range(1, N_QUERIES, 2)]
    flat = [steepness.mean[number[f"query {query}"]] for query in range(0, N_QUERIES, 2)]
    assert min(steep) > max(flat)
    assert 2.0 < np.mean(steep) / np.mean(flat) < 3.0  # the truth is 2.5
    assert any(reading.steepness is not None for reading in fit_readings(log, examination))


@pytest.mark.parametrize("seed", range(3))
def test_one_curve_for_all_queries_is_not_split(seed: int) -> None:
    log = simulated_log("noise", seed)[0]
    assert _fit_steepness(log, estimate_examination(log)) is None


def test_the_value_of_an_order_takes_up_the_steepness_of_queries() -> None:
    truths, values = [], []
    for seed in range(3):
        log, attraction = simulated_log("depths", seed, 6000)
        table = PageTable.of_clicks(log)
        scores = np.random.default_rng(seed).random(len(log.pair))
        gain = LogJudge(table).judge(table.slots_by(scores)).ranker.gain["clicks"]
        query = np.array([int(log.query_ids[pair].split()[1]) for pair in log.pair])
        power = np.where(query % 2, 2.5, 1.0)
        new = np.argsort(np.argsort(-scores.reshape(-1, N_SHOWN), axis=1), axis=1).ravel()
        truth = float((attraction * (CURVE[new] ** power - CURVE[log.position] ** power)).sum() / log.n_pages)
        assert gain.lower <= truth <= gain.upper
        truths.append(truth)
        values.append(gain.value)
    np.testing.assert_allclose(np.mean(values), np.mean(truths), rtol=0.2)


def test_no_order_earns_more_than_a_click_on_everything() -> None:
    log = simulated_log("noise", n_pages=60)[0]
    table = PageTable.of_clicks(log)
    earned = LogJudge(table).judge(table.slots_by(np.arange(len(log.pair), dtype=float))).ranker.earned["clicks"]
    assert earned.upper <= N_SHOWN


def test_a_curve_that_is_given_stays() -> None:
    log = simulated_log("depths")[0]
    readings = fit_readings(log, Examination.given(CURVE, log))
    assert [reading.steepness for reading in readings] == [None]
    assert Examination._field_defaults["by_user"] is False
