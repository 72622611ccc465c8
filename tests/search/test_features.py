"""What the learner is told of documents, by hand."""

import base64
from math import log1p
from unittest import mock

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features.encoder import Encoder
from rankloop.search.engine import MATCHES, Candidate, TextDocument
from rankloop.search.features import (
    BASE,
    MATCH_FIELD,
    MATCH_NAMES,
    ROUNDING,
    TOP_SIZES,
    YEAR_SECONDS,
    RankingQuestion,
    match_name,
    rows_of,
    search_schema,
)
from rankloop.search.texts import read_text

NOW = 10 * YEAR_SECONDS
TABLE = {
    "bm25_title": [2.0, 0.0, 4.0],
    "bm25_body": [3.0, 1.0, 1.0],
    "phrase": [1.0, 0.0, 0.5],
    "proximity": [0.25, 0.0, 1.0],
    "coverage": [1.0, 0.5, 1.0],
    "coverage_title": [0.5, 0.0, 1.0],
    "exact_title": [0.0, 0.0, 1.0],
    "title_length": [3.0, 0.0, 1.0],
    "body_length": [100.0, 7.0, 0.0],
    "at": [NOW, 0.0, NOW - 3 * YEAR_SECONDS],
    "latent": [0.5, 0.25, 0.0],
    "feedback": [0.2, 0.8, 0.0],
    "embedding": [0.0, 0.0, 0.0],
}
CANDIDATES = [Candidate("a", 8.0), Candidate("b", 4.0), Candidate("c", 2.0)]


def matches(table: dict[str, list[float]] = TABLE) -> np.ndarray:
    return np.column_stack([table[name] for name in MATCHES])


def told(rows: dict[str, dict]) -> dict[str, dict[str, float]]:
    """The vectors of rows, by name."""
    vectors = {id: np.frombuffer(base64.b64decode(row[MATCH_FIELD]), "<f4") for id, row in rows.items()}
    return {id: dict(zip(MATCH_NAMES, vector.tolist())) for id, vector in vectors.items()}


def test_every_number_by_hand() -> None:
    rows = rows_of(CANDIDATES, matches(), now=NOW)
    assert [row[BASE] for row in rows.values()] == [1.0, 0.5, 0.25]
    assert [row["document"] for row in rows.values()] == list(rows) == ["a", "b", "c"]
    found = told(rows)
    rough = {"abs": 0.5 / ROUNDING}
    assert [found[id]["bm25_title"] for id in "abc"] == [0.5, 0.0, 1.0]
    assert [found[id]["bm25_body"] for id in "abc"] == pytest.approx([1.0, 1 / 3, 1 / 3], **rough)
    for name in ("phrase", "proximity", "coverage", "coverage_title", "exact_title"):
        assert [found[id][name] for id in "abc"] == TABLE[name]
    assert [found[id]["latent"] for id in "abc"] == [1.0, 0.5, 0.0]
    assert [found[id]["feedback"] for id in "abc"] == [0.25, 1.0, 0.0]
    assert [found[id]["feedback_top_1"] for id in "abc"] == [0.0, 1.0, 0.0]
    assert [found[id]["embedding_top_30"] for id in "abc"] == [0.0, 0.0, 0.0]
    assert found["a"]["title_length"] == pytest.approx(log1p(3) / 3.0 - 1.0, **rough)
    assert found["a"]["body_length"] == pytest.approx(log1p(100) / 5.0 - 1.0, **rough)
    assert (found["b"]["title_length"], found["c"]["body_length"]) == (-1.0, -1.0)
    assert [found[id]["recency"] for id in "abc"] == [1.0, 0.0, 1 / 4]  # new, not known, three years old


def test_who_is_among_the_best() -> None:
    found = told(rows_of(CANDIDATES, matches(), now=NOW))
    assert [found[id]["relevance_top_1"] for id in "abc"] == [1.0, 0.0, 0.0]
    assert [found[id]["bm25_title_top_1"] for id in "abc"] == [0.0, 0.0, 1.0]
    assert [found[id]["bm25_title_top_3"] for id in "abc"] == [1.0, 0.0, 1.0]  # b has nothing
    assert [found[id]["bm25_body_top_1"] for id in "abc"] == [1.0, 0.0, 0.0]
    assert [found[id]["bm25_body_top_3"] for id in "abc"] == [1.0, 1.0, 1.0]
    assert [found[id]["title_and_body_top_1"] for id in "abc"] == [0.0, 0.0, 0.0]
    assert [found[id]["title_and_body_top_3"] for id in "abc"] == [1.0, 0.0, 1.0]


