"""The simulated shop: the same for a seed, clicks as the formulas say, and products that come and go."""

import json
from itertools import islice, permutations
from math import exp, log

import numpy as np
import pytest

from benchmarks import bench_shop, shop_peers
from benchmarks.bench_shop import GRIDS, SIDES, encoded, played
from benchmarks.environment import DISTRIBUTIONS, installed
from research.shop import players
from research.shop.columns import FIELD_LETTERS, Kept, as_text, columns, tents
from research.shop.world import (
    BASE,
    CHEAP_DISLIKE,
    CHURN_VISITS,
    CONTEXT,
    CROSSES,
    DEVICES,
    EXAMINATION_BY_POSITION,
    EXPENSIVE_DISLIKE,
    FEATURES,
    IN_SECTION,
    N_CANDIDATES,
    N_WORDS,
    NEW,
    OF_DISCOUNT,
    OUT_OF_STOCK,
    SCALE,
    SEGMENTS,
    SHOWN,
    TAGS,
    TOO_CHEAP,
    TOO_DEAR,
    WORDS,
    Shelves,
    Shop,
    Visit,
)


def few(seed=7, n=30, **options):
    return list(Shop(seed, **options).visits(n))


def a_visit(attraction, draws=None, position_draws=None):
    n = len(attraction)
    draws = np.zeros(n) if draws is None else np.asarray(draws)
    position_draws = np.zeros(SHOWN) if position_draws is None else np.asarray(position_draws)
    return Visit([], {}, np.asarray(attraction), draws, position_draws)


def by_hand(shop, row, context):
    """The utility of a row, read from its fields; only the quality comes from behind the curtain."""
    segment, device = SEGMENTS.index(context["segment"]), DEVICES.index(context["device"])
    price, tastes = log(row["price"]), shop.tastes
    value = shop.products.quality[int(row["sku"].removeprefix("sku-"))]
    value += tastes.brands[segment, int(row["brand"].removeprefix("brand "))]
    value += tastes.categories[device, int(row["category"].removeprefix("section "))]
    value += sum(tastes.tags[TAGS.index(tag)] for tag in row["tags"])
    value += OF_DISCOUNT[segment] * row["discount"] + NEW * exp(-row["age_days"] / 14)
    value += 0.0 if row["in_stock"] else OUT_OF_STOCK
    value += -0.2 if row["rating"] is None else 0.5 * (row["rating"] - 3.9)
    value -= EXPENSIVE_DISLIKE[segment] * max(price - TOO_DEAR[segment], 0) + CHEAP_DISLIKE[segment] * max(
        TOO_CHEAP[segment] - price, 0
    )
    asked = (context["query"] or "").split()
    for word in asked:
        value += sum(tastes.words[WORDS.index(word), WORDS.index(other)] for other in row["title"].split())
    section = context["section"] or f"section {WORDS.index(asked[0]) // 8}"
    return value + IN_SECTION * (row["category"] == section)


def test_a_seed_is_a_shop():
    one, again, other = few(), few(), few(seed=8)
    for a, b in zip(one, again):
        assert a.candidates == b.candidates
        assert a.context == b.context
        assert np.array_equal(a.attraction, b.attraction)
        assert np.array_equal(a.draws, b.draws)
        assert np.array_equal(a.position_draws, b.position_draws)
    assert [visit.candidates for visit in one] != [visit.candidates for visit in other]


def test_visits_can_be_had_twice_at_once():
    shop = Shop(7)
    assert [a.candidates == b.candidates for a, b in zip(shop.visits(5), shop.visits(5))] == [True] * 5


def test_rows_have_the_announced_fields_as_shops_have_them():
    rows = [row for visit in few() for row in visit.candidates]
    assert all(set(row) == set(FEATURES) for row in rows)
    assert all(set(visit.context) == set(CONTEXT) for visit in few())
    assert {type(row["price"]) for row in rows} == {int}
    assert {row["rating"] is None for row in rows} == {True, False}
    assert {visit.context["query"] is None for visit in few()} == {True, False}
    assert all((visit.context["query"] is None) != (visit.context["section"] is None) for visit in few())
    prices = Shop(7).products.price
    assert prices.mean() > 1.5 * np.median(prices)  # a heavy tail
    assert all({*cross.split("*")} <= {*FEATURES, *CONTEXT} for cross in CROSSES)


def test_candidates_are_different_products():
    for visit in few():
        assert len({row["sku"] for row in visit.candidates}) == N_CANDIDATES


def test_attraction_is_what_the_fields_say_by_hand():
    shop = Shop(7)
    for visit in shop.visits(20):
        utility = [by_hand(shop, row, visit.context) for row in visit.candidates]
        attraction = [1 / (1 + exp(-(BASE + SCALE * value))) for value in utility]
        assert visit.attraction == pytest.approx(attraction, rel=1e-9)


