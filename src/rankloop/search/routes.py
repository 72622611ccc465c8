"""The calls of the search page: results, clicks, undo, why, forgetting, and how it goes."""

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import msgspec
from fastapi import Request
from starlette.responses import Response

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.extras import import_extra
from rankloop.features.words import STOP_WORDS, words_of
from rankloop.search.box import OpenedEngine
from rankloop.search.engine import SearchEngine
from rankloop.search.local_engine import LocalEngine, Refresh
from rankloop.search.ranked_search import MAX_CANDIDATES, MAX_SHOWN, RANKER, RankedSearch, SearchOptions
from rankloop.search.sources import DocumentSource, FolderSource
from rankloop.search.study import is_compared, study_report, study_rows
from rankloop.service.application.node import Node
from rankloop.service.domain.health import clicks_of
from rankloop.service.http.cross_origin import SEARCH_PATHS, CrossOriginAccess, check_origins
from rankloop.service.http.endpoints import Endpoints, JsonResponse, read_body, stream
from rankloop.service.request_bodies import Strict

PAGE_FOLDER = Path(__file__).parent / "static"
OPENSEARCH_DESCRIPTION = Path(__file__).with_name("opensearch.xml").read_text(encoding="utf-8")
COOKIE = "rankloop_visitor"
VISITOR = re.compile(r"[0-9a-f]{32}")
YEAR_SECONDS = 365 * 86_400
EXAMPLES, MAX_TITLES = 3, 200  # words to begin with, and titles that they are taken from
MAX_OFFICE_SECONDS = 10.0  # of one refresh: what takes longer is read by the next one, which begins at once
MAX_SKIPPED = 200  # files that could not be read, as the page names them


class SearchRequest(SearchOptions, kw_only=True):
    """A query; `visitor` is 32 hexadecimal digits, for pages elsewhere, which have no cookie."""

    text: str  # what is looked for
    private: bool = False  # leave no trace and learn nothing; a query with `prefix` leaves no trace either


class ClickRequest(Strict):
    """Clicks on results; `final` when nothing more can come: then they are learned."""

    impression: str
    clicks: list[str] = msgspec.field(default_factory=list)
    final: bool = False


class UndoRequest(Strict):
    """A click that is taken back; `visitor` as in a search."""

    impression: str
    id: str
    visitor: str = ""


class ForgetRequest(Strict):
    """A request to forget a query, a visitor or all that is older than some days; several conditions must all hold."""

    query: str | None = None
    visitor: str | None = None
    days: float | None = None


