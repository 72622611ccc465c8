"""Documents that an engine finds, in the order that a ranker of the service has learned."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Query
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.search.engine import MATCHES, Candidate, SearchEngine, Snippet, TextQuery, documents_of
from rankloop.search.features import BASE, RankingQuestion, match_name, rows_of, search_schema
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text, same_query
from rankloop.service import request_bodies as bodies
from rankloop.service.application.administration import MAX_WAIT_SECONDS
from rankloop.service.application.event_removal import Selection
from rankloop.service.application.node import Node
from rankloop.service.application.served_ranker import query_request
from rankloop.service.errors import TooMany

RANKER = "search"
MAX_CANDIDATES = 100
MAX_SHOWN = 50  # results whose clicks count
DAY_SECONDS = 86_400.0
MAX_DAYS = 1e6
MINUTE_SECONDS = 60.0
MAX_UNDOS_PER_VISITOR, MAX_UNDOS = 10, 60  # or requests to be forgotten, in a minute; the second of all visitors
LEARNER = {
    "kind": "trusted_memory",
    "inner": {"kind": "click_residuals"},
    "rate": 0.003,
    "prior": 1.0,
    "memory_rate": 0.3,
    "memory_prior": 0.3,
    "by_query": True,
    "by_user": True,
    "user_prior": 0.1,
    "user_distrust_t": 0.3,  # of a ranker that remembers visitors: PERSONAL_DISTRUST_T
}
PERSONAL_DISTRUST_T = 2.0  # where visitors are remembered, one who differs from others has a memory of their own
BASE_WEIGHT = 5.0
SORTS = ("relevance", "date")


@dataclass(frozen=True)
class SearchResult:
    """A document in a list of results."""

    id: str
    title: str
    snippet: str  # the piece of its text with most words of the query
    highlights: tuple[tuple[int, int], ...]  # places of those words in the snippet: start, end
    score: float  # the engine's own, without what was learned; `SearchBox.explain` returns the score that sorts
    at: float = 0.0  # the date in seconds since 1970; 0: unknown
    fields: Mapping[str, str] = field(default_factory=dict)  # further values by name, joined by \x1f where several
    by_meaning: bool = False  # it has none of the words, but is near in meaning


@dataclass(frozen=True)
class SearchResults:
    """The results of a query, best first."""

    query: str  # as it was typed
    results: tuple[SearchResult, ...] = ()
    impression: str = ""  # the name of this list in the log; empty where it was not logged
    state: int = 0  # the number of updates that the order is made of
    compared: bool = False  # mixed with the engine's own order, and not learned from
    did_you_mean: str = ""  # the query with mistyped words corrected; empty where there is nothing to correct
    suggestions: tuple[str, ...] = ()  # the query with its last word finished, while it is being typed
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # numbers of documents by field and value
    age_seconds: float = 0.0  # of the engine's answer, where an engine elsewhere does not answer now; else 0

    @property
    def ids(self) -> list[str]:
        """Return the ids of the documents, best first."""
        return [result.id for result in self.results]


class SearchOptions(bodies.Strict):
    """Options of one search."""

    n: int = 10  # the number of results, from 1 to 50
    visitor: str = ""  # who searches; empty where that is unknown
    segment: str = ""  # the kind of visitor, who may like some values of the documents' fields more than others
    sort: str = "relevance"  # or "date" for the newest first, which is not learned from
    facets: bool = False  # count the values of fields among matching documents
    prefix: bool = False  # the last word is only begun


def search_session(schema: Schema, seed: int) -> Session:
    """Return the learner of the search box by itself, as the service runs it.

    Args:
      schema: Of the features.
      seed: Of the exploration.
    """
    learner: Any = {"kind": "base_score", "feature": schema.slot(BASE), "weight": BASE_WEIGHT, "inner": LEARNER}
    return Session(build(learner, "learner"), schema.problem(shown=MAX_SHOWN), seed)


class RankedSearch:
    """A search engine and the ranker that learns its order; all calls may run at the same time.

    The service of the node learns; the other arguments are those of `SearchBox`. A `text` is what was typed, a
    `query` its words as they were read, and a `question` the documents that match, with the features of the ranker.
    """

    def __init__(
        self, node: Node, engine: SearchEngine, seed: int, fields: Sequence[str], remember_visitors: bool
    ) -> None:
        self.node, self.engine, self._seed = node, engine, seed
        self._fields, self._remember_visitors = tuple(fields), remember_visitors
        self._undos: deque[tuple[float, str]] = deque()  # of the last minute: the time and the visitor

    async def begin(self) -> None:
        """Create the ranker, or go on with the existing one, which takes over fields that are new."""
        await asyncio.to_thread(self._warm_up)
        schema = search_schema(self._fields, self._remember_visitors).to_plain()
        if RANKER in self.node.directory.rankers:
            parts = {name: schema[name] for name in ("features", "context", "crosses")}
            await self.node.administration.change_schema(RANKER, bodies.SchemaBody(**parts))
            return
        problem = bodies.ProblemBody(schema=schema, shown=MAX_SHOWN)
        base = bodies.BaseBody(feature=BASE, weight=BASE_WEIGHT)
        learner = LEARNER | ({"user_distrust_t": PERSONAL_DISTRUST_T} if self._remember_visitors else {})
        body = bodies.CreateBody(learner, problem, seed=self._seed, base=base, window=DAY_SECONDS)
        await self.node.administration.create(RANKER, body)

    def _warm_up(self) -> None:
        """Run everything once on made-up documents, so that the first visitor does not wait for compilation."""
        rows = rows_of([Candidate("a", 1.0), Candidate("b", 1.0)], np.ones((2, len(MATCHES))))
        schema, context = search_schema(), {"query": "a b", "words": ["a", "b"], "similar": ["a b"]}
        query = Query("a b", Encoder(schema).rows(list(rows), list(rows.values()), context), np.empty(0), "a")
        session = search_session(schema, 0)
        session.predict(query)
        session.learn(query, session.rank(query), Clicks(np.array([0]), np.ones(1)))
        if isinstance(self.engine, LocalEngine):
            self.engine.features(read_text("a b"), [])

    async def search(
        self, text: str, options: SearchOptions, *, compared: bool = False, is_logged: bool = True
    ) -> SearchResults:
        """Return the best documents for a query; neighbours are swapped now and then to explore.

        A list that is not logged, as one that is sorted by date, has no exploration. A list that is `compared` mixes
        the learned order with the engine's own, for a study, and is not learned from.
        """
        query, is_logged = self._checked(text, options), is_logged and options.sort != "date"
        body, scores = await asyncio.to_thread(self._request, query, options, is_logged)
        ids, log_fields = list[str](), dict[str, Any]()
        if body.items and is_logged:
            answer = await self.node.ranking.rank(RANKER, body, compared=compared)
            ids = list(map(str, answer.ranking))
            log_fields = {"impression": answer.impression, "state": answer.state, "compared": compared}
        elif body.items:
            runtime = self.node.directory.ranker(RANKER)
            request = query_request(body, runtime.config, MAX_CANDIDATES)
            ids = [str(request.ids[i]) for i in runtime.serving.predict(request.query)]
            log_fields = {"state": runtime.published.number}
        if options.sort == "date":
            if isinstance(self.engine, LocalEngine):  # New documents that are only near in meaning would be the first.
                by_meaning = self.engine.by_meaning(query)
                ids = [id for id in ids if id not in by_meaning] or ids
            documents = await asyncio.to_thread(documents_of, self.engine, query, ids)
            ids.sort(key=lambda id: -documents[id].at if id in documents else 0.0)
        results = await asyncio.to_thread(self._with_texts, query, options, ids[: options.n], scores)
        return replace(results, **log_fields)

    async def learn(self, impression: str, clicks: Sequence[str] | Mapping[str, float], final: bool = True) -> str:
        """Take clicks on a list, as ids or as weights by id; where nothing more will come, learn from it now.

        The verdict is accepted, closed (it is learned from) or repeated (the clicks were there already).
        """
        values: Any = dict(clicks) if isinstance(clicks, Mapping) else list(clicks)
        body = bodies.FeedbackBody(impression, clicks=values, final=final)
        return (await self.node.feedback.receive(RANKER, body)).verdict

    async def wait_until_all_served(self) -> None:
        """Wait until all clicks so far are served."""
        last = await asyncio.to_thread(self.node.store.last)
        await self.node.learning.wait_until_served(f"ranker/{RANKER}", last, MAX_WAIT_SECONDS)

    async def undo(self, impression: str, id: str, visitor: str | None = None) -> bool:
        """Take a click back, learned from or not; the visitor asks for it, None for the owner, who may undo any click.

        Visitors may undo a few of their own clicks in a minute, because each learns again what came after.
        """
        if visitor is not None:
            shown = await self.node.ranking.logged_ranking(f"ranker/{RANKER}", impression)
            if shown is None or not visitor or shown.user != visitor:
                raise NotFound("no list of this name was shown to you: only your own clicks can be undone")
            self._count_undo(visitor)
        return await self.node.administration.retract(RANKER, impression, id)

    def _count_undo(self, visitor: str) -> None:
        now = time.monotonic()
        while self._undos and self._undos[0][0] < now - MINUTE_SECONDS:
            self._undos.popleft()
        if [by for _, by in self._undos].count(visitor) >= MAX_UNDOS_PER_VISITOR:
            raise TooMany(f"a visitor may undo or forget {MAX_UNDOS_PER_VISITOR} times in a minute: try again later")
        if len(self._undos) >= MAX_UNDOS:
            raise TooMany(f"all visitors together may undo or forget {MAX_UNDOS} times in a minute: try again later")
        self._undos.append((now, visitor))

    async def explain(self, impression: str, id: str) -> dict[str, Any]:
        """Return the contribution of each feature of a document to its score now, the largest first."""
        explanation = await self.node.administration.explain(RANKER, impression, id)
        parts = [part | {"name": match_name(part["name"])} for part in explanation["contributions"]]
        return explanation | {"contributions": parts}

    async def forget_me(self, visitor: str) -> int:
        """Forget a visitor who asks for it, which is limited as undos are."""
        self._count_undo(visitor)
        return await self.forget(visitor=visitor)

    async def forget(self, query: str | None = None, visitor: str | None = None, days: float | None = None) -> int:
        """Forget a query, a visitor or what is older than some days, and return the number of searches."""
        if days is not None and not (isinstance(days, int | float) and 0 <= days < MAX_DAYS):
            raise InvalidInput(f"days = {days!r:.40} must be a number of days from 0")
        _check_visitor("" if visitor is None else visitor)
        if visitor == "" or (query, visitor, days) == (None, None, None):
            raise InvalidInput("give query, visitor or days; searches without a visitor are deleted by the other two")
        name = None if query is None else same_query(read_text(query))
        shown_before = None if days is None else time.time() - days * DAY_SECONDS
        count = await self.node.administration.forget(RANKER, Selection(name, visitor, shown_before))
        if isinstance(self.engine, LocalEngine):
            await asyncio.to_thread(self.engine.past_queries.forget, name)
        return count

    def _request(
        self, query: TextQuery, options: SearchOptions, is_logged: bool
    ) -> tuple[bodies.RankBody, dict[str, float]]:
        context = {"segment": options.segment} if options.segment and self._fields else {}
        if self._remember_visitors and options.visitor:
            context["visitor"] = options.visitor
        question = RankingQuestion.of(self.engine, query, MAX_CANDIDATES, self._fields)
        if is_logged and question.rows and isinstance(self.engine, LocalEngine):
            self.engine.remember(query)
        items = [bodies.Item(id, row) for id, row in question.rows.items()]
        body = bodies.RankBody(items, question.query_id, question.context | context, user=options.visitor)
        return body, question.scores

    def _with_texts(
        self, query: TextQuery, options: SearchOptions, ids: Sequence[str], scores: Mapping[str, float]
    ) -> SearchResults:
        """Return results with titles, snippets, a correction and facets."""
        local = self.engine if isinstance(self.engine, LocalEngine) else None
        by_meaning = local.by_meaning(query) if local else frozenset()
        snippets = getattr(self.engine, "snippets", None)
        texts = snippets(query, ids) if snippets else [Snippet("")] * len(ids)
        results, documents = [], documents_of(self.engine, query, ids)
        for id, (text, highlights) in zip(ids, texts):
            if id in documents:  # It may be gone since the engine found it.
                title, at, fields = documents[id].title, documents[id].at, documents[id].fields
                results.append(SearchResult(id, title, text, highlights, scores[id], at, fields, id in by_meaning))
        counts = getattr(self.engine, "facets", None)
        age_seconds = getattr(self.engine, "age_seconds", None)
        return SearchResults(
            query=query.text,
            results=tuple(results),
            did_you_mean=local.correction(query) if local and not options.prefix else "",
            suggestions=tuple(local.suggestions(query)) if local and options.prefix else (),
            facets=counts(query) if options.facets and counts else {},
            age_seconds=age_seconds(query) if age_seconds else 0.0,
        )

    def _checked(self, text: str, options: SearchOptions) -> TextQuery:
        if type(options.n) is not int or not 1 <= options.n <= MAX_SHOWN:
            raise InvalidInput(f"n = {options.n!r:.40} must be a number of results from 1 to {MAX_SHOWN}")
        if options.sort not in SORTS:
            raise InvalidInput(f"sort = {options.sort!r:.40} must be one of {', '.join(SORTS)}")
        _check_visitor(options.visitor)
        return read_text(text, prefix=options.prefix, fields=getattr(self.engine, "field_names", ()))


def _check_visitor(visitor: Any) -> None:
    if not isinstance(visitor, str) or len(visitor) > MAX_ID_LENGTH:
        raise InvalidInput(f"visitor must be a text of at most {MAX_ID_LENGTH} characters, got {visitor!r:.60}")
