"""A collection to search: made up where there is none, its queries as a learner sees them."""

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.types import Query, Rows
from rankloop.measures.base import parse_measure
from research.search import collection
from research.search.collection import Asked, Documents, asked, engine_of, made_up


def test_without_data_documents_are_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    name, found, notice = collection.collection()
    assert name == "made-up documents"
    assert "RANKLOOP_DATA" in notice
    assert len(found.documents) == 45 * 20
    assert len(found.queries) == len(found.relevant) == 225
    assert found == made_up()
    assert made_up(1) != found


def test_answers_are_of_the_topic_and_words_do_not_tell_them() -> None:
    found = made_up()
    for query, relevant in zip(found.queries, found.relevant):
        topic = query.split("word")[0].removeprefix("topic")
        assert {id.split("-")[0] for id in relevant} == {f"t{topic}"}
        assert len(relevant) == 5


def test_queries_as_the_box_asks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "TOPICS", 4)
    monkeypatch.setattr(collection, "N_QUERIES", 8)
    found = made_up()
    with engine_of(Documents("made up", found.documents)) as engine:
        schema, queries = asked(found, engine)
    assert len(queries) == 8
    for one, relevant in zip(queries, found.relevant):
        assert isinstance(one.query.features, Rows)
        assert one.query.features.n_items == len(one.relevance)
        assert one.relevance.sum() + one.missed == len(relevant) == 5
    assert schema.slot("relevance") == 0


def test_what_was_not_found_counts_in_the_ideal() -> None:
    one = Asked(Query("q", np.zeros((3, 1)), np.empty(0)), np.array([0.0, 1.0, 0.0]), missed=1)
    ideal = 1 / np.log2(2) + 1 / np.log2(3)
    assert one.ndcg(np.array([0, 1, 2])) == pytest.approx(1 / np.log2(3) / ideal)  # nobody sees what is not found
    found = one._replace(missed=0)
    assert found.ndcg(np.array([1, 0, 2])) == 1.0
    assert found.ndcg(np.array([0, 1, 2])) == parse_measure("nDCG@10")(np.arange(3), np.array([0.0, 1.0, 0.0]))
