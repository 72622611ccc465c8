"""Answers in worlds where the truth is known, controls beside them, and none where a log has none."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from benchmarks.log_answers import orders_by, target_scores
from benchmarks.log_worlds import KINDS, SECOND_KINDS, Kind, build_world
from rankloop import Problem, Query, Session, build, play
from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.evaluation import RankingPolicy
from rankloop.evaluation.list_estimate import Interval, ListEstimate, OrderEstimate
from rankloop.evaluation.list_evaluation import ListOptions, LogJudge, evaluate_pages
from rankloop.evaluation.list_pages import PageTable, ShownPage

QUICK = ListOptions(resamples=80)


def answers(kind: Kind, seed: int, options: ListOptions = QUICK) -> dict[str, tuple[ListEstimate, float]]:
    """By target the answer, and the truth of its gain."""
    world = build_world(kind, seed)
    table = PageTable.of_clicks(world.second)
    judge, logged = LogJudge(table, options), world.truth(world.items)
    return {
        name: (judge.judge(table.slots_by(scores), name), world.truth(orders_by(world, scores)) - logged)
        for name, scores in target_scores(world, seed).items()
    }


@pytest.mark.parametrize("kind", ["good order, few moves", "cascade", "lucky items on top"])
def test_intervals_hold_and_no_verdict_is_wrong(kind: str) -> None:
    holds = []
    for seed in (100, 101):
        for estimate, truth in answers(KINDS[kind], seed).values():
            gain = estimate.ranker.gain["clicks"]
            if estimate.verdict != "cannot tell":
                holds.append(gain.lower <= truth <= gain.upper)
            assert not (estimate.verdict == "better" and truth < -1e-9)
            assert not (estimate.verdict == "worse" and truth > 1e-9)
    assert np.mean(holds) >= 0.8


def test_a_fixed_order_cannot_tell() -> None:
    estimate, _ = answers(SECOND_KINDS["fixed order"], 0)["random"]
    assert estimate.verdict == "cannot tell"
    assert "Show some lists in another order" in estimate.verdicts[0]
    assert "unknown" in estimate.text("log")


def test_a_held_out_result_that_contradicts_refuses_the_verdict() -> None:
    kind = KINDS["worst first"]
    better, truth = answers(kind, 0)["best"]
    assert better.verdict == "better"
    assert truth > 0
    refused, _ = answers(kind, 0, QUICK._replace(held_out_gain=-0.01))["best"]
    assert refused.verdict == "cannot tell"
    assert "its training held out" in refused.reasons[0]


def test_a_random_order_that_is_as_good_refuses_the_verdict() -> None:
    world = build_world(KINDS["worst first"], 0)
    table = PageTable.of_clicks(world.second)
    judge = LogJudge(table, QUICK)
    slots = table.slots_by(table.position.astype(np.float64))
    reversed_order = judge.judge(slots)
    assert reversed_order.verdict == "better"
    judge.random = reversed_order.ranker
    assert "so is a random order" in judge.judge(slots).reasons[0]


class Service:
    """The log of a learner that swaps neighbours, with the states that drew its pages."""

    def __init__(self, users: str, seed: int, pages: int = 1500) -> None:
        self.seed, self.pages = seed, list[ShownPage]()
        self.stream = build("linear_gaussian(n_items=12, n_features=4)", "stream")
        self.users, self.learner = build(users, "feedback"), build("fair_pairs", "learner")
        for step in play(self.learner, self.stream, self.users, horizon=pages, seed=seed):
            ((query, decision, feedback),) = step.arrived
            clicked = np.isin(decision.ranking[:8], feedback.items).astype(float)
            drawn_by = RankingPolicy(self.learner, step.state)
            self.pages.append(ShownPage(query, decision.ranking, clicked, drawn_by=drawn_by))
            self.state = step.learned

    def session(self, weights: Any) -> Session:
        spec = {"kind": "fixed_weights", "weights": tuple(np.asarray(weights).tolist())}
        return Session(build(spec, "learner"), self.stream.problem._replace(shown=8), 0)

    def truth(self, session: Session, queries: int = 1500) -> float:
        """Clicks per page on queries that come after the log."""
        rounds = self.stream.rounds(np.random.default_rng(np.random.SeedSequence(self.seed).spawn(4)[0]))
        rng, clicks = np.random.default_rng(self.seed + 1_000_000), 0
        for query, relevance in islice(rounds, len(self.pages), len(self.pages) + queries):
            ranking = session.learner.rank(session.state, query, rng).ranking
            clicks += sum(len(self.users.observe(ranking, relevance, rng).items) for _ in range(4))
        return clicks / (4 * queries)


@pytest.mark.parametrize("users", ["position_based(max_grade=4, shown=8)", "cascade(max_grade=4, shown=8)"])
def test_known_swaps_answer_for_orders_with_items_that_were_not_shown(users: str) -> None:
    """Twelve candidates of which eight are shown; every query is new, so only the swaps tell examination."""
    service = Service(users, seed=5)
    for weights in (service.state.weights, -service.state.weights[::-1]):
        session = service.session(weights)
        estimate, truth = evaluate_pages(session, service.pages, QUICK), service.truth(session)
        interval = estimate.ranker.earned["clicks"]
        assert estimate.diagnostics.examination.evidence == "randomisation"
        assert estimate.reasons or interval.lower - 0.03 < truth < interval.upper + 0.03
    assert estimate.diagnostics.modelled_share > 0.0


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
    options = QUICK._replace(position_bias=[1.0, 0.6, 0.4])
    estimate = evaluate_pages(ranker(1.0, 1.0), pages, options)
    assert estimate.diagnostics.unlike_share > 0.9
    assert "resemble none that the log showed" in estimate.verdicts[0]
    assert evaluate_pages(ranker(-1.0, 0.0), pages, options).reasons == ()


def test_it_cannot_tell_without_clicks_or_moves() -> None:
    nothing = np.zeros((50, 3))
    with pytest.raises(InvalidInput, match="nothing was clicked"):
        evaluate_pages(ranker(1.0, 0.0), pages_of(nothing), QUICK)
    few = nothing.copy()
    few[:5, 1] = 1.0
    assert "5 clicks" in evaluate_pages(ranker(1.0, 0.0), pages_of(few), QUICK).reasons[0]
    first = nothing.copy()
    first[:40, 0] = 1.0
    assert "hardly any item" in evaluate_pages(ranker(1.0, 0.0), pages_of(first), QUICK).reasons[0]
    given = evaluate_pages(ranker(1.0, 0.0), pages_of(first), QUICK._replace(position_bias=[1.0, 0.5, 0.2]))
    assert not any("hardly any item" in reason for reason in given.reasons)
    assert given.diagnostics.examination.evidence == "given"


def test_levels_and_positions_are_checked() -> None:
    with pytest.raises(InvalidInput, match=r"level = 1\.5"):
        evaluate_pages(ranker(1.0, 0.0), pages_of(np.ones((9, 3))), QUICK._replace(level=1.5))
    with pytest.raises(InvalidInput, match="positions"):
        evaluate_pages(ranker(1.0, 0.0), pages_of(np.ones((9, 3))), QUICK._replace(positions=0))


def test_no_order_earns_less_than_nothing_however_badly_the_users_fit() -> None:
    table = PageTable.of_clicks(build_world(KINDS["tiny"], 0).second)
    judge = LogJudge(table, QUICK)
    values = judge.orders.clicks_reweighted(judge.orders.logged_slots[None], 80, 0)._replace(misfit=np.array([5.0]))
    earned, gain = judge._estimate([values], np.zeros(1), judge._exposed(judge.orders.logged_slots[None]))
    assert earned["clicks"].lower == 0.0
    assert gain["clicks"].lower == -values.log[0, 0]


def test_a_wide_interval_is_said_to_say_little() -> None:
    estimate, _ = answers(KINDS["tiny"], 0)["random"]
    wide = OrderEstimate({"clicks": Interval(9.0, 0.0, 10.0)}, {"clicks": Interval(8.6, -0.4, 9.6)})
    sentence = estimate._replace(ranker=wide, reasons=()).verdicts[0]
    assert sentence.endswith("clicks per 1,000 pages (95% confidence), which says little.")
    assert "9,000" not in sentence  # of an estimate that says little nothing is promised
    assert "times as long" not in sentence


CURVE = np.arange(1.0, 9.0) ** -0.8


def shop_log(seed: int, buys: float = 0.05) -> tuple[PageTable, dict[str, tuple[Any, Any]]]:
    """A log with heavy-tailed prices, and by order the scores of its rows and the true gain by outcome."""
    rng, shape, items = np.random.default_rng(seed), (int(800 + 40 * (seed % 30)), 8), 200
    attraction, price = rng.beta(1.5, 6.0, (20, items)), np.exp(rng.normal(3.0, 1.3, items))
    candidates = np.argsort(rng.random((20, items)), axis=1)[:, :8]
    query = rng.integers(20, size=shape[0])
    candidates = candidates[query]
    usual = np.log(attraction[query[:, None], candidates]) + rng.normal(0.0, 0.8, (20, 8))[query]
    shown = np.take_along_axis(candidates, np.argsort(-usual + rng.normal(0.0, 0.8, shape), axis=1), axis=1)
    a, worth = attraction[query[:, None], shown], price[shown]
    clicked = (rng.random(shape) < CURVE * a).astype(float)
    bought = clicked * (rng.random(shape) < buys)
    log = rows_as_log(
        (query[:, None] * items + shown).ravel(),
        np.tile(np.arange(8), shape[0]),
        clicked.ravel(),
        np.arange(shape[0] + 1) * 8,
        list(map(str, query)),
    )
    table = PageTable.of_clicks(log)._replace(
        outcomes={"purchases": bought.ravel(), "money": (bought * worth).ravel()},
        worth={"purchases": np.ones(bought.size), "money": worth.ravel()},
    )

    def earned(scores: Any) -> Any:
        examined = CURVE[np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)]
        return np.array([(examined * a * value).sum() / shape[0] for value in (1.0, buys, buys * worth)])

    logged = np.broadcast_to(-np.arange(8.0), shape)
    orders = {"best": a, "reversed": -logged, "rich": a * worth}
    return table, {name: (scores.ravel(), earned(scores) - earned(logged)) for name, scores in orders.items()}


def test_intervals_of_purchases_and_money_hold_where_few_heavy_purchases_carry_them() -> None:
    """With the degrees of freedom of clicks, 74 % held for money."""
    holds, wrong = [], 0
    for seed in range(24):
        table, orders = shop_log(seed)
        judge = LogJudge(table, ListOptions(resamples=200, position_bias=CURVE))
        for scores, truth in orders.values():
            ends = judge.judge(table.slots_by(scores)).ranker.gain.values()
            holds.append([end.lower <= true <= end.upper for end, true in zip(ends, truth)])
            wrong += sum((end.lower > 0 > true) or (end.upper < 0 < true) for end, true in zip(ends, truth))
    assert np.mean(holds, axis=0).min() >= 0.9
    assert wrong <= 1


def test_one_heavy_purchase_widens_the_interval_of_money_alone() -> None:
    table, orders = shop_log(3)
    heaviest, intervals = int(table.outcomes["money"].argmax()), []
    for factor in (1.0, 100.0):
        money = table.outcomes["money"].copy()
        money[heaviest] *= factor
        heavy = table._replace(outcomes=table.outcomes | {"money": money})
        judge = LogJudge(heavy, ListOptions(resamples=80, position_bias=CURVE))
        slots = table.slots_by(orders["rich"][0])
        intervals.append((judge._stretches(judge._exposed(slots)), judge.judge(slots).ranker.gain))
    (before, gain), (after, heavy_gain) = intervals
    assert after[:2] == before[:2]
    assert before[0] < before[1] < before[2] < after[2]
    assert heavy_gain["clicks"] == gain["clicks"]


def test_an_outcome_of_few_rows_has_no_verdict_of_its_own() -> None:
    table, orders = shop_log(1, buys=0.01)
    judge = LogJudge(table, ListOptions(resamples=80, position_bias=CURVE))
    estimate = judge.judge(table.slots_by(orders["best"][0]))
    n_bought = int(table.outcomes["purchases"].sum())
    assert 0 < n_bought < 20
    clicks, purchases, money = estimate.verdicts
    assert "cannot tell" not in clicks
    assert f"cannot tell the purchases of the ranker: {n_bought} rows have any, and 20 or more are needed" in purchases
    assert "cannot tell the money" in money
    assert estimate.text("log").count("unknown") == 8
