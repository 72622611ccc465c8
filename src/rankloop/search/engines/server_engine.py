"""A `SearchEngine` over an engine that runs elsewhere: PostgreSQL, OpenSearch, Elasticsearch, Solr and others."""

import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import MATCHES, Candidate, Snippet, TextDocument, TextQuery
from rankloop.search.engines.adapter import EngineAdapter, EngineAnswer, EngineSettings
from rankloop.search.indexes.match_kernel import CorpusStatistics, joined, matches
from rankloop.search.indexes.stemmers import StemNumbers, WordStems
from rankloop.search.texts import snippet_of, words_in
from rankloop.service.errors import Unavailable

ADAPTERS = tomllib.loads(Path(__file__).with_name("adapters.toml").read_text(encoding="utf-8"))  # by name
N_FETCHED = 100  # documents of one answer
FRESH_SECONDS = 2.0  # for which an answer is used again: candidates, features and texts of a search are one call
MAX_STALE_SECONDS = 300.0  # the age of the last answer that still stands in for an engine that fails
RETRY_SECONDS = 1.0  # between a failure and the next call
MAX_MEMO_QUERIES = 256
MAX_READ_WORDS = 20_000  # of a body, for the features
USUAL_LENGTHS = np.array([8.0, 200.0])  # words of title and body; means of the collection are not known here
EMBEDDING = MATCHES.index("embedding")
PASSWORD = re.compile(r"(?<=//)[^/@\s]+@")
T = TypeVar("T")


class EngineUnavailable(Unavailable):
    """The engine does not answer, and there is no recent answer to the same query."""


