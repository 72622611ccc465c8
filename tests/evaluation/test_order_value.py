"""The value of an order: formulas by hand, the walk down a page by enumeration, its slopes by finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rankloop.click_models.examination import Examination, estimate_examination, rows_as_log
from rankloop.click_models.reading import (
    Reading,
    _last_clicked_rows,
    appeal_of,
    appeal_of_last_click,
    fit_readings,
    group_of_distance,
    groups_of_last_clicks,
)
from rankloop.evaluation.list_pages import NOT_SHOWN, PageTable
from rankloop.evaluation.order_value import AttractionModel, OrderJudge, _target_positions, _walk_pages

CURVE = np.array([1.0, 0.5, 0.25])


def small_table(n_pages: int = 40, seed: int = 0) -> PageTable:
    rng = np.random.default_rng(seed)
    pair = np.concatenate([3 * (page % 7) + rng.permutation(3) for page in range(n_pages)])
    position, clicked = np.tile(np.arange(3), n_pages), (rng.random(3 * n_pages) < 0.4).astype(float)
    log = rows_as_log(pair, position, clicked, np.arange(n_pages + 1) * 3, [str(page % 7) for page in range(n_pages)])
    return PageTable.of_clicks(log)


def judge_of(table: PageTable, reading: Reading | None = None) -> OrderJudge:
    examination = Examination.given(CURVE, table.clicks())
    return OrderJudge(table, reading or fit_readings(table.clicks(), examination)[0], examination.cluster)


def test_reweighted_clicks_are_their_formula() -> None:
    table = small_table()
    scores = np.random.default_rng(1).random(len(table.page))
    values = judge_of(table).clicks_reweighted(table.slots_by(scores), 5, 0)
    total = 0.0
    for page in range(table.n_pages):
        rows = np.flatnonzero(table.page == page)
        for place, row in enumerate(rows[np.argsort(-scores[rows])]):
            total += table.clicked[row] * CURVE[place] / CURVE[table.position[row]]
    assert values.order[0, 0] == pytest.approx(total / table.n_pages)
    assert values.log[0, 0] == pytest.approx(table.clicked.sum() / table.n_pages)
    assert values.order.shape == (6, 1)


def test_the_logged_order_changes_nothing_on_any_resample() -> None:
    table = small_table()
    values = judge_of(table).clicks_reweighted(table.slots_by(-table.position.astype(float)), 20, 0)
    np.testing.assert_allclose(values.order, values.log, atol=1e-12)


def test_doubly_robust_is_its_formula_and_the_model_cancels_where_it_was_shown() -> None:
    """Without memory it is Σ e' â + Σ e'/e (c − e â), which is the reweighted clicks whatever â says."""
    table = small_table()
    judge, scores = judge_of(table), np.random.default_rng(1).random(len(table.page))
    slots = table.slots_by(scores)
    model = AttractionModel(table, judge.log_examined(judge.reading.parameters), judge.page_cluster)
    robust, plain = judge.doubly_robust(slots, model, 0, 0), judge.clicks_reweighted(slots, 0, 0)
    assert robust.order[0, 0] == pytest.approx(plain.order[0, 0])


def test_items_that_were_not_shown_are_valued_by_the_model() -> None:
    table = small_table()
    hidden = np.arange(0, len(table.page), 3)  # the first item of each page is taken out of what was shown
    position = table.position.copy()
    position[hidden] = NOT_SHOWN
    table = table._replace(position=position, clicked=np.where(position == NOT_SHOWN, 0.0, table.clicked))
    judge = judge_of(table)
    slots = np.full((1, table.n_pages, 3), NOT_SHOWN)
    slots[0, :, 1] = hidden
    assert judge.needs_model(slots)
    model = AttractionModel(table, judge.log_examined(judge.reading.parameters), judge.page_cluster)
    a = model.attraction()
    value = judge.doubly_robust(slots, model, 0, 0).order[0, 0]
    assert value == pytest.approx(CURVE[1] * a[hidden].sum() / table.n_pages)


def brute_force(rows: list[int], table: np.ndarray, attraction: np.ndarray, click_factor: np.ndarray) -> np.ndarray:
    """P(examined) of each row by summing over all patterns of clicks."""
    examined = np.zeros(len(attraction))
    for pattern in product([0, 1], repeat=len(rows)):
        probability, last = 1.0, -1
        for place, (row, clicked) in enumerate(zip(rows, pattern)):
            e = table[place, place - last] * click_factor[rows[last]] if last >= 0 else table[place, 0]
            examined[row] += probability * e if not any(pattern[place:]) else 0.0
            click = e * attraction[row]
            probability *= click if clicked else 1.0 - click
            last = place if clicked else last
    return examined


def test_the_walk_is_the_sum_over_all_patterns_of_clicks() -> None:
    rng = np.random.default_rng(2)
    table, attraction = rng.uniform(0.1, 1.0, (4, 5)), rng.uniform(0.1, 0.9, 4)
    rows = [2, 0, 3, 1]
    worth = attraction[None]
    click_factor = np.array([0.5, 1.3, 0.8, 1.0])
    examined, through = _walk_pages(np.array([[rows]]), table, attraction, worth, click_factor)
    np.testing.assert_allclose(examined, brute_force(rows, table, attraction, click_factor))

    def value(a: np.ndarray) -> float:
        return float(_walk_pages(np.array([[rows]]), table, a, a[None], click_factor)[0] @ a)

    step = 1e-6
    for row in range(4):
        shift = step * np.eye(4)[row]
        slope = (value(attraction + shift) - value(attraction - shift)) / (2 * step)
        assert examined[row] + through[0, row] == pytest.approx(slope, rel=1e-5)


def test_groups_of_distances() -> None:
    distance = np.arange(7)
    assert group_of_distance(distance).tolist() == [0, 1, 2, 2, 3, 3, 3]
    clicked = np.array([0.0, 1, 0, 0, 0, 1])
    log = rows_as_log(np.arange(6), np.array([0, 1, 2, 0, 1, 2]), clicked, np.array([0, 3, 6]))
    assert groups_of_last_clicks(log).tolist() == [0, 0, 1, 0, 0, 0]


def test_log_examination_adds_up() -> None:
    table = small_table()
    judge = judge_of(table)
    parameters = np.concatenate([np.log(CURVE), [0.0, 0.3, 0.2, 0.1], [-0.7]])
    expected = parameters[table.position] + parameters[3 + judge.group] - 0.7 * judge.last_click_appeal
    np.testing.assert_allclose(judge.log_examined(parameters), expected)


def test_appeal_is_that_of_the_item_clicked_last_above() -> None:
    clicked, offsets = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0]), np.array([0, 4, 6])
    np.testing.assert_array_equal(_last_clicked_rows(clicked, offsets), [-1, 0, 0, 2, -1, -1])
    np.testing.assert_allclose(appeal_of(np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.0, 1.0])), [-0.5, 0.0, 0.5])
    # Item 0 is clicked on the other page and item 1 is not, so a click on 0 has the higher appeal.
    log = rows_as_log(
        np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 2, 4])
    )
    appeal = appeal_of_last_click(log, np.array([1.0, 1.0]))
    rates = np.array([(2 - 1 + 1) / (2 - 1 + 4 / 3), np.nan, (1 - 1 + 1) / (2 - 1 + 4 / 3)])
    mean = (rates[0] + rates[2] + rates[0]) / 3
    np.testing.assert_allclose(appeal, [0.0, rates[0] / mean - 1, 0.0, rates[2] / mean - 1])


def test_clicks_by_trust_stay_where_they_are() -> None:
    """With a background b of clicks at each position: Σ (c − b) θ'/θ + Σ b' over the rows of each page."""
    table = small_table()
    judge, scores = judge_of(table), np.random.default_rng(1).random(len(table.page))
    background = np.array([0.1, 0.03, 0.01])
    trusting = judge_of(table, judge.reading._replace(background=background))
    value = trusting.clicks_reweighted(table.slots_by(scores), 0, 0).order[0, 0]
    total = 0.0
    for page in range(table.n_pages):
        rows = np.flatnonzero(table.page == page)
        for place, row in enumerate(rows[np.argsort(-scores[rows])]):
            old = table.position[row]
            total += (table.clicked[row] - background[old]) * CURVE[place] / CURVE[old] + background[place]
    assert value == pytest.approx(total / table.n_pages)


def test_users_who_stop_after_a_click_are_known_by_it() -> None:
    rng = np.random.default_rng(0)
    n_pages, attraction = 3000, rng.uniform(0.1, 0.5, (20, 5))
    pair, clicked, queries = [], [], []
    for page in range(n_pages):
        query, order = page % 20, rng.permutation(5)
        hits = rng.random(5) < attraction[query][order]
        hits[np.argmax(hits) + 1 :] = False  # nobody reads on
        pair += (5 * query + order).tolist()
        clicked += hits.tolist()
        queries.append(str(query))
    log = rows_as_log(
        np.array(pair), np.tile(np.arange(5), n_pages), np.array(clicked, float), np.arange(n_pages + 1) * 5, queries
    )
    examination = estimate_examination(log)
    (reading,) = (each for each in fit_readings(log, examination) if each.has_memory)
    np.testing.assert_allclose(np.exp(reading.parameters[:5]), 1.0, atol=0.15)
    assert np.exp(reading.parameters[6:9]).max() < 0.05
    assert examination.curve[4] < 0.7  # on average, lower positions are examined less


def test_positions_in_each_draw_of_an_order() -> None:
    slots = np.array([[[0, 1]], [[1, 0]], [[1, NOT_SHOWN]]])
    np.testing.assert_array_equal(_target_positions(slots, np.array([1]), 2), [[1], [0], [0]])
    np.testing.assert_array_equal(_target_positions(slots, np.array([0]), 2), [[0], [1], [NOT_SHOWN]])


def test_attraction_is_found_again_and_moves_with_clusters() -> None:
    rng = np.random.default_rng(0)
    n_pages = 3000
    quality = rng.normal(size=3 * n_pages)
    position = np.tile(np.arange(3), n_pages)
    attraction = 1 / (1 + np.exp(1.0 - quality))
    clicked = (rng.random(3 * n_pages) < CURVE[position] * attraction).astype(float)
    log = rows_as_log(np.arange(3 * n_pages), position, clicked, np.arange(n_pages + 1) * 3)
    table = PageTable.of_clicks(log)._replace(features=np.column_stack([quality, np.zeros(3 * n_pages)]))
    cluster = np.arange(n_pages) % 50
    model = AttractionModel(table, np.log(CURVE)[position], cluster)
    assert model.has_features
    fitted = model.attraction()
    assert np.abs(fitted - attraction).mean() < 0.03
    ratio, error = model.calibration(np.ones(3 * n_pages))
    assert abs(ratio - 1.0) < 3 * error
    higher = model.attraction(np.zeros(50), np.array([0.1]), model.slopes(np.ones((len(position), 1))))
    assert (higher < fitted).mean() > 0.95  # the same clicks from more examination: less attraction


def test_frequent_clicks_are_not_taken_for_trust() -> None:
    """An item is clicked at most once per page, which a Poisson likelihood takes for trust in high positions."""
    rng = np.random.default_rng(0)
    n_pages, n_items = 1400, 20
    attraction, examined = 0.8 * rng.random((60, n_items)), np.arange(1, n_items + 1) ** -0.7
    queries = rng.integers(0, 60, n_pages)
    order = np.argsort(-attraction[queries] + rng.normal(0.0, 0.5, (n_pages, n_items)), axis=1)
    clicked = rng.random(order.shape) < examined * np.take_along_axis(attraction[queries], order, axis=1)
    log = rows_as_log(
        (n_items * queries[:, None] + order).ravel(),
        np.tile(np.arange(n_items), n_pages),
        clicked.ravel().astype(float),
        np.arange(n_pages + 1) * n_items,
        list(map(str, queries)),
    )
    first, *others = fit_readings(log, estimate_examination(log))
    assert not first.trusts
    assert all(other.trusts for other in others)
