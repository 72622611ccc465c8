"""Vectors of documents and queries by meaning, a byte per dimension: in a latent space and by an embedding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.kernels import kernel
from rankloop.core.types import Ints
from rankloop.search.indexes.document_table import DocumentTable
from rankloop.search.indexes.latent_space import LatentSpace, Vectors, fit_latent_space, unit_rows
from rankloop.search.indexes.match_kernel import NUMBER

MIN_COSINE = 0.15  # of a document that is found by meaning alone
N_FEEDBACK_DOCUMENTS, FEEDBACK_WEIGHT = 3, 2.0
INT8_SCALE = 127.0
MAX_EMBEDDED_CHARACTERS = 4_000  # of a document
EMBEDDING_BATCH = 256
CHUNK_DOCUMENTS = 4_096
MAX_FITTED_DOCUMENTS = 20_000  # a larger collection is fitted on an even sample, and the others are folded in
MAX_PAST_QUERIES = 5_000
MIN_QUERY_SIMILARITY, MAX_SIMILAR_QUERIES = 0.6, 4  # cosine in the latent space
Embed = Callable[[list[str]], Any]
NO_VECTOR: Vectors = np.empty(0, np.float32)


class VectorTable(NamedTuple):
    """Unit vectors of documents by number, ascending; each row is stored as bytes and a scale."""

    numbers: Ints
    rows: Any  # int8, (n, n_dimensions)
    scales: Vectors

    def cosines(self, vector: Vectors) -> Vectors:
        """Return the cosine of every document with a unit vector."""
        scale = max(float(np.abs(vector).max(initial=0.0)), 1e-9) / INT8_SCALE
        products = _byte_products(self.rows, np.round(vector / scale).astype(np.int8))
        return products.astype(np.float32) * self.scales * np.float32(scale)

    def positions(self, numbers: Ints) -> Ints:
        """Return the row of each number, -1 where it has none."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[at] == numbers, at, -1)

    def vectors(self, numbers: Ints) -> Vectors:
        """Return the vectors of these documents; zeros for one that has none."""
        at = self.positions(numbers)
        rows = self.rows[at].astype(np.float32) * self.scales[at, None]
        rows[at < 0] = 0.0
        return rows

    def changed(self, numbers: Ints, parts: Iterable[tuple[Ints, Vectors]]) -> "VectorTable":
        """Return the table with the rows of these numbers only, and new ones of larger numbers, ascending."""
        at = self.positions(numbers)
        at = at[at >= 0]
        tables = [VectorTable(self.numbers[at], self.rows[at], self.scales[at])] if len(at) else []
        for part, vectors in parts:  # Bytes at once, as numbers of 32 bits would take four times the memory.
            scales = np.maximum(np.abs(vectors).max(axis=1, initial=0.0), 1e-9) / INT8_SCALE
            rows = np.round(vectors / scales[:, None]).astype(np.int8)
            tables.append(VectorTable(part, rows, scales.astype(np.float32)))
        columns = (np.concatenate([table[i] for table in tables]) for i in range(len(self)))
        return VectorTable._make(columns) if tables else NO_VECTORS


NO_VECTORS = VectorTable(np.empty(0, np.int64), np.empty((0, 0), np.int8), NO_VECTOR)


@kernel
def _byte_products(rows: Any, vector: Any) -> Any:
    """Return the products of every row (n, n_dimensions) with a vector, both of bytes, as whole numbers."""
    n, size = rows.shape
    products = np.empty(n, np.int32)
    for i in range(n):
        total = np.int32(0)
        for j in range(size):
            total += np.int32(rows[i, j]) * np.int32(vector[j])
        products[i] = total
    return products


