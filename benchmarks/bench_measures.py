"""nDCG@10 and AP of 5,000 queries with 100 items each, beside the libraries that compute them, in the same process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environment import installed
from benchmarks.measurement import Row, Timed, alone, best_of, in_turn, row
from rankloop.core.types import Floats, Ints
from rankloop.evaluation.ranking.trec import score_run
from rankloop.measures import parse_measure

N_QUERIES, N_ITEMS, CALLS = 5_000, 100, 20_000
OURS = ["nDCG(gain='linear')@10", "AP"]
SHAPE = f"{N_QUERIES:,} × {N_ITEMS}"
Nested = dict[str, dict[str, Any]]


class Lists(NamedTuple):
    """The same rankings and judgements, as arrays and as dictionaries."""

    scores: Floats
    grades: Ints
    retrieved: Nested
    qrels: Nested

    def ours(self) -> list[Floats]:
        offsets = np.arange(0, self.scores.size + 1, N_ITEMS)
        relevance = self.grades.astype(np.float64)
        return [parse_measure(name).of_scores(self.scores, relevance, offsets) for name in OURS]


def run() -> list[Row]:
    """Every side is told what it needs beforehand, in its own form; what a row counts is in its name."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=N_QUERIES * N_ITEMS)
    grades = rng.choice(3, scores.size, p=[0.8, 0.15, 0.05])
    lists = Lists(scores, grades, nested(scores), nested(grades))
    sides = {"pytrec_eval": _pytrec_eval, "ir_measures": _ir_measures, "ranx": _ranx, "scikit-learn": _scikit_learn}
    rows = [each for peer, side in sides.items() if installed(peer) for each in side(lists)]
    return [*rows, _one_ranking()]


def nested(values: Any) -> Nested:
    names = [f"d{item}" for item in range(N_ITEMS)]
    rows = values.reshape(N_QUERIES, N_ITEMS).tolist()
    return {str(q): dict(zip(names, row)) for q, row in enumerate(rows)}


def _pytrec_eval(lists: Lists) -> Iterator[Row]:
    from pytrec_eval import RelevanceEvaluator

    names = {"ndcg_cut.10", "map"}
    evaluator = RelevanceEvaluator(lists.qrels, names)

    def from_arrays() -> Any:
        return RelevanceEvaluator(nested(lists.grades), names).evaluate(nested(lists.scores))

    def built() -> Any:
        return evaluator.evaluate(lists.retrieved)

    measured = built()
    same = agreement(lists, [[measured[str(q)][name] for q in range(N_QUERIES)] for name in ("ndcg_cut_10", "map")])
    both = "both start from dictionaries, as a run file is read"
    yield _row("pytrec_eval", "arrays beside its dictionaries", in_turn(lists.ours, built), "≥ 4×", same)
    yield _row("pytrec_eval", "both from arrays on", in_turn(lists.ours, from_arrays), "≥ 10×", same)
    yield _row("pytrec_eval", "dictionaries", in_turn(_from_dictionaries(lists), built), "", same, both)


def _ir_measures(lists: Lists) -> Iterator[Row]:
    import ir_measures

    measures = [ir_measures.nDCG @ 10, ir_measures.AP]
    evaluator = ir_measures.evaluator(measures, lists.qrels)
    means = evaluator.calc_aggregate(lists.retrieved)
    same = agreement(lists, [means[measure] for measure in measures])
    times = in_turn(_from_dictionaries(lists), lambda: evaluator.calc_aggregate(lists.retrieved), 3)
    yield _row("ir_measures", "dictionaries", times, "", same, "evaluator built beforehand")


def _ranx(lists: Lists) -> Iterator[Row]:
    from ranx import Qrels, Run, evaluate

    names = ["ndcg@10", "map"]
    qrels, run = Qrels(lists.qrels), Run(lists.retrieved)

    def built() -> Any:
        return evaluate(qrels, run, names, save_results_in_run=False)

    def from_dictionaries() -> Any:
        return evaluate(Qrels(lists.qrels), Run(lists.retrieved), names, save_results_in_run=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its compiled code is told of unsafe casts
        same = agreement(lists, [built()[name] for name in names])
    note = "Qrels and Run built beforehand; it uses all cores, we use one"
    yield _row("ranx", "arrays beside its Run", in_turn(lists.ours, built), "", same, note)
    yield _row("ranx", "dictionaries", in_turn(_from_dictionaries(lists), from_dictionaries, 3), "", same)


def _scikit_learn(lists: Lists) -> Iterator[Row]:
    from sklearn.metrics import ndcg_score

    grades, scores = (values.reshape(N_QUERIES, N_ITEMS) for values in (lists.grades, lists.scores))
    measure, offsets = parse_measure(OURS[0]), np.arange(0, lists.scores.size + 1, N_ITEMS)
    relevance = lists.grades.astype(np.float64)

    def theirs() -> Any:
        return ndcg_score(grades, scores, k=10, ignore_ties=True)

    same = agreement(lists, [theirs()])
    times = in_turn(lambda: measure.of_scores(lists.scores, relevance, offsets), theirs)
    yield row(f"nDCG@10, {SHAPE}, arrays", times, peer="scikit-learn", judged=same, note="ndcg_score without ties")


def _from_dictionaries(lists: Lists) -> Callable[[], object]:
    return lambda: score_run(lists.retrieved, lists.qrels, OURS)


def agreement(lists: Lists, theirs: list[Any]) -> str:
    """Both sides must compute the same numbers before they are compared: means, or one value per query."""
    for ours, values in zip(lists.ours(), theirs):
        if not np.allclose(ours if np.ndim(values) else ours.mean(), values, rtol=1e-9):
            raise AssertionError("the two sides do not compute the same numbers")
    return "the same numbers"


def _one_ranking() -> Row:
    rng = np.random.default_rng(1)
    measure, ranking, relevance = parse_measure("nDCG@10"), rng.permutation(20), rng.integers(0, 3, 20).astype(float)

    def calls() -> None:
        for _ in range(CALLS):
            measure(ranking, relevance)

    return alone("nDCG@10 of one ranking of 20 items", best_of(calls, 3) / CALLS, note="called from Python, as in play")


def _row(peer: str, how: str, found: Timed, target: str, same: str, note: str = "") -> Row:
    name = f"nDCG@10 + AP, {SHAPE}, {how}, beside {peer}"
    return row(name, found, peer=peer, target=target, judged=same, note=note)
