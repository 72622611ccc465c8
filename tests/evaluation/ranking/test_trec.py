"""TREC files: what is read, what is refused, and the same judgment as trec_eval with ties and missing documents."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run

NAMES = {
    "AP": "map",
    "RR": "recip_rank",
    "P@5": "P_5",
    "P": "set_P",
    "Recall": "set_recall",
    "nDCG(gain='linear')": "ndcg",
    "nDCG(gain='linear')@5": "ndcg_cut_5",
}


def test_reading(tmp_path: Path) -> None:
    qrels, run = tmp_path / "a.qrels", tmp_path / "a.run.gz"
    qrels.write_text("q1 0 d1 2\nq1 0 d2 -1\n\nq2\t0\td1\t0\n")
    run.write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5 tag of three words\nq1 Q0 d2 2 -1e-3 tag\n"))
    assert read_qrels(qrels) == {"q1": {"d1": 2.0, "d2": -1.0}, "q2": {"d1": 0.0}}
    assert read_run(run) == {"q1": {"d1": 0.5, "d2": -0.001}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"q1 0 d1 1\nq1 0 d2\n", "line 2: 3 columns where 'query iteration document grade' needs 4"),
        (b"q1 0 d1 1 tag\n", "line 1: 5 columns"),
        (b"q1 0 d1 one\n", "line 1: 'one' is not a finite number"),
        (b"q1 0 d1 1\nq1 0 d2 nan\n", "line 2: 'nan' is not a finite number"),
        (b"q1 0 d1 1\nq2 0 d1 1\nq1 0 d1 0\n", "line 3: document 'd1' is there twice for 'q1'"),
        (b"q1 0 d1 1\nq1 0 \xff 1\n", "line 2: not UTF-8"),
        (b"\n", "is empty"),
        (gzip.compress(b"q1 0 d1 1\n", mtime=0)[:-9], "cut short or damaged"),
    ],
    ids=["few columns", "many columns", "no number", "nan", "twice", "not UTF-8", "empty", "cut short"],
)
def test_what_is_wrong_is_said_by_line(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "bad.qrels"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=f"bad.qrels.*{said}"):
        read_qrels(path)


def test_a_missing_file() -> None:
    with pytest.raises(NotFound, match="no file"):
        read_run("nowhere.run")


def random_lists(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """A run with many ties, documents without judgment, judged documents that it lacks, queries of one side only."""
    rng = np.random.default_rng(seed)
    documents = [f"d{number}" for number in range(30)]
    run = {
        f"q{q}": {d: float(rng.integers(0, 6)) + 1e-9 * rng.random() for d in rng.permutation(documents)[:20].tolist()}
        for q in range(20)
    }
    qrels = {
        f"q{q}": {d: int(rng.integers(-1, 4)) for d in rng.permutation(documents)[:15].tolist()} for q in range(5, 25)
    }
    qrels["q6"] = dict.fromkeys(qrels["q6"], 0)
    return run, qrels


@pytest.mark.parametrize("seed", range(5))
def test_judged_as_by_trec_eval(seed: int) -> None:
    run, qrels = random_lists(seed)
    peer = pytrec_eval.RelevanceEvaluator(qrels, set(NAMES.values())).evaluate(run)
    scores = score_run(run, qrels, list(NAMES))
    assert set(scores.query_ids) == set(peer) == {f"q{q}" for q in range(5, 20)}
    for query in scores.query_ids:
        expected = {name: peer[query][trec] for name, trec in NAMES.items()}
        assert scores.of_query(query) == pytest.approx(expected, abs=1e-9)


def test_every_judged_query_counts_on_request() -> None:
    run, qrels = random_lists(0)
    some, every = score_run(run, qrels, ["AP"]), score_run(run, qrels, ["AP"], every_query=True)
    assert len(every.query_ids) == len(qrels) == 20
    assert every.of_query("q24") == {"AP": 0.0}
    assert every.overall["AP"] == pytest.approx(some.overall["AP"] * 15 / 20)


def test_ties_are_broken_by_document_id_the_last_first() -> None:
    scores = score_run({"q": {"a": 1.0, "c": 1.0, "b": 1.0}}, {"q": {"b": 1}}, ["RR"])
    assert scores.of_query("q") == {"RR": 1 / 2}


def test_scores_beyond_single_precision_are_still_in_front() -> None:
    scores = score_run({"q": {"a": -1e300, "b": 1e300, "c": 0.0}}, {"q": {"a": 1, "z": 1}}, ["RR", "AP"])
    assert scores.of_query("q") == {"RR": 1 / 3, "AP": 1 / 3 / 2}


def test_measures_of_the_whole_order_need_all_judged_documents() -> None:
    run = {"q": {"a": 2.0, "b": 1.0}}
    assert score_run(run, {"q": {"a": 0, "b": 1}}, ["AUC"]).overall == {"AUC": 0.0}
    with pytest.raises(InvalidInput, match="AUC: this measure judges the order of all items"):
        score_run(run, {"q": {"a": 0, "b": 1, "c": 1}}, ["AUC"])


def test_nothing_in_common() -> None:
    with pytest.raises(InvalidInput, match="no query in common"):
        score_run({"q1": {"a": 1.0}}, {"q2": {"a": 1}}, ["AP"])
