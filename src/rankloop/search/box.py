"""A search box over local documents that becomes better while it is used."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.features.explanation import Contribution, Explanation
from rankloop.search.engine import NO_FIELDS, SearchEngine, TextDocument
from rankloop.search.engines.adapter import EngineSettings
from rankloop.search.engines.server_engine import ServerEngine
from rankloop.search.indexes.meaning_index import Embed, embedding_of
from rankloop.search.local_engine import LocalEngine, Refresh
from rankloop.search.ranked_search import RankedSearch, SearchOptions, SearchResults
from rankloop.search.sources import DocumentSource, FolderSource, TableSource
from rankloop.service.application.node import LocalService
from rankloop.service.settings import Settings


class SearchBox:
    r"""A search over local documents that learns from clicks.

    >>> import tempfile, pathlib
    >>> notes = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (notes / "knots.md").write_text("# Knots\n\nA bowline holds a boat.")
    >>> _ = (notes / "boats.md").write_text("# Boats\n\nSail a boat, moor a boat, paint a boat.")
    >>> with SearchBox(notes, data=notes / "learned") as box:
    ...     for _ in range(3):
    ...         shown = box.search("boat")
    ...         box.learn(shown, clicks=["knots.md"])
    ...     box.predict("boat").ids
    ['knots.md', 'boats.md']

    What is learned is on disk when `learn` returns, and is there again the next time. One process at a time may have
    the data folder open.

    Args:
      source: A folder of texts, or a file of JSON Lines, CSV or Parquet with columns for id, title and body; None for
        an engine that keeps its own documents.
      data: The folder of index and log.
      columns: The columns of `id`, `title` and `body` in a table or engine, where they have other names.
      seed: Of the exploration.
      fields: Columns of a table or engine that can be filtered, and that visitors' segments are crossed with.
      engine: `NAME=URL` of a running engine, as in `ServerEngine.connect`, or a `SearchEngine`.
      language: The one whose endings are cut; "auto" guesses it for each document.
      meaning: "lsa", "off", "wordllama", or a function that returns a row for each of some texts.
      remember_visitors: Learn from each visitor's clicks for this visitor, in addition to learning from all visitors.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] = "rankloop-search",
        *,
        columns: Mapping[str, str] = NO_FIELDS,
        seed: int = 0,
        fields: Sequence[str] = (),
        engine: str | SearchEngine | None = None,
        language: str = "auto",
        meaning: str | Embed = "lsa",
        remember_visitors: bool = False,
    ) -> None:
        self.folder = Path(data)
        self._opened = OpenedEngine.of(source, engine, self.folder, columns, fields, language, meaning)
        self.engine = self._opened.engine
        try:
            self._service = LocalService(Settings(data=self.folder))
            if self._opened.source is not None:
                self.last_refresh = self.refresh()
            self._search = RankedSearch(self._service.node, self.engine, seed, fields, remember_visitors)
            self._service.call(self._search.begin())
        except BaseException:
            self.close()
            raise

    def refresh(self) -> Refresh:
        """Read documents that are new or have changed, and drop those that are gone; what was learned stays."""
        return self._opened.refresh()

    def search(self, text: str, n: int = 10, visitor: str | None = None, **options: Any) -> SearchResults:
        """Return the results to show, and log them; neighbours are swapped now and then to explore.

        Args:
          text: The query: words, "a phrase", -word, field:value, after:2024-01, before:2025.
          n: The number of results, from 1 to 50.
          visitor: Who searches.
          **options: `segment`, `sort` and `facets`, as in `SearchOptions`.
        """
        return self._service.call(self._search.search(text, _options(n, visitor, options)))

    def predict(self, text: str, n: int = 10, visitor: str | None = None, **options: Any) -> SearchResults:
        """Return the results without exploration and without a trace in the log; `prefix` is a further option."""
        return self._service.call(self._search.search(text, _options(n, visitor, options), is_logged=False))

    def read(self, id: str) -> TextDocument:
        """Return a document with its whole text; raise `NotFound` if there is none of this id."""
        document = self.engine.document(id)
        if document is None:
            raise NotFound(f"there is no document {id!r:.80}")
        return document

    def learn(
        self,
        impression: SearchResults | str,
        clicks: Sequence[str] | Mapping[str, float] | None = None,
        *,
        used: Sequence[str] | None = None,
    ) -> None:
        """Learn from the clicks on a list of results, once per list; the next search goes by it.

        Args:
          impression: The results, or the name of their list.
          clicks: Ids of the documents that were opened, none for a list without a click, or weights by id.
          used: In place of clicks, for a program: ids of the documents that it used.
        """
        if (clicks is None) == (used is None):
            raise InvalidInput("give clicks=[ids] or used=[ids]")
        clicked_ids = (clicks if clicks is not None else used) or ()
        if isinstance(impression, SearchResults):
            not_shown = [id for id in clicked_ids if id not in impression.ids]
            if not_shown:
                raise InvalidInput(f"{not_shown[0]!r:.80} is not among the results")
        if name := _name_of(impression):
            self._service.call(self._search.learn(name, clicked_ids))
            self._service.call(self._search.wait_until_all_served())

    def undo(self, impression: SearchResults | str, id: str) -> bool:
        """Take a click on a document back, and return True where there was one."""
        return self._service.call(self._search.undo(_name_of(impression), id))

    def explain(self, impression: SearchResults | str, id: str) -> Explanation:
        """Return the contribution of each feature of a document to its score now, the largest first."""
        plain: dict[str, Any] = self._service.call(self._search.explain(_name_of(impression), id))
        return Explanation(plain["id"], plain["score"], [Contribution(**part) for part in plain["contributions"]])

    def forget(self, query: str | None = None, *, visitor: str | None = None, days: float | None = None) -> int:
        """Forget a query, a visitor or older days, with what was learned from them; return the number of searches."""
        return self._service.call(self._search.forget(query, visitor, days))

    def close(self) -> None:
        """Close index and log; what was learned is kept."""
        try:
            if hasattr(self, "_service"):
                self._service.close()
        finally:
            getattr(self.engine, "close", lambda: None)()

    def __enter__(self) -> "SearchBox":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _options(n: int, visitor: str | None, options: Mapping[str, Any]) -> SearchOptions:
    try:
        return SearchOptions(n=n, visitor=visitor or "", **options)
    except TypeError as error:
        raise InvalidInput(f"search: {error}; see SearchOptions") from None


