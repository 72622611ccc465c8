"""A search box over one's own documents that becomes better while it is used."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rankloop.core.errors import InvalidInput
from rankloop.features.explanation import Contribution, Explanation
from rankloop.search.engine import SearchEngine
from rankloop.search.local_engine import LocalEngine, Refresh
from rankloop.search.ranked_search import RankedSearch, SearchResults
from rankloop.search.sources import DocumentSource, FolderSource, TableSource
from rankloop.service.application.node import LocalService
from rankloop.service.settings import Settings


class SearchBox:
    """Search, show, tell what was clicked: the next search is better.

    >>> import tempfile, pathlib
    >>> notes = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (notes / "knots.md").write_text("# Knots\\n\\nA bowline holds a boat.")
    >>> _ = (notes / "boats.md").write_text("# Boats\\n\\nSail a boat, moor a boat, paint a boat.")
    >>> with SearchBox(notes, data=notes / "learned", engine="sqlite") as box:
    ...     for _ in range(3):
    ...         shown = box.search("boat")
    ...         box.learn(shown, clicks=["knots.md"])
    ...     box.predict("boat").ids
    ['knots.md', 'boats.md']

    `source` is a folder of texts, or a file of JSON Lines, CSV or Parquet with columns for `id`, `title`, `body`, and
    perhaps `fields`; an engine of one's own will do too. In the folder `data` are the index and the log: what is
    learned is on disk when `learn` returns, and is there again the next time. One process at a time.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | SearchEngine,
        data: str | os.PathLike[str] = "rankloop-search",
        id: str = "id",
        title: str = "title",
        body: str = "body",
        seed: int = 0,
        *,
        fields: Sequence[str] = (),
        engine: str | None = None,
        language: str = "english",
    ) -> None:
        self.folder = Path(data)
        self._source: DocumentSource | None = None
        if not isinstance(source, SearchEngine):
            self._source = source_of(Path(source), self.folder, {"id": id, "title": title, "body": body}, fields)
        self._inside = LocalService(Settings(data=self.folder))
        self._opened: LocalEngine | None = None
        try:
            if isinstance(source, SearchEngine):
                self.engine: SearchEngine = source
            else:
                self.engine = self._opened = LocalEngine(self.folder, engine, language)
                self.found = self.refresh()
            self._search = RankedSearch(self._inside.node, self.engine, seed, fields)
            self._inside.call(self._search.begin())
        except BaseException:
            self.close()
            raise

    def refresh(self) -> Refresh:
        """Read what is new in the source or has changed, and drop what is gone; what was learned stays."""
        if self._source is None or self._opened is None:
            raise InvalidInput("this engine keeps its own documents")
        return self._opened.refresh(self._source)

    def search(self, text: str, n: int = 10, visitor: str | None = None, *, segment: str = "") -> SearchResults:
        """The results to show, whose clicks teach; neighbours are swapped now and then, to find out.

        `segment` is what kind of visitor it is, who may like some values of the documents' `fields` more than others.
        """
        return self._inside.call(self._search.search(text, n, visitor or "", segment))

    def predict(self, text: str, n: int = 10, *, segment: str = "") -> SearchResults:
        """The same without exploration and without a trace in the log."""
        return self._inside.call(self._search.predict(text, n, segment))

    def learn(
        self,
        impression: SearchResults | str,
        clicks: Sequence[str] | Mapping[str, float] | None = None,
        *,
        used: Sequence[str] | None = None,
    ) -> None:
        """What was clicked of the results, once: the ids, none for a page without a click, or weights by id.

        The next search goes by it.
        `used` is for programs that read results instead of people: what the program used counts as the click.
        """
        if (clicks is None) == (used is None):
            raise InvalidInput("give clicks=[ids] or used=[ids]")
        given = (clicks if clicks is not None else used) or ()
        if isinstance(impression, SearchResults):
            not_shown = [id for id in given if id not in impression.ids]
            if not_shown:
                raise InvalidInput(f"{not_shown[0]!r:.80} is not among the results")
        if name := _name_of(impression):
            self._inside.call(self._search.learn(name, given))
            self._inside.call(self._search.learned())

    def undo(self, impression: SearchResults | str, id: str) -> bool:
        """Take a click back; whether there was one."""
        return self._inside.call(self._search.undo(_name_of(impression), id))

    def explain(self, impression: SearchResults | str, id: str) -> Explanation:
        """What each value of a document adds to its score now, the largest first."""
        plain: dict[str, Any] = self._inside.call(self._search.explain(_name_of(impression), id))
        return Explanation(plain["id"], plain["score"], [Contribution(**part) for part in plain["contributions"]])

    def forget(self, query: str | None = None, *, visitor: str | None = None, days: float | None = None) -> int:
        """Forget a query, a visitor, or all older than some days, and what they taught; how many searches it was."""
        return self._inside.call(self._search.forget(query, visitor, days))

    def close(self) -> None:
        try:
            self._inside.close()
        finally:
            if self._opened is not None:
                self._opened.close()

    def __enter__(self) -> "SearchBox":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _name_of(impression: SearchResults | str) -> str:
    if not isinstance(impression, SearchResults | str):
        raise InvalidInput(f"an impression is what `search` returned, or its name; got {impression!r:.60}")
    return impression if isinstance(impression, str) else impression.impression


def source_of(path: Path, data: Path, columns: Mapping[str, str] = {}, fields: Sequence[str] = ()) -> DocumentSource:
    """Return the documents at a path: a folder of files, or the rows of one."""
    if not path.is_dir():
        return TableSource(path, fields=fields, **columns)
    if fields:
        raise InvalidInput(f"{path} is a folder, and files have no fields; a table has them")
    return FolderSource(path, data)


def data_beside(source: Path) -> Path:
    """Return the folder beside a source that index and log are kept in."""
    named = source.resolve() if source.name in ("", "..") else source
    return named.with_name(f"{named.name}-rankloop")
