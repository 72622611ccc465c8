"""The outputs that trec_eval ships as its own test, digit for digit."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from rankloop.data.folder import absence_notice, data_folder
from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run

FOLDER = Path(data_folder() or "") / "trec_eval"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=absence_notice("the trec_eval test folder"))

NAMES = {
    r"map": "AP{level}",
    r"map_cut_(\d+)": "AP{level}@{cutoff}",
    r"recip_rank": "RR{level}",
    r"P_(\d+)": "P{level}@{cutoff}",
    r"set_P": "P{level}",
    r"set_recall": "Recall{level}",
    r"recall_(\d+)": "Recall{level}@{cutoff}",
    r"ndcg": "nDCG(gain='linear')",
    r"ndcg_cut_(\d+)": "nDCG(gain='linear')@{cutoff}",
}
CASES = {
    "out.test": ("results.test", "qrels.test", 1, False),
    "out.test.a": ("results.test", "qrels.test", 1, False),
    "out.test.aq": ("results.test", "qrels.test", 1, False),
    "out.test.aqc": ("results.trunc", "qrels.test", 1, True),
    "out.test.aql": ("results.test", "qrels.rel_level", 2, False),
}


def ours(trec_name: str, level: int) -> str | None:
    """Our name of a trec_eval measure, where there is one."""
    for pattern, name in NAMES.items():
        found = re.fullmatch(pattern, trec_name)
        if found:
            relevant = f"(relevant_from={level}.0)" if level > 1 else ""
            return name.format(level=relevant, cutoff="".join(found.groups()))
    return None


def golden(name: str) -> list[tuple[str, str, str]]:
    with gzip.open(FOLDER / f"{name}.gz", "rt") as file:
        rows = [line.split() for line in file]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]


@pytest.mark.parametrize("case", CASES)
def test_every_number_that_both_know(case: str) -> None:
    run, qrels, level, every_query = CASES[case]
    rows = [(our, query, value) for name, query, value in golden(case) if (our := ours(name, level))]
    scores = score_run(
        read_run(FOLDER / f"{run}.gz"),
        read_qrels(FOLDER / f"{qrels}.gz"),
        sorted({our for our, _, _ in rows}),
        every_query=every_query,
    )
    table = {query: scores.of_query(query) for query in scores.query_ids} | {"all": scores.overall}
    assert len(rows) >= (11 if case == "out.test" else 30)
    wrong = [row for row in rows if f"{table[row[1]][row[0]]:.4f}" != row[2]]
    assert wrong == []


def test_only_the_first_documents_of_a_run() -> None:
    """-M100: what lies below was not shown."""
    run = read_run(FOLDER / "results.trunc.gz")
    cut = {
        query: dict(sorted(documents.items(), key=lambda d: (np.float32(d[1]), d[0]), reverse=True)[:100])
        for query, documents in run.items()
    }
    rows = [(our, query, value) for name, query, value in golden("out.test.aqcM") if (our := ours(name, 1))]
    names = sorted({our for our, _, _ in rows})
    scores = score_run(cut, read_qrels(FOLDER / "qrels.test.gz"), names, every_query=True)
    table = {query: scores.of_query(query) for query in scores.query_ids} | {"all": scores.overall}
    assert [row for row in rows if f"{table[row[1]][row[0]]:.4f}" != row[2]] == []


def test_cutoffs_that_are_not_the_default() -> None:
    rows = [
        (our, query, value)
        for name, query, value in golden("out.test.meas_params")
        if (our := ours(name, 1)) and name != "ndcg"
    ]
    names = sorted({our for our, _, _ in rows})
    assert {"P@7", "Recall@2000", "nDCG(gain='linear')@23"} & set(names)
    scores = score_run(read_run(FOLDER / "results.test.gz"), read_qrels(FOLDER / "qrels.test.gz"), names)
    table = {query: scores.of_query(query) for query in scores.query_ids} | {"all": scores.overall}
    assert [row for row in rows if f"{table[row[1]][row[0]]:.4f}" != row[2]] == []