class SearchPage:
    """The page over an engine. `begin` makes the ranker when the service is ready, `add_endpoints` adds the calls.

    With `study` half of the visitors are learned from, and the other half compares the learned order with the engine's.
    `origins` are pages elsewhere that may search and show this page. Other arguments are those of `SearchBox`.
    """

    search: RankedSearch

    def __init__(
        self,
        engine: SearchEngine,
        source: DocumentSource | None = None,
        *,
        study: bool = False,
        seed: int = 0,
        fields: tuple[str, ...] = (),
        remember_visitors: bool = False,
        origins: Iterable[str] = (),
    ) -> None:
        self.engine, self.source, self.study = engine, source, study
        self._seed, self._fields, self._remember_visitors = seed, fields, remember_visitors
        self._origins = check_origins(origins)
        self._refreshing = Lock()
        self.last_refresh, self.examples = Refresh(0, 0, 0, getattr(engine, "n_documents", 0), {}), list[str]()
        if isinstance(source, FolderSource):
            source.max_office_seconds = MAX_OFFICE_SECONDS
        if source is not None:
            self._refresh()

    async def begin(self, node: Node) -> None:
        """Make the ranker on a node of the service."""
        self.search = RankedSearch(node, self.engine, self._seed, self._fields, self._remember_visitors)
        await self.search.begin()

    def add_endpoints(self, endpoints: Endpoints) -> None:
        """Add the page and its endpoints."""
        app: Any = endpoints.app
        if self._origins:
            app.entry = CrossOriginAccess(app.entry, self._origins, SEARCH_PATHS, self._origins)
        of_all = partial(endpoints.add, tag="search", ranker=RANKER)
        of_visitors = partial(of_all, role="rank")

        @of_visitors("POST /search", body=SearchRequest)
        async def find(request: Request) -> Response:
            """Return the best results for a query; clicks are learned from, except in private and of a prefix."""
            body = await read_body(request, SearchRequest)
            visitor = _visitor(request, body.visitor)
            body.visitor = visitor or secrets.token_hex(16)
            if body.private or body.prefix:
                return JsonResponse(await self.search.search(body.text, body, is_logged=False))
            compared = self.study and is_compared(body.visitor)
            answer = JsonResponse(await self.search.search(body.text, body, compared=compared))
            if visitor is None:
                answer.set_cookie(
                    COOKIE, body.visitor, max_age=YEAR_SECONDS, httponly=True, samesite="strict", path="/search"
                )
            return answer

        @of_visitors("POST /search/clicks", body=ClickRequest)
        async def click(request: Request) -> Response:
            """Record clicks; several calls add up until one is final."""
            body = await read_body(request, ClickRequest)
            return JsonResponse({"verdict": await self.search.learn(body.impression, body.clicks, body.final)})

        @of_visitors("POST /search/undo", body=UndoRequest)
        async def undo(request: Request) -> Response:
            """Take a click back; what was learned since is learned again without it."""
            body = await read_body(request, UndoRequest)
            visitor = _visitor(request, body.visitor) or ""
            return JsonResponse({"undone": await self.search.undo(body.impression, body.id, visitor)})

        @of_visitors("GET /search/why")
        async def why(impression: str = "", id: str = "") -> Response:
            """Return what each value of a document adds to its score, the largest first."""
            return JsonResponse(await self.search.explain(impression, id))

        @of_visitors("GET /search/document")
        async def document(id: str = "") -> Response:
            """Return title and text of a document, as plain text."""
            text = await asyncio.to_thread(self.engine.document, id)
            if text is None:
                raise NotFound(f"there is no document {id!r:.80}")
            return JsonResponse({"id": text.id, "title": text.title, "body": text.body, "at": text.at or None})

        @of_all("POST /search/forget", body=ForgetRequest)
        async def forget(request: Request) -> Response:
            """Forget a query, a visitor or all that is older than some days, and what was learned from it."""
            body = await read_body(request, ForgetRequest)
            return JsonResponse({"forgotten": await self.search.forget(body.query, body.visitor, body.days)})

        @of_visitors("POST /search/forget-me")
        async def forget_me(request: Request) -> Response:
            """Forget everything that this visitor has asked and clicked, and the visitor."""
            visitor = _visitor(request)
            answer = JsonResponse({"forgotten": 0 if visitor is None else await self.search.forget_me(visitor)})
            answer.delete_cookie(COOKIE, path="/search")
            return answer

        @of_all("POST /search/refresh")
        async def refresh() -> Response:
            """Read what is new or has changed in the documents; what was learned stays."""
            return JsonResponse(_of_refresh(await asyncio.to_thread(self._refresh)))

        @of_visitors("GET /search/status")
        async def status() -> Response:
            """Report what is indexed, what was learned, and how the learned order fares against the engine's."""
            report = self.search.node.reports.ranker(RANKER)
            kept = {name: report[name] for name in ("state", "counts", "health", "comparison", "frozen")}
            counters = self.search.node.directory.ranker(RANKER).projection.counters
            kept["health"] |= clicks_of(counters)
            kept["study"] = study_report(counters.comparison) if self.study else None
            limits = {"candidates": MAX_CANDIDATES, "shown": MAX_SHOWN, "examples": self.examples}
            return JsonResponse(_of_refresh(self.last_refresh) | kept | limits)

        @of_visitors("GET /search/history")
        async def history() -> Response:
            """Return counts and click rates at each snapshot, of at most a few dozen, and now."""
            return JsonResponse({"points": await asyncio.to_thread(self.search.node.reports.history, RANKER)})

        @of_all("GET /search/study.{form}")
        async def study(form: str) -> Response:
            """Return every compared list with its winner, as study.jsonl; study.json counts them."""
            if form not in ("json", "jsonl"):
                raise NotFound("the study is there as study.json and study.jsonl")
            node = self.search.node
            if form == "json":
                return JsonResponse(study_report(node.directory.ranker(RANKER).projection.counters.comparison))
            until = await asyncio.to_thread(node.store.last)
            records = node.store.read(node.directory.ranker(RANKER).entity, until=until)
            return stream((msgspec.json.encode(row) + b"\n" for row in study_rows(records)), "application/x-ndjson")

        @endpoints.add("GET /search/opensearch.xml", role="anyone")
        async def description(request: Request) -> Response:
            """Return the OpenSearch description by which a browser adds this search."""
            text = OPENSEARCH_DESCRIPTION.format(address=escape(str(request.base_url).rstrip("/"), quote=True))
            return Response(text, media_type="application/opensearchdescription+xml")

        endpoints.add_file("/search", PAGE_FOLDER / "index.html")
        endpoints.add_file("/search/owner", PAGE_FOLDER / "owner.html")  # its numbers need a key where there are keys
        endpoints.add_file("/search-field.js", PAGE_FOLDER / "search-field.js")
        endpoints.add_files("/search/page", PAGE_FOLDER)

    def watch(self) -> Event:
        """Read the documents again whenever files of the folder change, until the returned event is set."""
        source = self.source
        if not isinstance(source, FolderSource):
            raise InvalidInput("--watch is for folders; a table is read again with POST /search/refresh")
        watchfiles, end = import_extra("watchfiles"), Event()

        def watch() -> None:
            data = source.without
            for changes in watchfiles.watch(source.folder, raise_interrupt=False, stop_event=end):
                if data is None or any(not Path(path).is_relative_to(data) for _, path in changes):
                    self._try_refresh()

        Thread(target=watch, name="watch", daemon=True).start()
        return end

    def _refresh(self) -> Refresh:
        if not self._refreshing.acquire(blocking=False):
            raise InvalidInput("the documents are being read already")
        try:
            self.last_refresh = OpenedEngine(self.engine, self.source).refresh()
            if isinstance(self.engine, LocalEngine):
                # A few words to begin with: those that stand in most titles.
                titles = [sorted(set(words_of(title.lower()))) for title in self.engine.table.titles(MAX_TITLES)]
                counts = Counter(word for words in titles for word in words if len(word) > 4 and word.isalpha())
                usual = sorted(counts.keys() - STOP_WORDS, key=lambda word: (-counts[word], -len(word), word))
                self.examples = usual[:EXAMPLES]
        finally:
            self._refreshing.release()
        if isinstance(self.source, FolderSource) and self.source.office.seconds_spent >= MAX_OFFICE_SECONDS:
            Thread(target=self._try_refresh, name="read-on", daemon=True).start()
        return self.last_refresh

    def _try_refresh(self) -> None:
        with suppress(InvalidInput):  # Others are reading, or the next change tries again.
            self._refresh()


def _visitor(request: Request, name: str = "") -> str | None:
    """Return the visitor by the cookie of the page, or else by a name that a page elsewhere gives."""
    if name and not VISITOR.fullmatch(name):
        raise InvalidInput(f"visitor = {name!r:.40} must be 32 hexadecimal digits, 0-9 and a-f")
    return next(filter(VISITOR.fullmatch, (request.cookies.get(COOKIE, ""), name)), None)


def _of_refresh(refresh: Refresh) -> dict[str, Any]:
    skipped = [{"what": name, "reason": reason} for name, reason in list(refresh.skipped.items())[:MAX_SKIPPED]]
    counts = {name: getattr(refresh, name) for name in ("documents", "added", "changed", "removed")}
    return counts | {"n_skipped": len(refresh.skipped), "skipped": skipped}
