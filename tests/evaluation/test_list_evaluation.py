"""Answers in worlds where the truth is known, controls beside them, and none where a log has none."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from benchmarks.log_answers import orders_by, target_scores
from benchmarks.log_worlds import KINDS, SECOND_KINDS, Kind, build_world
from rankloop import Problem, Query, Session, build, play
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
    earned, gain = judge._estimate([values], np.zeros(1))
    assert earned["clicks"].lower == 0.0
    assert gain["clicks"].lower == -values.log[0, 0]


def test_a_wide_interval_is_said_to_say_little() -> None:
    estimate, _ = answers(KINDS["tiny"], 0)["random"]
    wide = OrderEstimate({"clicks": Interval(9.0, 0.0, 10.0)}, {"clicks": Interval(8.6, -0.4, 9.6)})
    sentence = estimate._replace(ranker=wide, reasons=()).verdicts[0]
    assert sentence.endswith("clicks per 1,000 pages (95% confidence), which says little.")
    assert "9,000" not in sentence  # of an estimate that says little nothing is promised
    assert "times as long" not in sentence
