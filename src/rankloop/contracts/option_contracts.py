"""The contracts for what a learner may offer beside the five methods: a limit on exploration, whole runs."""

import inspect
from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.contracts.cases import Case, play_past
from rankloop.contracts.contract import contract, require
from rankloop.contracts.leaves import require_same
from rankloop.contracts.rank_contracts import check_fixed_draws, check_log_prob
from rankloop.core.registry import build
from rankloop.core.types import Limit
from rankloop.learners._shared.compiled_rounds import ClickRounds, CompiledRun, FixedSetRounds
from rankloop.measures.base import parse_measure
from rankloop.simulate.compiled.whole_run import whole_queries, whole_run
from rankloop.simulate.play import play

ROUNDS, SEED = 60, 3


@contract(
    "draw position by position, one double each, among the items that `due_item` and the limit leave; so in `log_prob`"
)
def check_limit(case: Case) -> None:
    """Where `rank` takes a `limit`, no item moves further than it says, and `log_prob` stays exact."""
    if "limit" not in inspect.signature(case.learner.rank).parameters:
        return
    for limit in (Limit(1), Limit(2, keep_first=True)):
        spec = {
            "kind": "explore_at_most",
            "inner": case.learner,
            "places": limit.positions,
            "keep_first": limit.keep_first,
        }
        limited = case._replace(learner=build(spec, "learner"))
        check_fixed_draws(limited)
        check_log_prob(limited)
        _check_moves(limited, limit)


@contract("let the kernel of `many_rounds` call the very kernels of `rank` and `learn`; `doubles` is what `rank` takes")
def check_whole_run(case: Case) -> None:
    """Where `many_rounds` plays a whole run in compiled code, it shows and learns what `rank` and `learn` would."""
    learner, problem = case.learner, case.problem
    if not isinstance(case.learner, CompiledRun) or case.learner.compiled is None:
        return
    of_clicks = learner.compiled is ClickRounds
    if not of_clicks and problem.shown is not None:
        return  # people who grade see everything
    n_items = 4 if problem.n_items is None else problem.n_items
    drawn, counted = default_rng(SEED), default_rng(SEED)
    learner.rank(learner.init(problem), case.query(n_items, default_rng(0)), drawn)
    counted.random(learner.doubles(n_items))
    require(
        drawn.random() == counted.random(), f"rank takes other than doubles({n_items}) = {learner.doubles(n_items)}"
    )
    graders = {"kind": "top_k", "depth": problem.depth} if problem.depth else {"kind": "full"}
    readers = {"kind": "dcm", "behaviour": "informational", "shown": problem.shown or 10}
    people = build(readers if of_clicks else graders, "feedback")
    if learner.compiled is FixedSetRounds:
        stream = build({"kind": "flipped_relevance", "n_items": n_items, "n_relevant": 1, "flip": 0.2}, "stream")
        run: Any = whole_run(learner, stream, people, horizon=ROUNDS, seed=SEED, checkpoints=range(1, ROUNDS))
        values, judge = np.diff(run.value, prepend=0.0), parse_measure("DCG")
    else:
        size = {"n_queries": 10, "n_items": 5, "n_features": problem.n_features}
        stream, judge = build({"kind": "linear_gaussian"} | size, "stream"), parse_measure("nDCG@4")
        run = whole_queries(learner, stream, people, horizon=ROUNDS, seed=SEED, measure="nDCG@4")
        values = run.values
    rounds = list(play(learner, _RoundByRound(stream), people, horizon=ROUNDS, seed=SEED))
    shown = [judge(round.decision.ranking, round.relevance) for round in rounds]
    differing = np.flatnonzero(np.abs(values - shown) > 1e-9)
    require(not len(differing), f"round {differing[:1]} of a whole run shows another ranking than the loop")
    require_same(run.state, rounds[-1].learned, "after a whole run the state is another than after the loop at")


class _RoundByRound:
    """A stream that `play` does not know, so that it goes round by round."""

    def __init__(self, inner: Any) -> None:
        self.problem, self.rounds = inner.problem, inner.rounds


def _check_moves(limited: Case, limit: Limit) -> None:
    state, rng = play_past(limited).states[-1], default_rng(14)
    for _ in range(50):
        query = limited.query(5, rng)
        shown, best = limited.learner.rank(state, query, rng).ranking, limited.learner.predict(state, query)
        moves = np.abs(np.argsort(shown) - np.argsort(best))
        kept = moves.max() <= limit.positions and (shown[0] == best[0] or not limit.keep_first)
        require(bool(kept), f"{best} is shown as {shown}, which {limit} does not allow")
