"""Features of a query and of the documents that match it, as the ranker of the search box learns from them."""

import base64
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.features.schema import Schema
from rankloop.search.engine import MATCHES, Candidate, SearchEngine, TextQuery, documents_of
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import same_query

BASE = "relevance"  # the engine's own score, by which documents are sorted until something is learned
SCORE_NAMES = ("relevance", "bm25_title", "bm25_body", "feedback", "embedding")  # with membership in their top k
TOP_SIZES = (1, 3, 10, 30)
RELATIVE_SCORES = ("bm25_title", "bm25_body", "latent", "feedback", "embedding")  # to the largest of the candidates
PLAIN_MATCHES = ("phrase", "proximity", "coverage", "coverage_title", "exact_title")
USUAL_LOG_LENGTHS = {"title_length": 3.0, "body_length": 5.0}  # log(1 + words) of a usual title and a usual body
YEAR_SECONDS = 365.25 * 86_400.0
MAX_ATTEMPTS = 3  # at a search while documents are taken out
ROUNDING = 1024  # numbers are rounded to such parts of one, which takes little room in the log
N_REMEMBERED_WORDS = 3  # the rarest words of a query, remembered with the documents that were clicked
N_NEIGHBOURS = 3  # candidates of similar meaning: a click on one of them counts for a document, too
HASH_BITS = 20
MATCH_FIELD = "match"  # one vector for all numbers but the first: it is read much quicker than many numbers
MATCH_NAMES = (
    *RELATIVE_SCORES,
    *PLAIN_MATCHES,
    *USUAL_LOG_LENGTHS,
    "recency",
    *(f"{score}_top_{size}" for size in TOP_SIZES for score in SCORE_NAMES),
    *(f"title_and_body_top_{size}" for size in TOP_SIZES),  # by both of them
)
MATCH_ELEMENT = re.compile(rf"{MATCH_FIELD}\[(\d+)\]")


def search_schema(fields: Sequence[str] = (), visitors: bool = False) -> Schema:
    """Build the feature schema of the search box.

    The schema has four groups: the engine's score, match features of query and document (one dense vector, with
    membership in the top k by each score), the document id (its popularity, shrunk by a prior), and crosses that
    memorise clicks: the query, past queries of similar meaning and the rarest words, each with the document; and the
    query with documents of similar meaning.

    Args:
      fields: Document columns that are crossed with the visitor's segment.
      visitors: Remember the clicks of each visitor for that visitor too.
    """
    reserved = {BASE, MATCH_FIELD, "document", "query", "words", "similar", "near", "segment", "visitor"}
    taken = sorted(reserved.intersection(fields))
    if taken:
        raise InvalidInput(f"rename the field {taken[0]!r}: the search box has a feature of this name")
    numbers = {BASE: {"kind": "number", "scale": "linear"}, MATCH_FIELD: {"kind": "vector", "size": len(MATCH_NAMES)}}
    features = numbers | {"document": "category", "near": "category"} | dict.fromkeys(fields, "category")
    context = {"query": "id", "words": "id", "similar": "id"}
    crosses = ["query*document", "words*document", "similar*document", "query*near"]
    crosses += [f"segment*{field}" for field in fields]
    if fields:
        context["segment"] = "id"  # kept in memory, which is learned quickly
    if visitors:
        context["visitor"] = "id"
        crosses.append("visitor*document")
    return Schema(features, context, tuple(crosses), HASH_BITS)


def match_name(name: str) -> str:
    """Return the name of an element of the match vector; any other name as it is."""
    element = MATCH_ELEMENT.fullmatch(name)
    return MATCH_NAMES[int(element[1])] if element else name


