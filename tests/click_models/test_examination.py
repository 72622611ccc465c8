"""The shared estimate of examination: found again in simulated logs, wide where there is no evidence."""

from itertools import permutations

import numpy as np
import pytest

from rankloop.click_models.examination import (
    Examination,
    _drift_statistic,
    draw_weights,
    estimate_examination,
    position_design,
    position_prior,
    resampling_clusters,
    rows_as_log,
)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.registry import build
from rankloop.simulate.play import play

CURVE = np.array([1.0, 0.6, 0.4, 0.3, 0.2])


def simulated(order_of, n_pages=3000, n_queries=30, seed=0, curve=CURVE, attraction_of=None):
    """A log of position-based users; `order_of` has the attraction of a query, its click counts and the page number."""
    rng = np.random.default_rng(seed)
    n_items = len(curve)
    attraction, counts = rng.beta(1.0, 3.0, (n_queries, n_items)), np.zeros((n_queries, n_items))
    pair, position, clicked, queries = [], [], [], []
    for page in range(n_pages):
        query = int(rng.integers(n_queries))
        rates = attraction[query] if attraction_of is None else attraction_of(attraction[query], page / n_pages)
        order = order_of(rates, counts[query], page / n_pages, rng)
        hits = rng.random(n_items) < curve * rates[order]
        np.add.at(counts[query], order, hits)
        pair += (query * n_items + order).tolist()
        position += range(n_items)
        clicked += hits.tolist()
        queries.append(str(query))
    offsets = np.arange(n_pages + 1) * n_items
    return rows_as_log(np.array(pair), np.array(position), np.array(clicked, float), offsets, queries)


def good_order(rates, counts, time, rng):
    return np.argsort(-(rates + 0.1 * rng.standard_normal(len(rates))))


def by_clicks(rates, counts, time, rng):
    return np.argsort(-(counts + 3.0 * rng.random(len(rates))))


def test_a_good_order_with_some_moves_does_not_hide_the_curve():
    estimate = estimate_examination(simulated(good_order))
    low, high = estimate.interval
    assert estimate.evidence == "moves"
    assert not estimate.reacts
    assert estimate.n_epochs == 1
    np.testing.assert_allclose(estimate.curve, CURVE, atol=0.1)
    assert ((low <= CURVE) & (high >= CURVE)).all()


@pytest.mark.slow
def test_intervals_hold_and_are_not_too_wide():
    holds, errors, claimed = [], [], []
    for seed in range(40):
        estimate = estimate_examination(simulated(good_order, n_pages=1200, seed=seed))
        low, high = estimate.interval
        holds.append((low <= CURVE) & (high >= CURVE))
        errors.append(estimate.log_curve - np.log(CURVE))
        claimed.append(np.sqrt(np.diag(estimate.covariance)))
    assert np.mean(holds, axis=0)[1:].min() >= 0.85
    assert np.mean(claimed, axis=0)[1:] == pytest.approx(np.std(errors, axis=0)[1:], rel=0.5)


def test_positions_that_react_to_clicks_are_noticed_and_allowed_for():
    log = simulated(by_clicks, n_pages=6000, n_queries=150, seed=1)
    estimate = estimate_examination(log)
    assert estimate.reacts
    assert estimate.reaction_z > 2.0
    low, high = estimate.interval
    assert ((low <= CURVE) & (high >= CURVE)).all()
    assert "items move after clicks on them" in str(estimate)


def test_attraction_that_changes_over_time_is_noticed():
    log = simulated(
        lambda rates, counts, time, rng: np.argsort(-(rates + 0.2 * rng.standard_normal(len(rates)))),
        n_pages=5000,
        attraction_of=lambda rates, time: rates if time < 0.5 else rates[::-1],
    )
    estimate = estimate_examination(log)
    assert estimate.drift_z > 3.0
    assert estimate.n_epochs > 1
    low, high = estimate.interval
    assert ((low <= CURVE * 1.05) & (high * 1.05 >= CURVE)).all()


def test_a_log_in_which_nothing_moves_says_nothing():
    estimate = estimate_examination(simulated(lambda rates, counts, time, rng: np.argsort(-rates)))
    low, high = estimate.interval
    assert estimate.evidence == "none"
    assert estimate.n_units == 0
    assert (high[1:] / low[1:] > 10.0).all()


