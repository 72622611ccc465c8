"""An engine over local documents: an index of their words, a table of them and their vectors, in one folder."""

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.search import texts
from rankloop.search.engine import MATCHES, MAX_FACET_VALUES, Candidate, Snippet, TextDocument, TextQuery, values_of
from rankloop.search.indexes import meaning_index, stemmers, vocabulary
from rankloop.search.indexes.document_table import DamagedIndex, DocumentRow, DocumentTable
from rankloop.search.indexes.latent_space import Vectors
from rankloop.search.indexes.match_kernel import CorpusStatistics, PackedTexts, joined, matches
from rankloop.search.indexes.meaning_index import Embed, MeaningIndex, QueryMeaning
from rankloop.search.indexes.query_terms import QueryTerms, TermReader
from rankloop.search.indexes.text_index import IndexQuery, TextIndex
from rankloop.search.sources import DocumentSource
from rankloop.service.stores.sqlite import acquire_file_lock

FORMAT_VERSION = "4"  # of the folder and of what readers make of files; an index of another format is made again
MIN_NEIGHBOUR_COSINE = 0.4
MAX_SUGGESTIONS = 4
MAX_LANGUAGES = 4  # of a collection, the most frequent ones
MAX_MEMO_QUERIES = 64  # whose candidates and features are kept until the next refresh
MAX_COUNTED_DOCUMENTS = 1_000  # of a query, whose fields are counted
PATH = re.compile(r"[/.]")  # an id that looks like a file name: its words are searched too
MAX_GUESSED_CHARACTERS = 5_000  # of a document, by which its language is guessed
N_SCORED = 100  # documents by words and by meaning that are compared with each other
# The engine's own score adds these parts, each relative to the largest among the documents that are compared. The
# weights of meaning, coverage and proximity were chosen on threads of 20 Newsgroups and stories of Reuters, with whole
# queries and with two or three words: the first ones choose the documents that the query is moved towards.
FEEDBACK_WEIGHTS, FINAL_WEIGHTS = (2.0, 1.0, 1.0), (2.5, 0.75, 0.5)
FULL_MEANING_LENGTH, MIN_MEANING_SHARE = 80.0, 0.15  # words of a mean document, from which these parts count fully
LATENT, FEEDBACK, EMBEDDING = (MATCHES.index(name) for name in ("latent", "feedback", "embedding"))
COVERAGE, PROXIMITY = MATCHES.index("coverage"), MATCHES.index("proximity")


class Refresh(NamedTuple):
    """Counts of a refresh, and what was skipped with the reasons."""

    added: int
    changed: int
    removed: int
    documents: int  # that are in the index now
    skipped: Mapping[str, str]


class MatchedQuery(NamedTuple):
    """A query with everything that was computed for it."""

    n: int  # documents that were looked for by words, and by meaning
    terms: QueryTerms
    meaning: QueryMeaning | None  # None where meaning is off
    candidates: list[Candidate]  # the best first
    features: dict[str, Floats]  # a row of MATCHES by id
    by_meaning: frozenset[str]  # ids of documents that have none of the words
    numbers: dict[str, int]  # of each document in the index, by id


