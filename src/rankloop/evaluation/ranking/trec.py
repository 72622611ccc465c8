"""TREC files: judgments (qrels) and runs, read with errors by line number and scored as trec_eval scores them."""

import math
import os
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import READ_ERRORS, opened
from rankloop.evaluation.ranking.score import Measures, Scores, score_rankings
from rankloop.measures.formulas import NO_CUTOFF, rankings_of

Lists = dict[str, dict[str, float]]
QRELS_COLUMNS = "query iteration document grade"
RUN_COLUMNS = "query Q0 document rank score tag"


def read_qrels(path: str | os.PathLike[str]) -> Lists:
    """Read grades by query and document from lines `query iteration document grade`; the file may be packed."""
    return _read(Path(path), QRELS_COLUMNS, 3)


def read_run(path: str | os.PathLike[str]) -> Lists:
    """Read scores by query and document from lines `query Q0 document rank score tag`; the rank is not used."""
    return _read(Path(path), RUN_COLUMNS, 4)


def score_run(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, float]],
    measures: Measures,
    *,
    every_query: bool = False,
) -> Scores:
    """Evaluate a run as trec_eval does.

    Documents stand by descending score in single precision, ties by document id, the last first. Documents without a
    judgment have grade 0; judged ones that were not retrieved count among the relevant, but are never met. Queries
    without judgments are left out, and so are judged queries that the run lacks, unless `every_query` (trec_eval's
    -c): then nothing was shown for them.

    Args:
      run: Scores by query and document.
      qrels: Grades by query and document.
      measures: Names of measures.
      every_query: True to count queries without results as 0.
    """
    for name, lists in (("the run", run), ("the judgments", qrels)):
        if not isinstance(lists, Mapping) or not all(isinstance(numbers, Mapping) for numbers in lists.values()):
            raise InvalidInput(f"{name} must be a table {{query: {{document: number}}}}")
    names = [name for name in qrels if every_query or name in run]
    if not names:
        raise InvalidInput("the run and the judgments have no query in common")
    scores, grades, sizes, shown = _joined([run.get(name, {}) for name in names], [qrels[name] for name in names])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rankings = rankings_of(scores, offsets, NO_CUTOFF)
    # Queries in which two retrieved documents have the same score.
    owner = np.repeat(np.arange(len(shown)), np.diff(offsets))
    position, in_order = np.arange(len(scores)) - offsets[owner], scores[offsets[owner] + rankings]
    same = (in_order[1:] == in_order[:-1]) & (owner[1:] == owner[:-1]) & (position[1:] < shown[owner[1:]])
    for q in np.unique(owner[1:][same]).tolist():
        rows = slice(offsets[q], offsets[q] + shown[q])
        by_score_and_name = sorted(zip(scores[rows].tolist(), run[names[q]], range(shown[q])), reverse=True)
        rankings[rows] = [item for _, _, item in by_score_and_name]
    return score_rankings(rankings, grades, offsets, names, measures, shown)


def _joined(runs: list[Mapping[str, float]], judgments: list[Mapping[str, float]]) -> tuple[Floats, Floats, Ints, Ints]:
    """Scores and grades of the retrieved documents, then of the missed ones, query after query; sizes and shown."""
    scores, grades = list[float](), list[float]()
    sizes = np.empty(len(runs), np.int64)
    for q, (documents, judged) in enumerate(zip(runs, judgments)):
        missed = judged.keys() - documents.keys()
        scores += documents.values()
        scores += repeat(-math.inf, len(missed))
        grades += map(judged.get, documents, repeat(0.0))
        grades += map(judged.__getitem__, missed)
        sizes[q] = len(documents) + len(missed)
    with np.errstate(over="ignore"):  # beyond single precision is infinite, as in trec_eval
        single = np.array(scores, np.float32).astype(np.float64)
    return single, np.array(grades, np.float64), sizes, np.fromiter(map(len, runs), np.int64, len(runs))


def _read(path: Path, columns: str, value_column: int) -> Lists:
    n_columns = len(columns.split())
    lists: Lists = {}
    for number, line in _lines(path):
        fields = line.split()
        if not fields:
            continue
        # The tag of a run may have several words.
        if len(fields) < n_columns or (len(fields) > n_columns and columns == QRELS_COLUMNS):
            raise InvalidInput(f"{path.name}, line {number}: {len(fields)} columns where {columns!r} needs {n_columns}")
        documents = lists.setdefault(fields[0], {})
        if fields[2] in documents:
            raise InvalidInput(f"{path.name}, line {number}: document {fields[2]!r} is there twice for {fields[0]!r}")
        try:
            value = float(fields[value_column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InvalidInput(f"{path.name}, line {number}: {fields[value_column]!r} is not a finite number")
        documents[fields[2]] = value
    if not lists:
        raise InvalidInput(f"{path.name} is empty; its lines should be {columns!r}")
    return lists


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with opened(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                yield number, line.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"{path.name}, line {number}: not UTF-8 text") from None
        except READ_ERRORS as error:
            raise InvalidInput(f"{path.name}, after line {number}: cut short or damaged: {error}") from None
