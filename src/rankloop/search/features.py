"""What a learner is told of a query and of the documents that match it."""

import base64
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.features.schema import Schema
from rankloop.search.engine import MATCHES, NO_FIELDS, Candidate, SearchEngine, TextQuery
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import same_query

BASE = "bm25"  # the engine's own score, by which documents are sorted before anything is learned
RANKED = ("bm25", "bm25_title", "bm25_body")  # scores of which the learner is told who is among the best
TOPS = (1, 3, 10, 30)
SCALED = ("bm25_title", "bm25_body")  # by the largest among the candidates
AS_IT_IS = ("phrase", "proximity", "coverage", "coverage_title", "exact_title")
LENGTHS = {"title_length": 3.0, "body_length": 5.0}  # log(1 + words) of a usual title and a usual body
YEAR = 365.25 * 86_400.0
ATTEMPTS = 3  # at a search while documents are taken out
STEP = 1024  # numbers are told in such parts of one, which takes little room in the log
WORDS = 3  # of a query that are remembered with the documents that belong to them
BITS = 20
MATCH = "match"  # the field of all numbers but the first: one vector is read much quicker than many numbers
MATCH_NAMES = (
    *SCALED,
    *AS_IT_IS,
    *LENGTHS,
    "recency",
    *(f"{score}_top_{a}" for a in TOPS for score in RANKED),  # the paper's families: among the first a by one score,
    *(f"title_and_body_top_{a}" for a in TOPS),  # and by two of them at once
)


def search_schema(fields: Sequence[str] = ()) -> Schema:
    """How queries match, who is among the best, what the document is; and what belongs together, to be remembered.

    The document itself is a general column, in effect its popularity, shrunk by its prior. `fields` are columns of the
    documents that a visitor's segment is crossed with.
    """
    taken = sorted({BASE, MATCH, "document", "query", "words", "segment"}.intersection(fields))
    if taken:
        raise InvalidInput(f"the field {taken[0]!r} needs another name: the search box has one of this name itself")
    known = {BASE: {"kind": "number", "scale": "linear"}, MATCH: {"kind": "vector", "size": len(MATCH_NAMES)}}
    features = known | {"document": "category"} | dict.fromkeys(fields, "category")
    context = {"query": "id", "words": "id"} | ({"segment": "category"} if fields else {})
    crosses = ["query*document", "words*document", *(f"segment*{field}" for field in fields)]
    return Schema(features, context, tuple(crosses), BITS)


def match_name(name: str) -> str:
    """What a number of the vector is called; any other name as it is."""
    found = IN_VECTOR.fullmatch(name)
    return MATCH_NAMES[int(found[1])] if found else name


IN_VECTOR = re.compile(rf"{MATCH}\[(\d+)\]")


def rows_of(
    candidates: Sequence[Candidate], matches: Floats, fields: Sequence[Mapping[str, Any]] = (), now: float | None = None
) -> dict[str, dict[str, Any]]:
    """The values of each candidate by name; `matches` has a row for each, with a column for each of MATCHES."""
    found = {name: matches[:, i] for i, name in enumerate(MATCHES)}
    scores = {BASE: np.array([score for _, score in candidates])} | {name: found[name] for name in SCALED}
    columns: dict[str, Any] = {name: _share(values) for name, values in scores.items()}
    columns |= {name: found[name] for name in AS_IT_IS}
    columns |= {name: np.log1p(found[name]) / usual - 1.0 for name, usual in LENGTHS.items()}
    age = np.maximum((time.time() if now is None else now) - found["at"], 0.0) / YEAR
    columns["recency"] = np.where(found["at"] > 0.0, 1.0 / (1.0 + age), 0.0)
    tops = {name: _among_best(values) for name, values in scores.items()}
    for a in TOPS:
        columns |= {f"{name}_top_{a}": position < a for name, position in tops.items()}
        columns[f"title_and_body_top_{a}"] = (tops["bm25_title"] < a) & (tops["bm25_body"] < a)
    base = (np.round(columns[BASE] * STEP) / STEP).tolist()
    vectors = np.column_stack([np.round(columns[name] * STEP) / STEP for name in MATCH_NAMES]).astype("<f4")
    rows = {
        candidate.id: {BASE: score, MATCH: base64.b64encode(vector.tobytes()).decode(), "document": candidate.id}
        for candidate, score, vector in zip(candidates, base, vectors)
    }
    for candidate, own in zip(candidates, fields):
        rows[candidate.id] |= own
    return rows


def _share(values: Floats) -> Floats:
    """Relative to the largest."""
    largest = float(values.max(initial=0.0))
    return values / largest if largest > 0.0 else np.zeros_like(values)


def _among_best(values: Floats) -> Any:
    """How many candidates have more; those that have nothing are among nobody's best."""
    ordered = np.sort(values)[::-1]
    position = np.searchsorted(-ordered, -values, side="left")
    return np.where(values > 0.0, position, len(values) + max(TOPS))


class RankingQuestion(NamedTuple):
    """A query and the documents that match it, as a ranker is asked."""

    query_id: str
    rows: dict[str, dict[str, Any]]  # values by id
    context: dict[str, Any]
    scores: dict[str, float]  # the engine's own


def question_of(
    engine: SearchEngine,
    query: TextQuery,
    n: int,
    fields: Sequence[str] = (),
    segment: str = "",
    now: float | None = None,
) -> RankingQuestion:
    """The n best documents by the engine's own score, with all that the ranker is told of them."""
    candidates, matches = _matching(engine, query, n)
    ids = [id for id, _ in candidates]
    known = _fields_of(engine, ids) if fields else []
    own = [{name: row[name] for name in fields if name in row} for row in known]
    words = engine.rarest(query, WORDS) if isinstance(engine, LocalEngine) else list(query.words[:WORDS])
    name = same_query(query)
    context: dict[str, Any] = {"query": name, "words": words}
    if segment and fields:
        context["segment"] = segment
    return RankingQuestion(name, rows_of(candidates, matches, own, now), context, dict(candidates))


def _matching(engine: SearchEngine, query: TextQuery, n: int) -> tuple[list[Candidate], Floats]:
    """The candidates and how they match; asked again where one of them is taken out of the engine in between."""
    for attempt in range(1, ATTEMPTS + 1):
        candidates = engine.candidates(query, n)[:n]
        if not candidates:
            return [], np.empty((0, len(MATCHES)))
        try:
            matches = np.asarray(engine.features(query, [id for id, _ in candidates]), dtype=np.float64)
            break
        except InvalidInput:
            if attempt == ATTEMPTS:
                raise
    expected = len(candidates), len(MATCHES)
    if matches.shape != expected:
        raise InvalidInput(f"the engine gave features of shape {matches.shape}, not {expected}: see MATCHES")
    return candidates, matches


def _fields_of(engine: SearchEngine, ids: Sequence[str]) -> list[Mapping[str, str]]:
    if isinstance(engine, LocalEngine):
        return engine.fields(ids)
    documents = [engine.document(id) for id in ids]
    return [NO_FIELDS if document is None else document.fields for document in documents]
