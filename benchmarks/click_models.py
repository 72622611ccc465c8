"""Click models on the real clicks of TREC Session 2014, beside human grades: `python -m benchmarks.click_models`.

Writes docs/results/click-models.json. A document is taken to attract alike whatever was asked, since queries of the
track seldom come twice in the same words; the same by (query, document) stands beside it.
"""

import ast
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from rankloop.click_models.fit import fit_users
from rankloop.click_models.models import MODELS
from rankloop.data.folder import data_path
from rankloop.logs.list_log import ClickArrays

PARTS = ("train", "valid", "test")
RESULT = Path(__file__).parents[1] / "docs" / "results" / "click-models.json"


def lines(name: str) -> Iterator[list[Any]]:
    """Session, query, documents, kinds of results, clicks and, where there are any, grades."""
    with gzip.open(data_path("clicks/trec_session2014") / f"{name}_per_query_quid.txt.gz", "rt") as file:
        for line in file:
            session, query, *lists = line.rstrip("\n").split("\t")
            yield [session, query, *map(ast.literal_eval, lists)]


def session_log(*names: str) -> ClickArrays:
    """The result pages of these parts."""
    rows = [row for name in names for row in lines(name)]
    sizes = [len(row[2]) for row in rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return ClickArrays.of(
        offsets,
        np.concatenate([np.arange(size) for size in sizes]),
        np.concatenate([np.array(row[4], dtype=np.float64) for row in rows]),
        [row[1] for row in rows for _ in row[2]],
        [str(item) for row in rows for item in row[2]],
        [row[0] for row in rows],
    )


def grades() -> dict[tuple[str, str], int]:
    """Human grades by query and document."""
    return {(row[1], str(item)): grade for row in lines("human_label_for_NCM") for item, grade in zip(row[2], row[5])}


def agreement(log: ClickArrays, model: str, judged: dict[tuple[str, str], int]) -> dict[str, Any]:
    """Does what attracts have higher grades? Rank correlation, and the mean attraction of each grade."""
    fitted = MODELS[model].fit(log)
    numbers = {pair: number for number, pair in enumerate(zip(log.query_ids, log.items))}
    by_item = not any(log.query_ids)
    rows = [
        (fitted.attraction[numbers["" if by_item else query, item]], grade)
        for (query, item), grade in judged.items()
        if ("" if by_item else query, item) in numbers
    ]
    attraction, grade = np.array(rows).T
    means = {str(int(level)): round(float(attraction[grade == level].mean()), 4) for level in np.unique(grade)}
    return {"pairs": len(rows), "spearman": round(float(spearmanr(attraction, grade).statistic), 4), "by_grade": means}


def results() -> dict[str, Any]:
    """Everything that is kept."""
    pages, judged, results = session_log(*PARTS), grades(), dict[str, Any]()
    for name, log in (("by_document", pages.by_item()), ("by_query_and_document", pages)):
        fits = fit_users(log)
        results[name] = {
            "best": fits.fitted.name,
            "users": fits.fitted.spec(),
            "models": {
                model: {
                    "log_likelihood": round(score.log_likelihood, 4),
                    "perplexity": round(score.perplexity, 4),
                    "perplexity_by_position": score.by_position.round(4).tolist(),
                    "grades": agreement(log, model, judged),
                }
                for model, score in fits.held_out.items()
            },
        }
    size = {"pages": pages.n_pages, "clicks": int(pages.clicked.sum()), "visits": int(pages.session.max()) + 1}
    return {"data": "TREC Session 2014", **size, "models": list(MODELS), **results}


if __name__ == "__main__":
    RESULT.write_text(json.dumps(results(), indent=1) + "\n", encoding="utf-8")