def swapped(rounds, n_positions):
    """The log of a learner that swaps neighbours, with the positions that items had before."""
    pair, position, clicked, base, pages = [], [], [], [], 0
    for _, decision, feedback in (arrival for each in rounds for arrival in each.arrived):
        before = np.empty(len(decision.ranking), int)
        before[ranking_of(decision.receipt.scores)] = np.arange(len(decision.ranking))
        for place in range(n_positions):
            item = decision.ranking[place]
            pair.append(len(pair))  # every page is a new query: no pair comes again
            position.append(place)
            clicked.append(float(item in feedback.items))
            base.append(before[item])
        pages += 1
    offsets = np.arange(pages + 1) * n_positions
    return rows_as_log(np.array(pair), np.array(position), np.array(clicked), offsets), np.array(base)


def test_known_swaps_are_enough_where_no_pair_comes_again():
    users, n_positions = build("position_based(max_grade=1, shown=5)", "feedback"), 5
    stream, learner = build("linear_gaussian(n_items=8, n_features=4)", "stream"), build({"kind": "3pr", "swap": 0.4})
    log, base = swapped(play(learner, stream, users, horizon=12_000, seed=0), n_positions)
    base = np.where(base < n_positions, base, -1)
    estimate = estimate_examination(log, base)
    assert estimate.evidence == "randomisation"
    np.testing.assert_allclose(estimate.curve, users.propensities(8)[:n_positions], atol=0.07)
    assert estimate_examination(log).evidence == "none"


def drawn_by_taste(n_pages=6000, seed=3):
    """A log whose order follows what each user likes at the moment, with the probability of every position."""
    rng = np.random.default_rng(seed)
    rates, orders = rng.uniform(0.05, 0.3, (40, 3)), list(permutations(range(3)))
    pair, clicked, of_row, of_list, queries = [], [], [], [], []
    for _ in range(n_pages):
        query = int(rng.integers(40))
        attraction = np.minimum(rates[query] * np.exp(0.8 * rng.standard_normal(3)), 0.9)
        likes = attraction**0.7
        chances = np.array(
            [np.prod([likes[order[k]] / likes[list(order[k:])].sum() for k in range(3)]) for order in orders]
        )
        drawn = int(rng.choice(len(orders), p=chances / chances.sum()))
        for position, item in enumerate(orders[drawn]):
            pair.append(3 * query + item)
            clicked.append(float(rng.random() < attraction[item] * (1.0, 0.6, 0.4)[position]))
            of_row.append(sum(chance for chance, order in zip(chances, orders) if order[position] == item))
            of_list.append(chances[drawn])
        queries.append(str(query))
    offsets, position = np.arange(n_pages + 1) * 3, np.tile(np.arange(3), n_pages)
    log = rows_as_log(np.array(pair), position, np.array(clicked), offsets, queries)
    return log, np.array(of_row), np.array(of_list)


def test_known_probabilities_remove_what_the_order_knew_of_the_moment():
    log, of_row, of_list = drawn_by_taste()
    natural = estimate_examination(log)
    assert natural.evidence == "moves"
    assert natural.interval[1][1] < 0.6  # confounded: items stand high for users who like them
    for propensity in (of_row, of_list):
        estimate = estimate_examination(log._replace(propensity=propensity))
        low, high = estimate.interval
        assert estimate.evidence == "randomisation"
        assert (low <= [1.0, 0.6, 0.4]).all()
        assert (high >= [1.0, 0.6, 0.4]).all()
        np.testing.assert_allclose(estimate.curve, [1.0, 0.6, 0.4], atol=0.08)


def test_weights_of_draws_by_hand():
    offsets, queries = np.array([0, 2, 4]), ["q", "q"]
    log = rows_as_log(np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1]), np.zeros(4), offsets, queries)
    assert draw_weights(log) is None
    assert draw_weights(log._replace(propensity=np.ones(4))) is None
    weights = draw_weights(log._replace(propensity=np.array([0.2, 0.5, 0.6, np.nan])))
    np.testing.assert_allclose(weights, [0.4 / 0.2, 1.0, 0.4 / 0.6, 0.0])


def test_items_that_rise_as_they_become_more_attractive_are_compared_over_short_times():
    def newest_first(rates, counts, time, rng):
        return np.argsort((time - np.linspace(0.0, 1.0, len(rates))) % 1.0 + 0.1 * rng.standard_normal(len(rates)))

    def fading(rates, time):
        return np.minimum(2.0 * rates * np.exp(-2.5 * ((time - np.linspace(0.0, 1.0, len(rates))) % 1.0)), 0.9)

    estimate = estimate_examination(simulated(newest_first, attraction_of=fading))
    low, high = estimate.interval
    assert estimate.n_epochs > 1
    assert (low[:4] <= CURVE[:4]).all()
    assert (high[:4] >= CURVE[:4]).all()


