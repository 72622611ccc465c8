"""The same numbers as trec_eval (through pytrec_eval), ir_measures and gdeval, on random inputs."""

import shutil

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from rankloop.measures import parse_measure

N_QUERIES, N_ITEMS = 60, 23
TREC = {
    "AP": "map",
    "AP@5": "map_cut_5",
    "RR": "recip_rank",
    "P@5": "P_5",
    "P@30": "P_30",
    "P": "set_P",
    "Recall@10": "recall_10",
    "nDCG(gain='linear')": "ndcg",
    "nDCG(gain='linear')@10": "ndcg_cut_10",
    "nDCG(gain='linear')@100": "ndcg_cut_100",
}


@pytest.fixture(scope="module")
def lists() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores without ties, grades with negative ones, some queries without a relevant item."""
    rng = np.random.default_rng(11)
    scores = rng.permutation(N_QUERIES * N_ITEMS) / 1000
    grades = rng.choice([-1, 0, 1, 2, 3, 4], N_QUERIES * N_ITEMS, p=[0.1, 0.6, 0.1, 0.1, 0.05, 0.05])
    grades[: 5 * N_ITEMS] = np.minimum(grades[: 5 * N_ITEMS], 0)
    return scores, grades, np.arange(0, N_QUERIES * N_ITEMS + 1, N_ITEMS)


def nested(values: np.ndarray) -> dict[str, dict[str, float]]:
    table = values.reshape(N_QUERIES, N_ITEMS).tolist()
    return {str(q): {f"d{i}": value for i, value in enumerate(row)} for q, row in enumerate(table)}


@pytest.mark.parametrize("name", TREC)
@pytest.mark.parametrize("level", [1, 2])
def test_trec_eval(lists: tuple[np.ndarray, np.ndarray, np.ndarray], name: str, level: int) -> None:
    scores, grades, offsets = lists
    measure = parse_measure(name)
    if hasattr(measure, "relevant_from"):
        measure = type(measure)(relevant_from=level, cutoff=measure.cutoff)  # type: ignore[attr-defined]
    evaluator = pytrec_eval.RelevanceEvaluator(nested(grades), {TREC[name]}, relevance_level=level)
    peer = evaluator.evaluate(nested(scores))
    values = [peer[str(q)][TREC[name]] for q in range(N_QUERIES)]
    assert measure.of_scores(scores, grades.astype(float), offsets) == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("nDCG@10", ir_measures.nDCG(gains={0: 0, 1: 1, 2: 3, 3: 7, 4: 15}) @ 10),
        ("nDCG(gain='linear')@7", ir_measures.nDCG @ 7),
        ("AP(relevant_from=2)", ir_measures.AP(rel=2)),
        ("AP(relevant_from=3)@4", ir_measures.AP(rel=3) @ 4),
        ("RR@3", ir_measures.RR @ 3),
        ("RR(relevant_from=2)@9", ir_measures.RR(rel=2) @ 9),
        ("P@3", ir_measures.P @ 3),
        ("Recall(relevant_from=2)@3", ir_measures.R(rel=2) @ 3),
    ],
)
def test_ir_measures(lists: tuple[np.ndarray, np.ndarray, np.ndarray], name: str, peer: ir_measures.Measure) -> None:
    scores, grades, offsets = lists
    by_query = {m.query_id: m.value for m in ir_measures.iter_calc([peer], nested(grades), nested(scores))}
    values = [by_query[str(q)] for q in range(N_QUERIES)]
    assert parse_measure(name).of_scores(scores, grades.astype(float), offsets) == pytest.approx(values, abs=1e-9)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval needs perl")
@pytest.mark.parametrize(
    ("name", "peer"), [("ERR@20", ir_measures.ERR @ 20), ("nDCG@20", ir_measures.nDCG(dcg="exp-log2") @ 20)]
)
def test_gdeval(lists: tuple[np.ndarray, np.ndarray, np.ndarray], name: str, peer: ir_measures.Measure) -> None:
    scores, grades, offsets = lists
    by_query = {m.query_id: m.value for m in ir_measures.iter_calc([peer], nested(grades), nested(scores))}
    values = [by_query.get(str(q), 0.0) for q in range(N_QUERIES)]
    five_digits = pytest.approx(values, abs=0.6e-5)
    assert parse_measure(name).of_scores(scores, grades.astype(float), offsets) == five_digits