def test_a_click_needs_examination_and_attraction():
    visit = a_visit([0.5, 0.5, 0.5], draws=[0.4, 0.6, 0.4], position_draws=[0.9, 0.0, 0.7] + [0.0] * 7)
    assert EXAMINATION_BY_POSITION[:3] == pytest.approx([1.0, 2**-0.7, 3**-0.7])
    assert visit.clicks([0, 1, 2]) == [0]  # 1 is not liked, the third position is not examined (0.7 > 0.463)
    assert visit.clicks([0, 2, 1]) == [0, 1]
    assert visit.clicks([1, 2, 0]) == [1]


def test_expected_clicks_are_the_mean_over_all_draws():
    """Every combination of a grid of draws, which the probabilities of the items are multiples of."""
    attraction, order, grid = [0.25, 0.75], [1, 0], (np.arange(200) + 0.5) / 200
    counts = [len(a_visit(attraction, [x, x], [0.0, y] + [1.0] * 8).clicks(order)) for x in grid[::10] for y in grid]
    assert np.mean(counts) == pytest.approx(0.75 + round(200 * 2**-0.7) / 200 * 0.25)
    assert a_visit(attraction).expected(order) == pytest.approx(0.75 + 2**-0.7 * 0.25)


def test_people_click_as_expected():
    visits = few(n=2000)
    clicks = [len(visit.clicks(visit.best())) for visit in visits]
    expected = [visit.expected(visit.best()) for visit in visits]
    assert np.mean(clicks) == pytest.approx(np.mean(expected), abs=4 * np.std(clicks) / 2000**0.5)


def test_no_order_beats_the_best():
    visit = a_visit([0.1, 0.9, 0.3, 0.6, 0.2])
    assert visit.best() == [1, 3, 2, 4, 0]
    assert visit.expected(visit.best()) == max(visit.expected(order) for order in permutations(range(5)))
    for visit in few():
        every, rng = visit.expected(visit.best()), np.random.default_rng(0)
        assert all(visit.expected(rng.permutation(N_CANDIDATES)) <= every for _ in range(50))


def test_a_random_page_and_the_best_one_get_as_many_clicks_as_announced():
    visits = [visit for seed in range(100, 106) for visit in Shop(seed).visits(400)]
    assert np.mean([visit.attraction.mean() * EXAMINATION_BY_POSITION.sum() for visit in visits]) == pytest.approx(
        0.57, abs=0.05
    )
    assert np.mean([visit.expected(visit.best()) for visit in visits]) == pytest.approx(1.86, abs=0.1)


def test_without_churn_the_catalogue_stays():
    shop = Shop(7, n_products=200, n_live=200)
    seen = {row["sku"] for visit in shop.visits(1500) for row in visit.candidates}
    assert len(seen) <= 200


def test_with_churn_products_come_and_go_for_good():
    shop = Shop(7, n_products=6200, n_live=200)  # one product in five visits
    last, first = dict[str, int](), dict[str, int]()
    for t, visit in enumerate(shop.visits(3000)):
        for row in visit.candidates:
            first.setdefault(row["sku"], t)
            last[row["sku"]] = t
    arrival = {sku: max(0, int(sku.removeprefix("sku-")) - 199) * 5 for sku in first}
    assert all(first[sku] >= arrival[sku] for sku in first)
    assert len(first) > 500
    assert sum(moment < 1500 for moment in last.values()) > 150  # gone in the first half


def test_a_newcomer_takes_the_slot_of_one_that_leaves():
    shop = Shop(7, n_products=6200, n_live=200)
    shelves = Shelves(shop.products, 200)
    shelves.open(0)
    shelves.stock(4)
    assert shelves.product.tolist() == list(range(200))
    shelves.stock(5)
    slot = shop.products.slot[200]
    assert shelves.product[slot] == 200
    assert shop.products.category[200] == shop.products.category[slot]
    assert slot not in shelves.product
    shelves.open(30)
    shelves.stock(CHURN_VISITS)
    assert shelves.product.max() == 6199
    assert shelves.age(np.array([6199])).tolist() == [0]
    assert shelves.age(np.array([200])).tolist() == [30]