def _name_of(impression: SearchResults | str) -> str:
    if not isinstance(impression, SearchResults | str):
        raise InvalidInput(f"an impression is what `search` returned, or its name; got {impression!r:.60}")
    return impression if isinstance(impression, str) else impression.impression


class OpenedEngine(NamedTuple):
    """An engine, and the source of its documents: None for an engine that keeps its own."""

    engine: SearchEngine
    source: DocumentSource | None

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str] | None,
        engine: str | SearchEngine | None,
        data: Path,
        columns: Mapping[str, str],
        fields: Sequence[str],
        language: str,
        meaning: str | Embed,
    ) -> "OpenedEngine":
        """Open the engine of `SearchBox` with these arguments; `data` is the folder of its index."""
        fault = InvalidInput("give a folder or file to search, or an engine that keeps its own documents: NAME=URL")
        if engine is None:
            if source is None:
                raise fault
            unknown = sorted(set(columns) - {"id", "title", "body"})
            if unknown:
                raise InvalidInput(f"a table has no column for {unknown[0]!r}: columns are id, title and body")
            path = Path(source)
            documents = FolderSource(path, data) if path.is_dir() else TableSource(path, fields=fields, **columns)
            return cls(LocalEngine(data, language, meaning), documents)
        if source is not None:
            raise fault
        if not isinstance(engine, str):
            return cls(engine, None)
        embed, key = embedding_of(meaning)[0], os.environ.get("RANKLOOP_ENGINE_KEY", "")
        settings = EngineSettings("", "", key, columns, tuple(fields), language, embed)
        return cls(ServerEngine.connect(engine, settings), None)

    def refresh(self) -> Refresh:
        """Read new and changed documents, and drop those that are gone; refuse an engine that keeps its own."""
        if self.source is None or not isinstance(self.engine, LocalEngine):
            raise InvalidInput("this engine keeps its own documents: update them there")
        return self.engine.refresh(self.source)


def data_beside(source: Path) -> Path:
    """Return the folder beside a source that index and log are kept in."""
    full = source.resolve() if source.name in ("", "..") else source
    return full.with_name(f"{full.name}-rankloop")