def test_those_that_tie_are_among_the_best_together() -> None:
    table = {name: [1.0] * 40 for name in MATCHES}
    found = told(rows_of([Candidate(str(i), 2.0) for i in range(40)], matches(table), now=NOW))
    assert {row[f"relevance_top_{a}"] for row in found.values() for a in TOP_SIZES} == {1.0}
    scores = [Candidate(str(i), 40.0 - i) for i in range(40)]
    found = told(rows_of(scores, matches(table), now=NOW))
    assert [sum(row[f"relevance_top_{a}"] for row in found.values()) for a in TOP_SIZES] == list(TOP_SIZES)


def test_nothing_found_and_nothing_known() -> None:
    assert rows_of([], np.empty((0, len(MATCHES)))) == {}
    rows = rows_of([Candidate("a", 0.0)], np.zeros((1, len(MATCHES))))
    assert rows["a"][BASE] == 0.0
    assert {name for name, value in told(rows)["a"].items() if value} == {"title_length", "body_length"}


def test_a_date_in_the_future_is_new() -> None:
    table = TABLE | {"at": [NOW + 9 * YEAR_SECONDS, NOW, 1.0]}
    found = told(rows_of(CANDIDATES, matches(table), now=NOW))
    assert [found[id]["recency"] for id in "ab"] == [1.0, 1.0]
    assert 0.0 < found["c"]["recency"] < 0.1


def test_numbers_stay_within_bounds() -> None:
    rng = np.random.default_rng(3)
    table = rng.random((100, len(MATCHES)))
    for name, top in {
        "bm25_title": 50.0,
        "bm25_body": 900.0,
        "title_length": 300.0,
        "body_length": 1e6,
        "at": 2e9,
    }.items():
        table[:, MATCHES.index(name)] *= top
    scores = np.sort(rng.random(100) * 1e4)[::-1]
    rows = rows_of([Candidate(str(i), score) for i, score in enumerate(scores.tolist())], table, now=NOW)
    values = np.array([list(row.values()) for row in told(rows).values()])
    assert values.min() >= -1.0
    assert values.max() <= log1p(1e6) / 5.0
    assert (values * ROUNDING == np.round(values * ROUNDING)).all()
    assert {0.0 <= row[BASE] <= 1.0 for row in rows.values()} == {True}


def test_the_encoder_reads_what_was_written() -> None:
    schema = search_schema()
    rows = rows_of(CANDIDATES, matches(), now=NOW)
    found = Encoder(schema).rows(list(rows), list(rows.values()), {"query": "q", "words": ["q", "r"], "similar": ["q"]})
    assert found.dense[:, schema.slot(BASE)].tolist() == [1.0, 0.5, 0.25]
    vectors = [np.frombuffer(base64.b64decode(row[MATCH_FIELD]), "<f4").tolist() for row in rows.values()]
    first = schema.slots[MATCH_FIELD]
    assert found.dense[:, first : first + len(MATCH_NAMES)].tolist() == vectors
    assert np.diff(found.starts).tolist() == [
        7,
        7,
        7,
    ]  # document, near; query, two words and a similar query × document; query × near


def test_names() -> None:
    assert len(set(MATCH_NAMES)) == len(MATCH_NAMES)
    assert [match_name(f"{MATCH_FIELD}[{i}]") for i in range(len(MATCH_NAMES))] == list(MATCH_NAMES)
    for other in ("bm25", "match", "match[x]", "document = match[1]"):
        assert match_name(other) == other


def test_fields_are_values_of_the_documents_and_crossed_with_segments() -> None:
    fields = {"a": {"kind": "x", "other": "y"}, "b": {}, "c": {"kind": "z"}}
    engine = mock.Mock(spec=["candidates", "features", "document"])
    engine.candidates.return_value, engine.features.return_value = CANDIDATES, matches()
    engine.document.side_effect = lambda id: TextDocument(id, "", "", fields=fields[id])
    rows = RankingQuestion.of(engine, read_text("wing"), 3, ["kind"]).rows
    assert all("other" not in row for row in rows.values())
    assert [row.get("kind") for row in rows.values()] == ["x", None, "z"]
    schema = search_schema(["kind", "colour"])
    assert set(schema.crosses) >= {
        "segment*kind",
        "segment*colour",
        "query*document",
        "words*document",
        "similar*document",
    }
    assert "segment" not in search_schema().context
    assert "visitor*document" in search_schema(visitors=True).crosses


@pytest.mark.parametrize(
    "name", ["relevance", "match", "document", "query", "words", "similar", "near", "segment", "visitor"]
)
def test_names_of_the_box_itself_are_no_fields(name: str) -> None:
    with pytest.raises(InvalidInput, match="rename the field"):
        search_schema(["kind", name])