class QueryMeaning(NamedTuple):
    """The unit vectors of a query, empty where there is none, with the documents that they are compared with."""

    latent: Vectors
    feedback: Vectors  # the latent one, moved towards the best documents
    embedding: Vectors
    latent_table: VectorTable
    embedded_table: VectorTable

    def with_feedback(self, numbers: Sequence[int]) -> "QueryMeaning":
        """Return the vectors with that of feedback moved towards the mean of the best of these documents."""
        if not len(self.latent) or not len(numbers):
            return self
        best = self.latent_table.vectors(np.array(numbers[:N_FEEDBACK_DOCUMENTS], np.int64))
        return self._replace(feedback=unit_rows((self.latent + FEEDBACK_WEIGHT * best.mean(axis=0))[None])[0])

    def nearest_documents(self, n: int) -> list[int]:
        """Return the numbers of the documents that are nearest, n by each of the vectors."""
        numbers = dict[int, None]()
        for table, vector in ((self.latent_table, self.latent), (self.embedded_table, self.embedding)):
            if len(vector):
                cosines = table.cosines(vector)
                at = np.argpartition(-cosines, n - 1)[:n] if n < len(cosines) else np.arange(len(cosines))
                at = at[cosines[at] >= MIN_COSINE]
                at = at[np.lexsort((table.numbers[at], -cosines[at]))]
                numbers |= dict.fromkeys(table.numbers[at].tolist())
        return list(numbers)

    def similarities(self, numbers: Ints) -> Vectors:
        """Return three columns for these documents: latent, feedback and embedding cosine, at least 0."""
        columns, tables = np.zeros((len(numbers), 3)), (self.latent_table, self.latent_table, self.embedded_table)
        for i, (table, vector) in enumerate(zip(tables, (self.latent, self.feedback, self.embedding))):
            if len(vector):  # Row by row: by BLAS a product would depend on the number of the others.
                columns[:, i] = np.clip((table.vectors(numbers) * vector).sum(axis=1), 0.0, 1.0)
        return columns


class MeaningIndex:
    """The latent space of a collection with its documents' vectors, and those of an embedding where there is one.

    Files of vectors are kept in the folder. They are derived from the document table, and made again when they are
    missing or the embedding has another name.
    """

    def __init__(self, folder: Path, embed: Embed | None, embedding_name: str) -> None:
        self._folder, self._embed, self._embedding_name = folder, embed, embedding_name
        self._lock = Lock()
        self.latent: tuple[LatentSpace | None, VectorTable] = None, NO_VECTORS  # replaced together
        self.embedded = NO_VECTORS
        try:
            self.latent = LatentSpace.load(folder / "latent_space.npz"), _load_table(folder / "latent_vectors.npz")
            if embed is not None:
                self.embedded = _load_table(folder / "embedded_vectors.npz", embedding_name)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            pass  # They are made again by the next synchronisation.

    def synchronise(self, table: DocumentTable) -> None:
        """Fold in documents that are new, drop those that are gone, and fit the space again where it is outdated."""
        numbers, embed = table.numbers(), self._embed
        with self._lock:
            space, vectors = self.latent
            new = numbers[vectors.positions(numbers) < 0]
            is_current = not len(new) and len(numbers) == len(vectors.numbers)
            if is_current and (embed is None or len(self.embedded.numbers) == len(numbers)):
                return
            if space is not None:
                for _, texts in _chunks(table, new):
                    space = space.with_unknown(texts)
            if space is None or space.is_outdated:
                at = np.linspace(0, len(numbers) - 1, min(len(numbers), MAX_FITTED_DOCUMENTS)).astype(np.int64)
                space = fit_latent_space([text for _, chunk in _chunks(table, numbers[at]) for text in chunk])
                new, vectors = numbers, NO_VECTORS
            if space is not None:
                parts = ((part, space.document_vectors(texts)) for part, texts in _chunks(table, new))
                vectors = vectors.changed(numbers, parts)
                space.save(self._folder / "latent_space.npz")
            self.latent = space, vectors
            _save_table(self._folder / "latent_vectors.npz", vectors)
            if embed is not None:
                new = numbers[self.embedded.positions(numbers) < 0]
                batches = (new[start : start + EMBEDDING_BATCH] for start in range(0, len(new), EMBEDDING_BATCH))
                texts_of = ((batch, table.plain_texts(batch.tolist(), MAX_EMBEDDED_CHARACTERS)) for batch in batches)
                parts = ((batch, _embedded(embed, texts)) for batch, texts in texts_of)
                self.embedded = self.embedded.changed(numbers, parts)
                _save_table(self._folder / "embedded_vectors.npz", self.embedded, self._embedding_name)

    def query_meaning(self, words: Ints, text: str) -> QueryMeaning:
        """Return the vectors of a query before feedback, by its stem numbers and, for an embedding, as it was typed."""
        (space, table), embedded = self.latent, self.embedded
        latent = NO_VECTOR if space is None or not len(words) else space.query_vector(words)
        latent = latent if np.any(latent) else NO_VECTOR
        embedding = NO_VECTOR
        if self._embed is not None and len(embedded.numbers) and text.strip():
            embedding = _embedded(self._embed, [text[:MAX_EMBEDDED_CHARACTERS]])[0]
        return QueryMeaning(latent, latent, embedding, table, embedded)