def rows_of(candidates: Sequence[Candidate], matches: Floats, now: float | None = None) -> dict[str, dict[str, Any]]:
    """Return the values of each candidate by name.

    Args:
      candidates: The documents.
      matches: A row for each, with a column for each of MATCHES.
      now: The time in seconds since 1970, for the age of documents.
    """
    by_name = {name: matches[:, i] for i, name in enumerate(MATCHES)}
    scores = {BASE: np.array([score for _, score in candidates])} | {name: by_name[name] for name in RELATIVE_SCORES}
    columns: dict[str, Any] = {}
    for name, values in scores.items():
        largest = float(values.max(initial=0.0))
        columns[name] = values / largest if largest > 0.0 else np.zeros_like(values)
    columns |= {name: by_name[name] for name in PLAIN_MATCHES}
    columns |= {name: np.log1p(by_name[name]) / usual - 1.0 for name, usual in USUAL_LOG_LENGTHS.items()}
    age = np.maximum((time.time() if now is None else now) - by_name["at"], 0.0) / YEAR_SECONDS
    columns["recency"] = np.where(by_name["at"] > 0.0, 1.0 / (1.0 + age), 0.0)
    positions = dict[str, Any]()
    for name in SCORE_NAMES:  # A candidate without a score is among nobody's best.
        larger = np.searchsorted(-np.sort(scores[name])[::-1], -scores[name], side="left")
        positions[name] = np.where(scores[name] > 0.0, larger, len(candidates) + max(TOP_SIZES))
    for size in TOP_SIZES:
        columns |= {f"{name}_top_{size}": position < size for name, position in positions.items()}
        columns[f"title_and_body_top_{size}"] = (positions["bm25_title"] < size) & (positions["bm25_body"] < size)
    base = (np.round(columns[BASE] * ROUNDING) / ROUNDING).tolist()
    vectors = np.column_stack([np.round(columns[name] * ROUNDING) / ROUNDING for name in MATCH_NAMES]).astype("<f4")
    return {
        candidate.id: {BASE: score, MATCH_FIELD: base64.b64encode(vector.tobytes()).decode(), "document": candidate.id}
        for candidate, score, vector in zip(candidates, base, vectors)
    }


class RankingQuestion(NamedTuple):
    """A query and the documents that match it, as a ranker is asked."""

    query_id: str
    rows: dict[str, dict[str, Any]]  # values by id
    context: dict[str, Any]
    scores: dict[str, float]  # the engine's own

    @classmethod
    def of(
        cls, engine: SearchEngine, query: TextQuery, n: int, fields: Sequence[str] = (), now: float | None = None
    ) -> "RankingQuestion":
        """Return the n best documents by the engine's own score, with all features of the ranker.

        `fields` are document columns that the ranker knows; `now` is the time in seconds since 1970.
        """
        candidates, ids = list[Candidate](), list[str]()
        matches = np.empty((0, len(MATCHES)))
        for attempt in range(1, MAX_ATTEMPTS + 1):  # again where a document is taken out of the engine in between
            candidates = engine.candidates(query, n)[:n]
            ids = [id for id, _ in candidates]
            try:
                matches = np.asarray(engine.features(query, ids), dtype=np.float64) if ids else matches
                break
            except InvalidInput:
                if attempt == MAX_ATTEMPTS:
                    raise
        expected = len(candidates), len(MATCHES)
        if matches.shape != expected:
            raise InvalidInput(f"the engine returned features of shape {matches.shape}, not {expected}: see MATCHES")
        rows = rows_of(candidates, matches, now)
        documents = documents_of(engine, query, ids) if fields else {}
        for id in rows.keys() & documents.keys():
            rows[id] |= {name: documents[id].fields[name] for name in fields if name in documents[id].fields}
        name = same_query(query)
        values: dict[str, Any] = {"query": name, "words": list(query.words[:N_REMEMBERED_WORDS]), "similar": [name]}
        if isinstance(engine, LocalEngine):
            values |= {"words": engine.rarest(query, N_REMEMBERED_WORDS), "similar": engine.similar_queries(query)}
            for id, near in zip(ids, engine.neighbours(query, ids, N_NEIGHBOURS)):
                rows[id]["near"] = near or [id]
        return cls(name, rows, values, dict(candidates))
