"""An engine over one's own documents: an index of their texts and a catalogue of them, in one folder."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.search.catalogue import Catalogue, joined, numbers_of
from rankloop.search.engine import Candidate, Document, Snippet, TextQuery
from rankloop.search.match_kernel import Corpus, matches
from rankloop.search.sqlite_index import SqliteIndex
from rankloop.search.tantivy_index import TantivyIndex

FORMAT = "1"  # of the catalogue; an index of another format is made again
INDEXES: dict[str, Any] = {"tantivy": TantivyIndex, "sqlite": SqliteIndex}
MAX_KNOWN = 500_000  # words whose numbers are kept


class TextIndex(Protocol):
    """An inverted index of titles and bodies, by number."""

    version: str

    @property
    def n_documents(self) -> int: ...
    def stems(self, text: str) -> list[str]: ...
    def add(self, number: int, title: str, body: str) -> None: ...
    def remove(self, number: int) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def search(self, query: TextQuery, n: int) -> list[tuple[int, float]]: ...
    def frequencies(self, stems: Sequence[str]) -> Floats: ...
    def text(self, number: int) -> tuple[str, str]: ...
    def snippets(self, query: TextQuery, numbers: Sequence[int]) -> list[Snippet]: ...


class Source(Protocol):
    """Where documents come from."""

    skipped: dict[str, str]  # what could not be read, and why

    def documents(self, known: Mapping[str, str]) -> Iterator[tuple[str, str, Document | None]]:
        """Id, stamp and document of all that is there; None for one whose stamp is the known one."""


class Refresh(NamedTuple):
    """What a refresh found."""

    added: int
    changed: int
    removed: int
    documents: int  # that are in the index now
    skipped: Mapping[str, str]


class LocalEngine:
    """The three calls of an `Engine`, and `refresh`, which brings the index up to date with a source."""

    def __init__(self, folder: Path, engine: str = "tantivy", language: str = "english") -> None:
        if engine not in INDEXES:
            raise InvalidInput(f"engine = {engine!r:.60} must be one of {', '.join(INDEXES)}")
        self._made = f"{FORMAT} {engine} {INDEXES[engine].version} {language}"
        self._folder = folder / "index"
        self._open(engine, language)
        if self.catalogue.fact("made", self._made) != self._made or self.catalogue.fact("writing", 0):
            self.close()  # made by another version or for another language, or left half-way: read everything again
            shutil.rmtree(self._folder)
            self._open(engine, language)
        self._numbers: dict[str, int] = {}
        self._corpus = self.catalogue.count()

    def _open(self, engine: str, language: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.catalogue = Catalogue(self._folder / "catalogue.sqlite")
        self.index: TextIndex = INDEXES[engine](self._folder / engine, language)

    def close(self) -> None:
        self.index.close()
        self.catalogue.close()

    @property
    def n_documents(self) -> int:
        return self._corpus[0]

    def refresh(self, source: Source) -> Refresh:
        """Read what is new or has changed, and take out what is gone. Interrupted, it begins anew the next time."""
        before = self.catalogue.entries()
        self.catalogue.note(made=self._made, writing=1)
        self.catalogue.commit()
        number, there, added, changed = self.catalogue.next_number(), set[str](), 0, 0
        for id, stamp, document in source.documents({id: entry.stamp for id, entry in before.items()}):
            if id in there:
                source.skipped[id] = "there is another document of this id; the first one counts"
                continue
            there.add(id)
            if document is None:
                continue
            if id in before:
                self.index.remove(before[id].number)
            self._add(number, stamp, document)
            number, added, changed = number + 1, added + (id not in before), changed + (id in before)
        gone = before.keys() - there
        for id in gone:
            self.index.remove(before[id].number)
            self.catalogue.remove(id)
        self.index.commit()
        self.catalogue.note(next_number=number, writing=0)
        self.catalogue.commit()
        self._corpus = self.catalogue.count()
        return Refresh(added, changed, len(gone), self.n_documents, source.skipped)

    def _add(self, number: int, stamp: str, document: Document) -> None:
        self.index.add(number, document.title, document.body)
        if len(self._numbers) > MAX_KNOWN:
            self._numbers.clear()
        title, body = (numbers_of(self.index.stems(text), self._numbers) for text in (document.title, document.body))
        self.catalogue.put(number, document.id, stamp, document.at, title, body)

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        found = self.index.search(query, n)
        ids = self.catalogue.ids_of([number for number, _ in found])
        return [Candidate(ids[number], score) for number, score in found if number in ids]

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        rows = self.catalogue.rows_of(ids)
        missing = [id for id in ids if id not in rows]
        if missing:
            raise InvalidInput(f"there is no document {missing[0]!r:.80} in the index")
        known = [rows[id] for id in ids]
        stems = self.stems(query)
        whole = numbers_of(self.index.stems(query.text), self._numbers)
        n_documents, mean_lengths = self._corpus
        corpus = Corpus(n_documents, mean_lengths, self.index.frequencies(stems))
        titles, bodies = joined([row.title for row in known]), joined([row.body for row in known])
        dates = np.array([row.at for row in known], dtype=np.float64)
        return matches(numbers_of(stems, self._numbers), whole, corpus, titles, bodies, dates)

    def stems(self, query: TextQuery) -> list[str]:
        """The different words of a query as they stand in the index, in order."""
        return list(dict.fromkeys(stem for word in query.words for stem in self.index.stems(word)))

    def rarest(self, query: TextQuery, n: int) -> list[str]:
        """At most n words of the query that say most: those in the fewest documents, in the order of the query."""
        stems = self.stems(query)
        frequency = self.index.frequencies(stems).max(axis=1) if stems else np.empty(0)
        chosen = sorted(np.argsort(frequency, kind="stable")[:n].tolist())
        return [stems[i] for i in chosen]

    def document(self, id: str) -> Document | None:
        row = self.catalogue.rows_of([id]).get(id)
        return None if row is None else Document(id, *self.index.text(row.number), row.at)

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> list[Snippet]:
        rows = self.catalogue.rows_of(ids)
        return self.index.snippets(query, [rows[id].number for id in ids])