class ServerEngine:
    """A search engine over an adapter. Documents, scores, filters, facets and highlights are the engine's own.

    Match features are computed here from the texts that the engine returns. If the engine fails or is too slow, its
    last answer to the same query counts for five minutes; `age_seconds` tells its age. Without such an answer the
    search raises `EngineUnavailable`: an order is never made up. The language "auto" is English.
    """

    def __init__(self, adapter: EngineAdapter, field_names: Sequence[str] = (), language: str = "auto") -> None:
        self.adapter, self.field_names = adapter, tuple(field_names)
        self._stems_of = WordStems("english" if language == "auto" else language)
        self._numbers_of = StemNumbers()
        self._answers: dict[TextQuery, tuple[float, int, EngineAnswer]] = {}  # with time and number of documents
        self._failed_at, self._failure = -np.inf, ""
        self.n_documents = self._call(adapter.count)

    @classmethod
    def connect(cls, text: str, settings: EngineSettings) -> "ServerEngine":
        """Connect to `NAME=URL`, such as `opensearch=http://localhost:9200/articles`, whose last part is the index.

        Of the settings all but `url` and `collection` count, which are taken from the text.
        """
        name, _, url = text.partition("=")
        if name not in ADAPTERS:
            raise InvalidInput(f"engine = {text!r:.60} must be NAME=URL of {', '.join(ADAPTERS)}")
        parts = urlsplit(url)
        path, _, index = parts.path.rstrip("/").rpartition("/")
        if not parts.scheme or (not parts.netloc and name != "postgresql") or not index:
            raise InvalidInput(
                f"engine = {text!r:.80} needs a URL whose path ends in the index: {name}=http://host/index"
            )
        module, adapter_class, package, extra = ADAPTERS[name]
        try:
            import_module(package)
        except ImportError:
            raise NotFound(f"the engine {name} needs the package {package}: pip install 'rankloop[{extra}]'") from None
        settings = settings._replace(url=urlunsplit(parts._replace(path=path)), collection=index)
        adapter_of = getattr(import_module(f"rankloop.search.engines.{module}"), adapter_class)
        try:
            adapter = adapter_of(settings)
        except Exception as error:  # Every client has errors of its own.
            raise EngineUnavailable(_failure_of(error)) from error
        return cls(adapter, settings.fields, settings.language)

    def close(self) -> None:
        self.adapter.close()

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        return [] if n < 1 else [Candidate(hit.document.id, hit.score) for hit in self._answer(query, n).hits[:n]]

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        """Return a row per document with a column for each of MATCHES; refuse a document that the engine has not."""
        by_id = self.documents(query, ids)
        missing = [id for id in ids if id not in by_id]
        if missing:
            raise InvalidInput(f"there is no document {missing[0]!r:.80} in the engine")
        stems = list(dict.fromkeys(self._stems_of(query.words)))
        # Document frequencies are the engine's secret, so that all words weigh the same.
        corpus = CorpusStatistics(1, USUAL_LENGTHS, np.ones((len(stems), 2)))
        titles, bodies = (
            joined([self._numbers_in(text).tobytes() for text in texts])
            for texts in ([by_id[id].title for id in ids], [by_id[id].body for id in ids])
        )
        dates = np.array([by_id[id].at for id in ids], dtype=np.float64)
        features: Floats = matches(self._numbers_of(stems), self._numbers_in(query.text), corpus, titles, bodies, dates)
        similarities = {hit.document.id: hit.similarity for hit in self._answer(query).hits}
        features[:, EMBEDDING] = [max(similarities.get(id, 0.0), 0.0) for id in ids]
        return features

    def _numbers_in(self, text: str) -> Ints:
        return self._numbers_of(self._stems_of(words_in(text)[:MAX_READ_WORDS]))

    def document(self, id: str) -> TextDocument | None:
        return next(iter(self._call(lambda: self.adapter.documents([id]))), None)

    def documents(self, query: TextQuery, ids: Sequence[str]) -> dict[str, TextDocument]:
        """Return documents by id: those of the answer to a query as it has them, others from the engine."""
        by_id = {hit.document.id: hit.document for hit in self._answer(query).hits}
        missing = [id for id in ids if id not in by_id]
        if missing:
            by_id |= {document.id: document for document in self._call(lambda: self.adapter.documents(missing))}
        return {id: by_id[id] for id in ids if id in by_id}

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> list[Snippet]:
        """Return for each document the engine's highlighted piece, or the piece with most words of the query."""
        of_engine = {hit.document.id: hit.snippet for hit in self._answer(query).hits}
        marked = getattr(self.adapter, "snippets", None)  # where highlights are a call of their own
        if marked is not None and ids and query.words:
            with suppress(EngineUnavailable):  # An answer that stands in for the engine has none of its highlights.
                of_engine = self._call(lambda: marked(query, ids))
        documents, stems = self.documents(query, ids), set(self._stems_of(query.words))
        prefix = query.words[-1] if query.prefix and query.words else ""
        bodies = [documents[id].body if id in documents else "" for id in ids]
        return [
            snippet if snippet.highlights else snippet_of(body, stems, prefix, self._stems_of)
            for body, snippet in zip(bodies, (of_engine.get(id, Snippet("")) for id in ids))
        ]

    def facets(self, query: TextQuery) -> Mapping[str, Mapping[str, int]]:
        """Return the values of each field with the engine's counts."""
        return self._answer(query).facets

    def age_seconds(self, query: TextQuery) -> float:
        """Return the age of the answer that stands in for an engine that fails; 0 where the engine answers."""
        age = time.monotonic() - self._answers[query][0] if query in self._answers else 0.0
        return age if age > FRESH_SECONDS else 0.0

    def _answer(self, query: TextQuery, n: int = N_FETCHED) -> EngineAnswer:
        """Return the engine's answer, the last one where it fails."""
        if not query.words and not query.phrases and not query.filters:
            return EngineAnswer()
        now, n = time.monotonic(), max(n, N_FETCHED)
        at, n_fetched, last = self._answers.get(query, (-np.inf, 0, EngineAnswer()))
        if n_fetched >= n and now - at < FRESH_SECONDS:
            return last
        try:
            answer = self._call(lambda: self.adapter.search(query, n))
        except EngineUnavailable:
            if now - at < MAX_STALE_SECONDS:
                return last
            raise
        if len(self._answers) >= MAX_MEMO_QUERIES:
            self._answers.pop(next(iter(self._answers)), None)
        self._answers[query] = now, n, answer
        return answer

    def _call(self, call: Callable[[], T]) -> T:
        """Return what a call of the adapter returns; for a moment after a failure the engine is left alone."""
        if time.monotonic() - self._failed_at < RETRY_SECONDS:
            raise EngineUnavailable(self._failure)
        try:
            return call()
        except Exception as error:  # Every client has errors of its own.
            self._failed_at = time.monotonic()
            self._failure = _failure_of(error)
            raise EngineUnavailable(self._failure) from error


def _failure_of(error: Exception) -> str:
    """Return a message about a client's error, without a password that its text may repeat."""
    return f"the engine does not answer: {type(error).__name__}: {PASSWORD.sub('', str(error)):.200}"