def test_ages_grow_by_the_day_and_rows_are_the_same_for_a_day():
    rows = {}
    for t, visit in enumerate(Shop(7, n_products=60, n_live=60).visits(1010)):
        for row in visit.candidates:
            before, _ = rows.setdefault((row["sku"], t // 1000), (row, t))
            assert before is row
    ages = {sku: row["age_days"] for (sku, day), (row, _) in rows.items() if day == 0}
    later = {sku: row["age_days"] for (sku, day), (row, _) in rows.items() if day == 1}
    assert later
    assert all(age == ages[sku] + 1 for sku, age in later.items())


def test_columns_by_hand():
    assert tents(2.25) == [("2", 0.75), ("3", 0.25)]
    assert tents(2.0) == [("2", 1.0)]
    assert columns("number", "discount", 0.0) == [("0", 1.0)]
    assert columns("number", "rating", None) == [("missing", 1.0)]
    assert columns("words", "title", "red red shoe") == [("red", 1.0), ("shoe", 1.0)]
    assert columns("category", "tags", ["eco", "gift"]) == [("eco", 1.0), ("gift", 1.0)]
    assert columns("flag", "in_stock", False) == [("no", 1.0)]
    assert len(set(FIELD_LETTERS.values())) == len(FEATURES) + len(CONTEXT)
    kinds = {"brand": "category", "rating": "number", "tags": "category"}
    assert as_text({"brand": "brand 7", "rating": 4.2, "tags": []}, kinds) == "|b brand_7 |r 8:0.6000 9:0.4000"


def test_what_is_made_of_a_row_is_made_once_and_anew_for_another_row():
    made = []
    kept = Kept(lambda row: made.append(row) or len(made))
    row = {"sku": "a", "price": 1}
    assert [kept(row), kept(row), kept({"sku": "a", "price": 2})] == [1, 1, 2]


@pytest.mark.parametrize("name", [name for name in SIDES if name != "fields and crosses"])
def test_every_side_ranks_a_page_and_learns(name):
    side = SIDES[name]
    if side.peer and not installed(side.peer):
        pytest.skip(f"{side.peer} is not installed")
    arm = side.make(3)
    for visit in islice(Shop(7).visits(30), 30):
        if isinstance(arm, shop_peers.Oracle):
            arm.visit = visit
        order = arm.rank(visit.candidates, visit.context)
        assert len(set(order[:SHOWN])) == SHOWN
        assert set(order) <= set(range(N_CANDIDATES))
        arm.learn(order, visit.clicks(order))


@pytest.mark.parametrize("name", ["logistic", "FTRL"])
def test_a_side_that_learns_gets_more_clicks_than_a_random_order(name):
    side = SIDES[name]
    if not installed(side.peer):
        pytest.skip(f"{side.peer} is not installed")
    visits = few(n=600)
    found = played(side.make(0), visits)
    blind = played(players.RandomOrder(0), visits)
    assert found.clicks[-300:].mean() > 1.15 * blind.clicks[-300:].mean()
    assert found.summary()["all"] == pytest.approx(found.clicks.mean(), abs=1e-6)


def test_trees_are_grown_every_night():
    if not installed("LightGBM"):
        pytest.skip("LightGBM is not installed")
    arm = shop_peers.LightGBM(0, n_trees=3)
    visits = few(n=1002)
    played(arm, visits[:999])
    assert arm.model is None
    played(arm, visits[999:])
    assert arm.model.num_trees() == 3


def test_popularity_is_a_smoothed_click_rate():
    arm = players.Popularity(0, prior=2.0)
    rows = [{"sku": str(i)} for i in range(12)]
    order = arm.rank(rows, {})
    assert order == list(range(12))
    arm.learn(order, [3])
    assert arm.rank(rows, {})[0] == 3
    assert arm.rate("3") == pytest.approx((1 + 2 * 1 / 11) / 3)
    assert arm.rate("11") == pytest.approx(1 / 11)


def test_encoding_is_timed_for_known_and_new_rows():
    class Counting:
        def __init__(self, seed):
            self.met = []

        def encode(self, candidates, context):
            self.met.append(candidates)

    arm = Counting(0)
    known, fresh = encoded(lambda seed: arm, few(n=2))
    assert min(known, fresh) >= 0.0
    assert [len(arm.met), arm.met[0] is arm.met[1], arm.met[1] is arm.met[2]] == [6, False, True]


def test_results_are_kept_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_shop, "RESULTS", tmp_path / "shop.json")
    bench_shop.keep(("shop", 0, "random", 30), {"all": 0.5})
    bench_shop.keep(("shop", 1, "random", 30), {"all": 0.6})
    bench_shop.keep(("shop", 1, "oracle", 30), {"all": 1.9})
    bench_shop.keep(("shop", 0, "random", 30), {"all": 0.7})
    kept = json.loads((tmp_path / "shop.json").read_text())
    assert kept["shops"] == {"shop": {"random": {"0": {"all": 0.7}, "1": {"all": 0.6}}, "oracle": {"1": {"all": 1.9}}}}


def test_what_was_tried_is_told_for_every_peer():
    assert {side.peer for side in SIDES.values()} - {""} <= set(DISTRIBUTIONS)
    assert set(GRIDS) == {name for name, side in SIDES.items() if side.peer}


def test_titles_have_words_of_their_own_category_first():
    words = Shop(7).products.words
    assert words.max() == N_WORDS  # short titles end in no word
    assert (words[:, 0] // 8 == Shop(7).products.category).all()