class LocalEngine:
    """A `SearchEngine` over an index in a folder; `refresh` brings it up to date with a source.

    One process at a time may have a folder open. An index that is damaged, or of another version or language,
    is made again by the next refresh. `folder` is the data folder, `language` and `meaning` are those of `SearchBox`.
    """

    def __init__(self, folder: Path, language: str = "auto", meaning: str | Embed = "lsa") -> None:
        if language != "auto":
            stemmers.check_language(language)
        self._language, self._uses_meaning = language, meaning != "off"
        self._embed, self._embedding_name = meaning_index.embedding_of(meaning)
        self._made = f"{FORMAT_VERSION} {language}"
        self._folder = folder / "index"
        self._committing = self._folder / "committing"  # is there while the two parts may not fit each other
        self._lock = acquire_file_lock(folder / "index", "only one may search and refresh it: stop the other")
        try:
            self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        """Open the index; make a new one unless it is of this version and its two parts fit each other."""
        is_current = False
        if self._folder.exists() and not self._committing.exists():
            with suppress(DamagedIndex):
                self._connect()
                n_documents = self.table.count()[0]
                is_current = self.table.fact("made", "") == self._made and n_documents == self.index.n_documents
        if not is_current:
            self._disconnect()
            if self._folder.exists():  # What the old index may still be writing goes to a folder of another name.
                self._folder.rename(Path(tempfile.mkdtemp(prefix="old-index-", dir=self._folder.parent)) / "index")
            for old in self._folder.parent.glob("old-index-*"):
                shutil.rmtree(old, ignore_errors=True)
            self._connect()
            self.table.note(made=self._made)
            self.table.commit()
        self._prepare()

    def _disconnect(self) -> None:
        for part in (vars(self).pop("index", None), vars(self).pop("table", None)):
            if part is not None:
                part.close()

    def _connect(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.table = DocumentTable(self._folder / "documents.sqlite")
        self.index = TextIndex(self._folder / "words")
        self._numbers_of = stemmers.StemNumbers()
        self._meaning = MeaningIndex(self._folder, self._embed, self._embedding_name) if self._uses_meaning else None

    def _prepare(self) -> None:
        """Make ready to search the state of the index that was committed last."""
        self._corpus = self.table.count()
        counts = Counter[str](json.loads(str(self.table.fact("languages", "{}"))))
        default = vocabulary.DEFAULT_LANGUAGE if self._language == "auto" else self._language
        self.languages = tuple(language for language, _ in counts.most_common(MAX_LANGUAGES)) or (default,)
        self.field_names = tuple(json.loads(str(self.table.fact("field_names", "[]"))))
        self._stems_by_language = {language: stemmers.WordStems(language) for language in self.languages}
        self._stems_of = self._stems_by_language[self.languages[0]]
        self._terms = TermReader(self.index, self.table, self._stems_by_language, self.n_documents)
        self._memo: dict[TextQuery, MatchedQuery] = {}
        self.past_queries = meaning_index.PastQueries(self._folder.parent / "queries.txt", self._query_vector)

    def close(self) -> None:
        """Leave the folder to others; once is enough."""
        self._disconnect()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    @property
    def n_documents(self) -> int:
        """Return the number of documents in the index."""
        return self._corpus[0]

    def refresh(self, source: DocumentSource) -> Refresh:
        """Read documents that are new or have changed, and take out those that are gone.

        If it fails, or the source has no document at all, the index stays as it was.
        """
        if self._lock < 0:
            raise InvalidInput("this index is closed")
        if self._committing.exists():
            self._open()
        try:
            counts = self._read(source)
            self._commit()
        except BaseException:
            with suppress(InvalidInput):
                self.index.rollback()
            with suppress(InvalidInput):
                self.table.rollback()
            raise
        if self._meaning is not None:
            try:
                self._meaning.synchronise(self.table)
            except OSError as error:
                raise InvalidInput(f"{self._folder}: {error.strerror}; vectors are made by the next refresh") from None
        self._prepare()
        return counts._replace(documents=self.n_documents)

    def _read(self, source: DocumentSource) -> Refresh:
        entries, ids, added, changed = self.table.entries(), set[str](), 0, 0
        number = int(self.table.fact("next_number", 1))  # higher than that of any document so far
        languages = Counter[str](json.loads(str(self.table.fact("languages", "{}"))))
        field_names, stems_by_language = dict.fromkeys(self.field_names), dict[str, stemmers.WordStems]()
        for id, stamp, document in source.documents({id: stamp for id, (_, stamp) in entries.items()}):
            if id in ids:
                source.skipped.add(id, "there is another document of this id; the first one counts")
                continue
            ids.add(id)
            if document is None:
                continue
            if id in entries:
                self.index.remove(entries[id][0])
            title, body = texts.words_in(document.title), texts.words_in(document.body)
            language = self._language
            if language == "auto":
                usual = max(languages, key=lambda name: languages[name], default=vocabulary.DEFAULT_LANGUAGE)
                language = vocabulary.guess_language([*title, *body[: vocabulary.MAX_GUESSED_WORDS]]) or usual
                languages[language] += 1
            if language not in stems_by_language:
                stems_by_language[language] = stemmers.WordStems(language, self.table.add_words)
            path = texts.words_in(id) if PATH.search(id) else []
            title_stems, body_stems = map(stems_by_language[language], (title, [*body, *path]))
            self.index.add(number, title_stems, body_stems, document)
            self.table.put(number, stamp, document, self._numbers_of(title_stems), self._numbers_of(body_stems))
            field_names |= dict.fromkeys(document.fields)
            number, added, changed = number + 1, added + (id not in entries), changed + (id in entries)
        if not ids:
            reasons = "".join(f"; {name}: {reason}" for name, reason in list(source.skipped.items())[:3])
            raise InvalidInput(f"there is no text that can be read in {source.name}{reasons}")
        removed_ids = entries.keys() - ids
        for id in removed_ids:
            self.index.remove(entries[id][0])
            self.table.remove(id)
        names = json.dumps(list(field_names))
        self.table.note(next_number=number, languages=json.dumps(dict(languages)), field_names=names)
        return Refresh(added, changed, len(removed_ids), 0, source.skipped)

    def _commit(self) -> None:
        try:
            self._committing.touch()
        except OSError as error:
            raise InvalidInput(f"{self._folder}: {error.strerror}") from None
        self.index.commit()
        self.table.commit()
        self._committing.unlink()

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        """Return the n best documents by words and meaning, best first."""
        return self._match(query, n).candidates[:n] if n > 0 else []

    def index_query(self, query: TextQuery, terms: QueryTerms) -> IndexQuery:
        """Return the query of the word index: any word or alternative, where all phrases are and no excluded word."""

        def stemmed(runs: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(self._stems_of(run)) for run in runs)

        words = stemmed(texts.runs_of(terms.words))
        others = [(stem,) for stems in terms.alternatives.values() for stem in stems]
        return IndexQuery(
            any_of=tuple(dict.fromkeys([*words, *others])),
            weights={(stem,): weight for stem, weight in terms.foreign.items() if (stem,) not in words},
            all_of=stemmed(query.phrases),
            none_of=tuple((stem,) for stem in dict.fromkeys(self._stems_of(query.excluded))),
            filters=query.filters,
            title_only=terms.only_frequent and not query.phrases,
        )

    def _match(self, query: TextQuery, n: int = N_SCORED) -> MatchedQuery:
        memo = self._memo  # A refresh may bring the next one meanwhile.
        matched = memo.get(query)
        if matched is None or matched.n < n:
            matched = self._matched(query, max(n, N_SCORED))
            if len(memo) >= MAX_MEMO_QUERIES:
                memo.clear()
            memo[query] = matched
        return matched

    def _matched(self, query: TextQuery, n: int) -> MatchedQuery:
        terms = self._terms.read(query)
        index_query = self.index_query(query, terms)
        hits = dict(self.index.search(index_query, n))
        meaning, near = None, list[int]()
        if self._meaning is not None and query.words:
            corrected = [others[0] for others in terms.alternatives.values() if others[0] not in terms.foreign]
            numbers = self._numbers_of([*self._stems_of(query.words), *corrected]).astype(np.int64)
            meaning = self._meaning.query_meaning(numbers, query.text)
            if not query.phrases and not terms.only_frequent:
                near = [number for number in meaning.nearest_documents(n) if number not in hits]
        rows = self.table.rows_by_number([*hits, *self.index.allowed(near, index_query)])
        features = self._features(query, terms, rows)
        scores = np.array([hits.get(row.number, 0.0) for row in rows])
        if meaning is not None and (len(meaning.latent) or len(meaning.embedding)):
            numbers = np.array([row.number for row in rows], np.int64)
            features[:, LATENT : EMBEDDING + 1] = meaning.similarities(numbers)
            best_first = np.lexsort((numbers, -self._mixed(scores, features, LATENT, FEEDBACK_WEIGHTS)))
            meaning = meaning.with_feedback(numbers[best_first].tolist())
            features[:, LATENT : EMBEDDING + 1] = meaning.similarities(numbers)
            scores = self._mixed(scores, features, FEEDBACK, FINAL_WEIGHTS)
        elif not query.words:  # filters alone: the newest first
            scores = np.array([row.at for row in rows])
        order = sorted(range(len(rows)), key=lambda i: (-scores[i], rows[i].number))
        candidates = [Candidate(rows[i].id, float(scores[i])) for i in order]
        by_id = {row.id: features[i] for i, row in enumerate(rows)}
        by_meaning = frozenset(row.id for row in rows if row.number not in hits)
        return MatchedQuery(n, terms, meaning, candidates, by_id, by_meaning, {row.id: row.number for row in rows})

    def _mixed(self, words: Floats, features: Floats, column: int, weights: tuple[float, float, float]) -> Floats:
        """Return the engine's own score: words, meaning and coverage; short documents tell little about meaning."""
        meaning, coverage, proximity = weights
        score = meaning * (_share(features[:, column]) + _share(features[:, EMBEDDING]))
        score += coverage * features[:, COVERAGE] + proximity * features[:, PROXIMITY]
        length = float(np.sum(self._corpus[1]))
        share = float(np.clip((length / FULL_MEANING_LENGTH) ** 2, MIN_MEANING_SHARE, 1.0))
        return _share(words) + share * score

    def features(self, query: TextQuery, ids: Sequence[str]) -> Floats:
        """Return a row per document with a column for each of MATCHES; refuse a document that is not in the index."""
        matched = self._match(query)
        features, missing = matched.features, [id for id in ids if id not in matched.features]
        if missing:
            rows = self.table.rows_by_id(missing)
            unknown_ids = [id for id in missing if id not in rows]
            if unknown_ids:
                raise InvalidInput(f"there is no document {unknown_ids[0]!r:.80} in the index")
            computed = self._features(query, matched.terms, list(rows.values()))
            if matched.meaning is not None:
                numbers = np.array([row.number for row in rows.values()], np.int64)
                computed[:, LATENT : EMBEDDING + 1] = matched.meaning.similarities(numbers)
            features = features | dict(zip(rows, computed))
        return np.array([features[id] for id in ids], np.float64).reshape(len(ids), len(MATCHES))

    def _features(self, query: TextQuery, terms: QueryTerms, rows: Sequence[DocumentRow]) -> Floats:
        """Return the features of the words; those of the meaning are 0."""
        n_documents, mean_lengths = self._corpus
        frequencies = self.index.frequencies(terms.stems)
        titles, bodies = joined([row.title for row in rows]), joined([row.body for row in rows])
        for i, stem in enumerate(terms.stems):
            others = terms.alternatives.get(stem, ())
            if others:  # each of them counts as the word itself
                number, other_numbers = self._numbers_of([stem])[0], self._numbers_of(others)
                frequencies[i] = np.maximum(frequencies[i], self.index.frequencies(others).max(axis=0))
                titles, bodies = (
                    PackedTexts(np.where(np.isin(words, other_numbers), number, words), starts)
                    for words, starts in (titles, bodies)
                )
        corpus = CorpusStatistics(n_documents, mean_lengths, np.minimum(frequencies, n_documents))
        title = self._numbers_of(self._stems_of(texts.words_in(query.text)))
        dates = np.array([row.at for row in rows], dtype=np.float64)
        return matches(self._numbers_of(terms.stems), title, corpus, titles, bodies, dates)

    def rarest(self, query: TextQuery, n: int) -> list[str]:
        """Return at most n words of the query that are in the fewest documents, in the order of the query."""
        return self._match(query).terms.rarest(n)

    def neighbours(self, query: TextQuery, ids: Sequence[str], n: int) -> list[list[str]]:
        """Return for each candidate at most n other candidates of similar meaning, the nearest first."""
        matched = self._match(query)
        if matched.meaning is None or not len(matched.meaning.latent) or len(ids) < 2:
            return [[] for _ in ids]
        vectors = matched.meaning.latent_table.vectors(np.array([matched.numbers.get(id, -1) for id in ids], np.int64))
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -1.0)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :n]
        return [[ids[j] for j in row if cosines[i, j] >= MIN_NEIGHBOUR_COSINE] for i, row in enumerate(nearest)]

    def similar_queries(self, query: TextQuery) -> list[str]:
        """Return the name of a query and those of past queries with similar meaning."""
        meaning, name = self._match(query).meaning, texts.same_query(query)
        return [name] if meaning is None else self.past_queries.similar(name, meaning.latent)

    def remember(self, query: TextQuery) -> None:
        """Note that a query was searched."""
        meaning = self._match(query).meaning
        if meaning is not None:
            self.past_queries.add(texts.same_query(query), meaning.latent)

    def _query_vector(self, name: str) -> Vectors:
        if self._meaning is None:
            return meaning_index.NO_VECTOR
        words = texts.read_text(name[: texts.MAX_QUERY_CHARACTERS]).words
        return self._meaning.query_meaning(self._numbers_of(self._stems_of(words)).astype(np.int64), "").latent

    def correction(self, query: TextQuery) -> str:
        """Return the query with mistyped words corrected; empty where there is nothing to correct."""
        corrections = self._match(query).terms.corrections
        if not corrections:
            return ""
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, corrections))})\b", re.I)
        return pattern.sub(lambda match: corrections.get(match[0].lower(), match[0]), query.text)

    def suggestions(self, query: TextQuery) -> list[str]:
        """Return the query with its last word finished in the most frequent ways, one wrong letter forgiven."""
        pieces = list(texts.pieces_of(query.text))
        if not query.prefix or not pieces or texts.is_unspaced(query.words[-1]) or len(query.words[-1]) < 2:
            return []
        endings = self._terms.endings_of(query.words[-1], MAX_SUGGESTIONS)
        return [query.text[: pieces[-1][0]] + word for word in endings if word != query.words[-1]]

    def by_meaning(self, query: TextQuery) -> frozenset[str]:
        """Return the ids of candidates that have none of the query's words."""
        return self._match(query).by_meaning

    def facets(self, query: TextQuery) -> dict[str, dict[str, int]]:
        """Return the values of each field with the number of matching documents that have them."""
        hits = self.index.search(self.index_query(query, self._match(query).terms), MAX_COUNTED_DOCUMENTS)
        counters = dict[str, Counter[str]]()
        for fields in self.table.fields_of([number for number, _ in hits]):
            for name, text in fields.items():
                counters.setdefault(name, Counter()).update(set(values_of(text)))
        return {name: dict(counter.most_common(MAX_FACET_VALUES)) for name, counter in sorted(counters.items())}

    def document(self, id: str) -> TextDocument | None:
        """Return the document of this id, None where there is none."""
        return self.table.documents_of([id]).get(id)

    def documents(self, query: TextQuery, ids: Sequence[str]) -> dict[str, TextDocument]:
        """Return documents by id; those that are not there are left out. The query that found them does not matter."""
        return self.table.documents_of(ids)

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> list[Snippet]:
        """Return for each document the piece of its body that has most of the query's words; else its beginning."""
        documents, prefix = self.table.documents_of(ids), query.words[-1] if query.prefix and query.words else ""
        terms = self._match(query).terms
        stems = {*terms.stems, *(stem for others in terms.alternatives.values() for stem in others)}
        stems |= {stem for run in query.phrases for stem in self._stems_of(run)}
        snippets = list[Snippet]()
        for id in ids:
            _, title, body, *_ = documents.get(id, TextDocument(id, "", ""))
            body = body.removeprefix(title).lstrip() or body  # The title is shown above the piece.
            words = texts.words_in(body[:MAX_GUESSED_CHARACTERS]) if len(self.languages) > 1 else []
            stems_of = self._stems_by_language.get(vocabulary.guess_language(words) or "", self._stems_of)
            snippets.append(texts.snippet_of(body, stems, prefix, stems_of))
        return snippets


def _share(values: Floats) -> Floats:
    return values / max(float(values.max(initial=0.0)), 1e-9)