def _embedded(embed: Embed, texts: list[str]) -> Vectors:
    vectors = np.asarray(embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise InvalidInput(
            f"meaning: the embedding returned an array of shape {vectors.shape} for {len(texts)} texts; "
            "return a finite array with one row per text"
        )
    return unit_rows(vectors)


def embedding_of(meaning: str | Embed) -> tuple[Embed | None, str]:
    """Return the embedding that `meaning` of `SearchBox` stands for, and a name under which its vectors are kept."""
    if meaning in ("lsa", "off"):
        return None, ""
    if callable(meaning):
        return meaning, getattr(meaning, "__qualname__", type(meaning).__name__)
    if meaning != "wordllama":
        raise InvalidInput(f"meaning = {meaning!r:.60} must be lsa, off, wordllama or a function of texts")
    wordllama = import_extra("wordllama")
    # The weights are those that the wheel brings.
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: model.embed(texts, norm=True), meaning


def _chunks(table: DocumentTable, numbers: Ints) -> Iterator[tuple[Ints, list[Ints]]]:
    """Yield some documents at a time: their numbers, and the stem numbers of their titles and bodies."""
    for start in range(0, len(numbers), CHUNK_DOCUMENTS):
        rows = sorted(table.rows_by_number(numbers[start : start + CHUNK_DOCUMENTS].tolist()))
        texts: list[Ints] = [np.frombuffer(row.title + row.body, NUMBER) for row in rows]
        yield np.array([row.number for row in rows], np.int64), texts


def _save_table(path: Path, table: VectorTable, name: str = "") -> None:
    with path.open("wb") as file:
        np.savez(file, **table._asdict(), name=np.array(name))


def _load_table(path: Path, name: str = "") -> VectorTable:
    with np.load(path) as arrays:
        is_current = str(arrays["name"]) == name
        return VectorTable._make(arrays[part] for part in VectorTable._fields) if is_current else NO_VECTORS


class PastQueries:
    """Past queries in the order of their first search, so that clicks for one count for those of similar meaning.

    Only names are kept, in a file of personal data: `forget` takes names out again.
    """

    def __init__(self, path: Path, vector_of: Callable[[str], Vectors]) -> None:
        self._path, self._lock = path, Lock()
        names = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._vectors: dict[str, Vectors] = {name: vector_of(name) for name in names[-MAX_PAST_QUERIES:]}

    def similar(self, name: str, vector: Vectors) -> list[str]:
        """Return the name of the query itself and those of the past queries that are nearest to it."""
        with self._lock:
            names = [other for other, row in self._vectors.items() if other != name and len(row) == len(vector) > 0]
            rows = np.array([self._vectors[other] for other in names])
        if not names:
            return [name]
        cosines = rows @ vector
        best = np.argsort(-cosines, kind="stable")[:MAX_SIMILAR_QUERIES]
        return [name, *(names[i] for i in best if cosines[i] >= MIN_QUERY_SIMILARITY)]

    def add(self, name: str, vector: Vectors) -> None:
        """Remember a query that was searched, if it has a vector."""
        if not len(vector):
            return
        with self._lock:
            is_new = name not in self._vectors
            self._vectors[name] = vector
            if is_new:
                if len(self._vectors) > MAX_PAST_QUERIES:
                    del self._vectors[next(iter(self._vectors))]
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(name + "\n")

    def forget(self, name: str | None) -> None:
        """Remove a query, or all of them."""
        with self._lock:
            if name is None:
                self._vectors.clear()
            else:
                self._vectors.pop(name, None)
            self._path.write_text("".join(f"{other}\n" for other in self._vectors), encoding="utf-8")
