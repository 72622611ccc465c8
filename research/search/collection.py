"""A collection of documents to search, its queries and judgements: Cranfield where it is, else one that is made up."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import NotFound
from rankloop.core.types import Floats, Ints, Query
from rankloop.data.folder import absence_notice, data_path
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.measures.base import parse_measure
from rankloop.search.engine import TextDocument
from rankloop.search.features import RankingQuestion, search_schema
from rankloop.search.local_engine import LocalEngine
from rankloop.search.ranked_search import MAX_CANDIDATES
from rankloop.search.sources import Skipped, SourceDocument
from rankloop.search.texts import read_text
from research.datasets.cranfield import TestCollection, read_cranfield

CRANFIELD_FOLDER = "search/cranfield"
N_ASKED_QUERIES = 150  # queries that users ask; the others are never asked, and judged afterwards
TOPICS, PER_TOPIC, WORDS_PER_TOPIC = 45, 20, 12
N_COMMON_WORDS = 400  # words that stand in documents of every topic
N_QUERIES = 225


class Documents:
    """The documents of a collection as a source."""

    def __init__(self, name: str, documents: Mapping[str, tuple[str, str]]) -> None:
        self.name, self.skipped, self._documents = name, Skipped(), documents

    def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
        """Yield the documents."""
        for id, (title, body) in self._documents.items():
            yield SourceDocument(id, "1", TextDocument(id, title, body))


class Asked(NamedTuple):
    """A query with its candidates as a learner sees them, which of them answer it, and the ideal for a measure."""

    query: Query
    relevance: Floats
    missed: int  # documents that answer it and are not among the candidates

    def ndcg(self, ranking: Ints) -> float:
        """nDCG@10 by all documents that answer the query, found or not."""
        n_candidates = max(len(ranking), 10)  # a document that is missed is below the first ten of a short list, too
        grades = np.zeros(n_candidates + self.missed)
        grades[: len(self.relevance)], grades[n_candidates:] = self.relevance, 1.0
        return float(NDCG_AT_10(np.concatenate([ranking, np.setdiff1d(np.arange(len(grades)), ranking)]), grades))


NDCG_AT_10 = parse_measure("nDCG@10")


def collection() -> tuple[str, TestCollection, str]:
    """Name and content, and a notice where Cranfield is not on this machine."""
    try:
        return "Cranfield", read_cranfield(data_path(CRANFIELD_FOLDER)), ""
    except NotFound:
        return "made-up documents", made_up(), absence_notice("Cranfield") + "; documents are made up instead. "


@contextmanager
def engine_of(documents: Documents, meaning: str = "lsa") -> Iterator[LocalEngine]:
    """An engine over a collection, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        engine = LocalEngine(Path(folder), meaning=meaning)
        try:
            engine.refresh(documents)
            yield engine
        finally:
            engine.close()


def asked(test_collection: TestCollection, engine: LocalEngine) -> tuple[Schema, list[Asked]]:
    """Every query of a collection as the search box puts it to its learner."""
    schema = search_schema()
    encoder, queries = Encoder(schema), []
    for text in test_collection.queries[:N_ASKED_QUERIES]:
        engine.remember(read_text(text))
    for text, relevant in zip(test_collection.queries, test_collection.relevant):
        question = RankingQuestion.of(engine, read_text(text), MAX_CANDIDATES, now=0.0)
        rows = encoder.rows(list(question.rows), list(question.rows.values()), question.context)
        grades = np.array([float(id in relevant) for id in question.rows])
        query = Query(question.query_id, rows, np.empty(0))
        queries.append(Asked(query, grades, len(relevant) - int(grades.sum())))
    return schema, queries


def made_up(seed: int = 0) -> TestCollection:
    """Documents of some topics in words of their own and common ones; a query asks for a topic by some of its words.

    Within a topic a query has answers that its words do not tell: users know them, an engine does not.
    """
    rng = np.random.default_rng(seed)
    documents, members = dict[str, tuple[str, str]](), list[list[str]]()
    for topic in range(TOPICS):
        members.append([f"t{topic}-{i}" for i in range(PER_TOPIC)])
        for id in members[-1]:
            topic_words = [f"topic{topic}word{w}" for w in rng.integers(0, WORDS_PER_TOPIC, 12)]
            others = [f"common{w}" for w in rng.zipf(1.5, 40) % N_COMMON_WORDS]
            words = rng.permutation(topic_words + others).tolist()
            documents[id] = " ".join(words[:6]), " ".join(words[6:])
    queries, relevant = [], []
    for number in range(N_QUERIES):
        topic = number % TOPICS
        words = rng.choice(WORDS_PER_TOPIC, 3, replace=False)
        queries.append(" ".join(f"topic{topic}word{w}" for w in words))
        relevant.append(frozenset(rng.choice(members[topic], 5, replace=False).tolist()))
    return TestCollection(documents, tuple(queries), tuple(relevant))
