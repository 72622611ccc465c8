"""nDCG@10 and AP of 5,000 queries with 100 items each, beside pytrec_eval in the same process."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytrec_eval

from rankloop.evaluation.trec import score_run
from rankloop.measures import parse_measure

N_QUERIES, N_ITEMS, REPEATS = 5_000, 100, 7
OURS = ["nDCG(gain='linear')@10", "AP"]
PEER = {"ndcg_cut.10", "map"}


def run() -> list[dict[str, Any]]:
    """One row per comparison; the best of several rounds, both sides in turn."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=N_QUERIES * N_ITEMS)
    grades = rng.choice(3, scores.size, p=[0.8, 0.15, 0.05])
    relevance, offsets = grades.astype(np.float64), np.arange(0, scores.size + 1, N_ITEMS)
    measures = [parse_measure(name) for name in OURS]
    qrels, retrieved = _nested(grades), _nested(scores)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, PEER)

    def ours_from_arrays() -> list[Any]:
        return [measure.of_scores(scores, relevance, offsets) for measure in measures]

    def peer_from_arrays() -> Any:
        return pytrec_eval.RelevanceEvaluator(_nested(grades), PEER).evaluate(_nested(scores))

    def ours_from_dictionaries() -> Any:
        return score_run(retrieved, qrels, OURS)

    ndcg, ap = ours_from_arrays()
    peer = evaluator.evaluate(retrieved)
    theirs = [(peer[str(q)]["ndcg_cut_10"], peer[str(q)]["map"]) for q in range(N_QUERIES)]
    if not np.allclose(np.column_stack([ndcg, ap]), theirs):
        raise AssertionError("the two sides do not compute the same numbers")

    from_arrays, built = _in_turn(ours_from_arrays, lambda: evaluator.evaluate(retrieved))
    again, unbuilt = _in_turn(ours_from_arrays, peer_from_arrays)
    both, both_peer = _in_turn(ours_from_dictionaries, lambda: evaluator.evaluate(retrieved))
    one = _one_ranking()
    shape = f"nDCG@10 + AP, {N_QUERIES:,} × {N_ITEMS}"
    return [
        _row(f"{shape}: arrays", from_arrays, built, 4.0, "pytrec_eval: dictionaries and evaluator already built"),
        _row(f"{shape}: from arrays on", again, unbuilt, 10.0, "pytrec_eval: builds its dictionaries from the arrays"),
        _row(f"{shape}: dictionaries", both, both_peer, None, "both start from dictionaries, as a run file is read"),
        {"name": "nDCG@10 of one ranking of 20 items", "ours_seconds": one, "note": "called from Python, as in play"},
    ]


def _nested(values: Any) -> dict[str, dict[str, Any]]:
    names = [f"d{item}" for item in range(N_ITEMS)]
    rows = values.reshape(N_QUERIES, N_ITEMS).tolist()
    return {str(q): dict(zip(names, row)) for q, row in enumerate(rows)}


def _in_turn(ours: Callable[[], Any], peer: Callable[[], Any]) -> tuple[float, float]:
    """The fastest of several rounds of each, alternating, so that a busy machine hits both."""
    times = [(_seconds(ours), _seconds(peer)) for _ in range(REPEATS)]
    return min(time for time, _ in times), min(time for _, time in times)


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _one_ranking(n_calls: int = 20_000) -> float:
    rng = np.random.default_rng(1)
    measure, ranking, relevance = parse_measure("nDCG@10"), rng.permutation(20), rng.integers(0, 3, 20).astype(float)

    def calls() -> None:
        for _ in range(n_calls):
            measure(ranking, relevance)

    calls()
    return min(_seconds(calls) for _ in range(3)) / n_calls


def _row(name: str, ours: float, peer: float, target: float | None, note: str) -> dict[str, Any]:
    return {
        "name": name,
        "ours_seconds": ours,
        "peer_seconds": peer,
        "ratio": peer / ours,
        "target": target and f"≥ {target:g}×",
        "note": note,
    }
