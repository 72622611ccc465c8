"""Documents that an engine finds, in the order that a ranker of the service has learned."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Query
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.search.engine import MATCHES, Candidate, SearchEngine, Snippet, TextQuery
from rankloop.search.features import BASE, match_name, question_of, rows_of, search_schema
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text, same_query
from rankloop.service.application.administration import MAX_WAIT_SECONDS
from rankloop.service.application.node import Node
from rankloop.service.application.ranking import query_request
from rankloop.service.records import ranker_entity
from rankloop.service.requests import BaseBody, CreateBody, FeedbackBody, Item, ProblemBody, RankBody, SchemaBody

RANKER = "search"
CANDIDATES = 100
SHOWN = 50  # results whose clicks count
DAY = 86_400.0
MAX_DAYS = 1e6
LEARNER = {
    "kind": "trusted_memory",
    "inner": {"kind": "click_residuals"},
    "rate": 0.1,
    "prior": 1.0,
    "memory_rate": 0.4,
    "memory_prior": 0.3,
    "by_query": True,
}
BASE_WEIGHT = 5.0


@dataclass(frozen=True)
class SearchResult:
    """A document that was found."""

    id: str
    title: str
    snippet: str
    highlights: tuple[tuple[int, int], ...]  # where words of the query stand in the snippet: from, to
    score: float  # the engine's own


@dataclass(frozen=True)
class SearchResults:
    """What was found for a query, best first; `impression` is its name in the log, empty where it was not logged."""

    query: str
    results: tuple[SearchResult, ...] = ()
    impression: str = ""
    state: int = 0  # how many lessons the order is made of
    compared: bool = False  # whether it is a mixture with the engine's own order, which teaches nobody

    @property
    def ids(self) -> list[str]:
        return [result.id for result in self.results]


def search_session(schema: Schema, seed: int) -> Session:
    """The learner of the box by itself, as the service has it inside."""
    learner: Any = {"kind": "base_score", "feature": schema.slot(BASE), "weight": BASE_WEIGHT, "inner": LEARNER}
    return Session(build(learner, "learner"), schema.problem(shown=SHOWN), seed)


class RankedSearch:
    """A search engine and the ranker that learns its order. Every call may be made by many at once."""

    def __init__(self, node: Node, engine: SearchEngine, seed: int = 0, fields: Sequence[str] = ()) -> None:
        self.node = node
        self.engine = engine
        self.fields = tuple(fields)
        self._seed = seed

    async def begin(self) -> None:
        """Make the ranker, or go on with the one that is there; it gets to know fields that are new."""
        await asyncio.to_thread(self._compile)
        schema = search_schema(self.fields).to_plain()
        if RANKER in self.node.directory.rankers:
            parts = {name: schema[name] for name in ("features", "context", "crosses")}
            await self.node.administration.change_schema(RANKER, SchemaBody(**parts))
            return
        problem = ProblemBody(schema=schema, shown=SHOWN)
        base = BaseBody(feature=BASE, weight=BASE_WEIGHT)
        await self.node.administration.create(
            RANKER, CreateBody(LEARNER, problem, seed=self._seed, base=base, window=DAY)
        )

    def _compile(self) -> None:
        """Everything once, on documents that nobody has: so the first visitor does not wait for it."""
        names = ("a", "b")
        rows = rows_of([Candidate(id, 1.0) for id in names], np.ones((2, len(MATCHES))))
        context = {"query": "a b", "words": ["a", "b"]}
        schema = search_schema()
        query = Query("a b", Encoder(schema).rows(names, list(rows.values()), context), np.empty(0))
        session = search_session(schema, 0)
        session.predict(query)
        session.learn(query, session.rank(query), Clicks(np.array([0]), np.ones(1)))
        if isinstance(self.engine, LocalEngine):
            self.engine.features(read_text("a b"), [])

    async def search(
        self, text: str, n: int = 10, visitor: str = "", segment: str = "", compared: bool = False
    ) -> SearchResults:
        """The best n for a query, now and then with neighbours swapped, which is logged; clicks on it teach."""
        query = _checked(text, n)
        _check_text(visitor, "visitor")
        body, scores = await asyncio.to_thread(self._request, query, visitor, segment)
        if not body.items:
            return SearchResults(query.text)
        answer = await self.node.ranking.rank(RANKER, body, compared=compared)
        ids = [str(id) for id in answer.ranking[:n]]
        found = await asyncio.to_thread(self._results, query, ids, scores)
        return SearchResults(query.text, found, answer.impression, answer.state, compared)

    async def predict(self, text: str, n: int = 10, segment: str = "", *, prefix: bool = False) -> SearchResults:
        """The same without exploration and without a trace; `prefix` takes the last word as only begun."""
        query = _checked(text, n, prefix)
        body, scores = await asyncio.to_thread(self._request, query, "", segment)
        if not body.items:
            return SearchResults(query.text)
        runtime = self.node.directory.ranker(RANKER)
        request = query_request(body, runtime.config, CANDIDATES)
        ids = [str(request.ids[i]) for i in runtime.serving.predict(request.query)[:n]]
        return SearchResults(
            query.text, await asyncio.to_thread(self._results, query, ids, scores), state=runtime.published.number
        )

    async def learn(self, impression: str, clicks: Sequence[str] | Mapping[str, float], final: bool = True) -> str:
        """What became of the clicks: taken, closed (they are learned from) or repeated (they were there already)."""
        given: Any = dict(clicks) if isinstance(clicks, Mapping) else list(clicks)
        return (await self.node.feedback.receive(RANKER, FeedbackBody(impression, clicks=given, final=final))).verdict

    async def learned(self) -> None:
        """Wait until all that was clicked is served, which takes long only where kernels have to be compiled first."""
        last = await asyncio.to_thread(self.node.store.last)
        await self.node.learning.served(ranker_entity(RANKER), last, MAX_WAIT_SECONDS)

    async def undo(self, impression: str, id: str) -> bool:
        """Take a click back, learned from or not; whether there was one."""
        return await self.node.administration.retract(RANKER, impression, id)

    async def explain(self, impression: str, id: str) -> dict[str, Any]:
        """What each value of a document adds to its score now, the largest first."""
        found = await self.node.administration.explain(RANKER, impression, id)
        parts = [part | {"name": match_name(part["name"])} for part in found["contributions"]]
        return found | {"contributions": parts}

    async def forget(self, query: str | None = None, visitor: str | None = None, days: float | None = None) -> int:
        """Forget what was asked: a query, a visitor, all that is older than some days; how many impressions it was."""
        if days is not None and not (isinstance(days, int | float) and 0 <= days < MAX_DAYS):
            raise InvalidInput(f"days = {days!r:.40} must be a number of days from 0")
        if visitor is not None:
            _check_text(visitor, "visitor")
        if visitor == "":
            raise InvalidInput(
                "visitor is empty: give a visitor id; searches without a visitor are deleted by query or by days"
            )
        return await self.node.administration.forget(
            RANKER,
            query_id=None if query is None else same_query(read_text(query)),
            user=visitor,
            before=None if days is None else time.time() - days * DAY,
        )

    def _request(self, query: TextQuery, visitor: str, segment: str) -> tuple[RankBody, dict[str, float]]:
        question = question_of(self.engine, query, CANDIDATES, self.fields, segment)
        items = [Item(id, row) for id, row in question.rows.items()]
        return RankBody(items, question.query_id, question.context, user=visitor), question.scores

    def _results(self, query: TextQuery, ids: Sequence[str], scores: Mapping[str, float]) -> tuple[SearchResult, ...]:
        found = []
        for id, snippet in zip(ids, self._snippets(query, ids)):
            document = self.engine.document(id)
            if document is not None:  # else it is gone since the engine found it
                found.append(SearchResult(id, document.title, snippet.text, snippet.highlights, scores[id]))
        return tuple(found)

    def _snippets(self, query: TextQuery, ids: Sequence[str]) -> Sequence[Snippet]:
        if isinstance(self.engine, LocalEngine):
            return self.engine.snippets(query, ids)
        return [Snippet("")] * len(ids)


def _check_text(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is a text, got {value!r:.60}")


def _checked(text: str, n: int, prefix: bool = False) -> TextQuery:
    if type(n) is not int or not 1 <= n <= SHOWN:
        raise InvalidInput(f"n = {n!r:.40} must be a number of results from 1 to {SHOWN}")
    return read_text(text, prefix=prefix)