def test_the_design_interpolates_and_the_prior_is_proper():
    design = position_design(40)
    np.testing.assert_allclose(design[:10], np.eye(design.shape[1] + 1)[:10, 1:])
    assert design[0].sum() == 0.0
    np.testing.assert_allclose(design[10:].sum(axis=1), 1.0)
    assert np.linalg.eigvalsh(position_prior(40).precision).min() > 0.0
    assert position_design(1).shape == (1, 0)


def test_drift_by_hand():
    """Two units of four rows at one position: all clicks early, and clicks spread evenly."""
    unit = np.repeat([0, 1], 4)
    clicked = np.array([1.0, 1, 0, 0, 1, 0, 1, 0])
    variance = 2 * 0.5 * 0.5 * (4 - 2) / (4 - 1)
    first, second = (2 - 1.0) ** 2 - variance, (1 - 1.0) ** 2 - variance
    assert _drift_statistic(unit, np.ones(8), clicked) == pytest.approx((first + second) / np.hypot(first, second))


def test_long_queries_are_split_by_time():
    log = rows_as_log(np.zeros(200, int), np.zeros(200, int), np.zeros(200), np.arange(201), ["q"] * 200)
    cluster = resampling_clusters(log)
    assert (np.diff(cluster) >= 0).all()
    assert np.bincount(cluster).tolist() == [4] * 50


def test_a_given_curve_is_taken_as_it_is():
    log = simulated(good_order, n_pages=20)
    estimate = Examination.given([0.8, 0.4, 0.4, 0.2, 0.2], log)
    np.testing.assert_allclose(estimate.curve, [1.0, 0.5, 0.5, 0.25, 0.25])
    assert estimate.evidence == "given"
    assert not estimate.covariance.any()
    with pytest.raises(InvalidInput, match="position_bias needs 5 probabilities"):
        Examination.given([1.0, 0.5], log)


def test_curves_are_drawn_with_the_covariance():
    estimate = estimate_examination(simulated(good_order, n_pages=500))
    draws = np.log(estimate.draws(np.random.default_rng(0), 20_000))
    np.testing.assert_allclose(draws.mean(axis=0), estimate.log_curve, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), estimate.covariance, atol=0.02)
    assert estimate.to_json()["examination"][0] == 1.0


def test_pairs_that_pages_of_several_queries_share_have_no_query_of_their_own() -> None:
    pair, position = np.array([0, 1, 1, 2]), np.array([0, 1, 0, 1])
    shared = rows_as_log(pair, position, np.zeros(4), np.array([0, 2, 4]), ["shoes", "boots"])
    assert shared.query_ids == ("", "", "")
    apart = rows_as_log(np.arange(4), position, np.zeros(4), np.array([0, 2, 4]), ["shoes", "boots"])
    assert apart.query_ids == ("shoes", "shoes", "boots", "boots")


def test_draws_that_follow_clicks_need_no_allowance_for_reactions():
    """The item that was clicked last is drawn to the top more often, with a logged probability."""
    rng, covered = np.random.default_rng(5), 0
    rates = rng.uniform(0.1, 0.6, (30, 2))
    for _ in range(5):
        last, pair, clicked, propensity, queries = np.zeros(30, int), [], [], [], []
        for page in range(3000):
            query = page % 30
            top = int(last[query]) if rng.random() < 0.8 else 1 - int(last[query])
            propensity += [0.8 if top == last[query] else 0.2] * 2
            hits = rng.random(2) < np.array([1.0, 0.4]) * rates[query, [top, 1 - top]]
            last[query] = [top, 1 - top][int(np.argmax(hits))] if hits.any() else last[query]
            pair += [2 * query + top, 2 * query + 1 - top]
            clicked += hits.tolist()
            queries.append(str(query))
        position, offsets = np.tile([0, 1], 3000), np.arange(3001) * 2
        log = rows_as_log(np.array(pair), position, np.array(clicked, float), offsets, queries, np.array(propensity))
        estimate = estimate_examination(log)
        assert estimate.evidence == "randomisation"
        assert not estimate.reacts
        covered += int(estimate.interval[0][1] <= 0.4 <= estimate.interval[1][1])
    assert covered >= 4
