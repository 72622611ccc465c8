"""An engine over one's own documents: an index of their words and a table of them, in one folder."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.search.engine import NO_FIELDS, Candidate, Snippet, TextDocument, TextQuery
from rankloop.search.indexes.document_table import DocumentTable, joined
from rankloop.search.indexes.sqlite_index import SqliteIndex
from rankloop.search.indexes.tantivy_index import TantivyIndex, is_installed
from rankloop.search.indexes.text_index import DamagedIndex, IndexQuery, StemNumbers, TextIndex, WordStems
from rankloop.search.match_kernel import CorpusStatistics, PackedTexts, matches
from rankloop.search.sources import DocumentSource
from rankloop.search.texts import runs_of, snippet_of, words_in
from rankloop.service.stores.sqlite import acquire_file_lock

FORMAT = "2"  # of the folder and of what readers make of files; an index of another format is made again
INDEXES: dict[str, Any] = {"tantivy": TantivyIndex, "sqlite": SqliteIndex}
MAX_EXPANSIONS = 50  # words that a beginning may stand for
WITHOUT_TANTIVY = "tantivy is not installed, so SQLite searches, slower: pip install 'rankloop[search]'"


class Refresh(NamedTuple):
    """What a refresh found."""

    added: int
    changed: int
    removed: int
    documents: int  # that are in the index now
    skipped: Mapping[str, str]


class LocalEngine:
    """The three calls of an `Engine`, and `refresh`, which brings the index up to date with a source.

    `engine` is tantivy or sqlite; tantivy unless given, or SQLite where tantivy is not installed: `note` says so. One
    process at a time may have a folder open. An index that is damaged, or of another version, engine or language, is
    made again by the next refresh.
    """

    def __init__(self, folder: Path, engine: str | None = None, language: str = "english") -> None:
        if engine is not None and engine not in INDEXES:
            raise InvalidInput(f"engine = {engine!r:.60} must be one of {', '.join(INDEXES)}")
        self.kind = engine or ("tantivy" if is_installed() else "sqlite")
        self.note = WITHOUT_TANTIVY if engine is None and self.kind == "sqlite" else ""
        self._language = language
        self._made = f"{FORMAT} {self.kind} {INDEXES[self.kind].version} {language}"
        self._folder = folder / "index"
        self._committing = self._folder / "committing"  # is there while the two parts may not fit each other
        self._lock = acquire_file_lock(folder / "index", "one at a time may search and refresh it")
        try:
            self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        if not self._is_whole():
            self._put_away()
            self._connect()
            self.table.note(made=self._made)
            self.table.commit()
        self._corpus = self.table.count()

    def _is_whole(self) -> bool:
        """Whether there is an index, of this version, whose two parts fit each other; it is open then."""
        if not self._folder.exists() or self._committing.exists():
            return False
        try:
            self._connect()
            n_documents = self.table.count()[0]
            return self.table.fact("made", "") == self._made and n_documents == self.index.n_documents
        except DamagedIndex:
            return False

    def _put_away(self) -> None:
        """Make room for a new index. What the old one may still be writing goes to a folder of another name."""
        self._disconnect()
        if self._folder.exists():
            self._folder.rename(Path(tempfile.mkdtemp(prefix="old-index-", dir=self._folder.parent)) / "index")
        for old in self._folder.parent.glob("old-index-*"):
            shutil.rmtree(old, ignore_errors=True)

    def _disconnect(self) -> None:
        for part in (vars(self).pop("index", None), vars(self).pop("table", None)):
            if part is not None:
                part.close()

    def _connect(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.table = DocumentTable(self._folder / "documents.sqlite")
        self.index: TextIndex = INDEXES[self.kind](self._folder / self.kind, self._language)
        self._stems_of = WordStems(self.index.stemmed)
        self._numbers_of = StemNumbers()

    def close(self) -> None:
        """Leave the folder to others; once is enough."""
        self._disconnect()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    @property
    def n_documents(self) -> int:
        return self._corpus[0]

    def refresh(self, source: DocumentSource) -> Refresh:
        """Read what is new or has changed, and take out what is gone.

        Whatever goes wrong, the index stays as it was; so it does where a source has no document at all.
        """
        if self._lock < 0:
            raise InvalidInput("this index is closed")
        if self._committing.exists():
            self._open()
        try:
            found = self._read(source)
            self._commit()
        except BaseException:
            with suppress(InvalidInput):
                self.index.rollback()
            with suppress(InvalidInput):
                self.table.rollback()
            raise
        self._corpus = self.table.count()
        return found._replace(documents=self.n_documents)

    def _read(self, source: DocumentSource) -> Refresh:
        before = self.table.entries()
        number, there, added, changed = self.table.next_number(), set[str](), 0, 0
        stems_of = WordStems(self.index.stemmed, self.table.add_words)
        for id, stamp, document in source.documents({id: entry.stamp for id, entry in before.items()}):
            if id in there:
                source.skipped.add(id, "there is another document of this id; the first one counts")
                continue
            there.add(id)
            if document is None:
                continue
            if id in before:
                self.index.remove(before[id].number)
            self._add(number, stamp, document, stems_of)
            number, added, changed = number + 1, added + (id not in before), changed + (id in before)
        if not there:
            reasons = "".join(f"; {what}: {reason}" for what, reason in list(source.skipped.items())[:3])
            raise InvalidInput(f"there is no text that can be read in {source.name}{reasons}")
        gone = before.keys() - there
        for id in gone:
            self.index.remove(before[id].number)
            self.table.remove(id)
        self.table.note(next_number=number)
        return Refresh(added, changed, len(gone), 0, source.skipped)

    def _add(self, number: int, stamp: str, document: TextDocument, stems_of: WordStems) -> None:
        title, body = stems_of(words_in(document.title)), stems_of(words_in(document.body))
        self.index.add(number, title, body)
        self.table.put(number, stamp, document, self._numbers_of(title), self._numbers_of(body))

    def _commit(self) -> None:
        try:
            self._committing.touch()
        except OSError as error:
            raise InvalidInput(f"{self._folder}: {error.strerror}") from None
        self.index.commit()
        self.table.commit()
        self._committing.unlink()

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        found = self.index.search(self.asked(query), n)
        ids = self.table.ids_of([number for number, _ in found])
        return [Candidate(ids[number], score) for number, score in found if number in ids]

    def asked(self, query: TextQuery) -> IndexQuery:
        """What the index is asked: any word of the query, or what it may become, where all phrases are."""
        words = [tuple(self._stems_of(run)) for run in runs_of(query.words)]
        begun = [(stem,) for stem in self._expansions(query)]
        phrases = [tuple(self._stems_of(run)) for run in query.phrases]
        return IndexQuery(tuple(dict.fromkeys([*words, *begun])), tuple(phrases))

    def _expansions(self, query: TextQuery) -> list[str]:
        """Stems of the words that the last one may become."""
        return self.table.stems_from(query.words[-1], MAX_EXPANSIONS) if query.prefix and query.words else []

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        rows = self.table.rows_of(ids)
        missing = [id for id in ids if id not in rows]
        if missing:
            raise InvalidInput(f"there is no document {missing[0]!r:.80} in the index")
        known = [rows[id] for id in ids]
        stems = self.stems(query)
        n_documents, mean_lengths = self._corpus
        frequencies = self.index.frequencies(stems)
        titles, bodies = joined([row.title for row in known]), joined([row.body for row in known])
        expansions = self._expansions(query)
        if expansions:  # each of them counts as the word that was begun
            last = self._numbers_of(stems[-1:])[0]
            frequencies[-1] = np.maximum(frequencies[-1], self.index.frequencies(expansions).max(axis=0))
            titles, bodies = (_replaced(texts, self._numbers_of(expansions), last) for texts in (titles, bodies))
        corpus = CorpusStatistics(n_documents, mean_lengths, np.minimum(frequencies, n_documents))
        numbers, whole = self._numbers_of(stems), self._numbers_of(self._stems_of(words_in(query.text)))
        dates = np.array([row.at for row in known], dtype=np.float64)
        return matches(numbers, whole, corpus, titles, bodies, dates)

    def stems(self, query: TextQuery) -> list[str]:
        """The different words of a query as they stand in the index, in order."""
        return list(dict.fromkeys(self._stems_of(query.words)))

    def rarest(self, query: TextQuery, n: int) -> list[str]:
        """At most n words of the query that say most: those in the fewest documents, in the order of the query."""
        stems = self.stems(query)
        frequency = self.index.frequencies(stems).max(axis=1) if stems else np.empty(0)
        chosen = sorted(np.argsort(frequency, kind="stable")[:n].tolist())
        return [stems[i] for i in chosen]

    def document(self, id: str) -> TextDocument | None:
        return self.table.documents_of([id]).get(id)

    def titles(self, n: int) -> list[str]:
        """Those of the n documents that were read first."""
        ids = self.table.ids_of(range(1, n + 1)).values()
        return [document.title for document in self.table.documents_of(list(ids)).values()]

    def fields(self, ids: Sequence[str]) -> list[Mapping[str, str]]:
        """Further values of each of these documents; none for one that is not there."""
        found = self.table.fields_of(ids)
        return [found.get(id, NO_FIELDS) for id in ids]

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> list[Snippet]:
        """For each document the piece of its body that has most of the query's words; else its beginning."""
        documents, begun = self.table.documents_of(ids), query.words[-1] if query.prefix and query.words else ""
        stems = {*self._stems_of(query.words), *(stem for run in query.phrases for stem in self._stems_of(run))}
        bodies = [documents[id].body if id in documents else "" for id in ids]
        return [snippet_of(body, stems, begun, self._stems_of) for body in bodies]


def _replaced(texts: PackedTexts, numbers: Ints, by: int) -> PackedTexts:
    return PackedTexts(np.where(np.isin(texts.words, numbers), by, texts.words), texts.starts)
