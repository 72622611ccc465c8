"""Vectors of documents by meaning, one byte per dimension: in a latent space and by an embedding."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.kernels import kernel
from rankloop.core.types import Ints
from rankloop.search.indexes.document_table import DocumentTable
from rankloop.search.indexes.latent_space import LatentSpace, Vectors, fit_latent_space, unit_rows

MIN_COSINE = 0.15  # of a document that is found by meaning alone
N_FEEDBACK_DOCUMENTS, FEEDBACK_WEIGHT = 3, 2.0
INT8_SCALE = 127.0
MAX_EMBEDDED_CHARACTERS = 4_000  # of a document
EMBEDDING_BATCH = 256
CHUNK_DOCUMENTS = 4_096
MAX_FITTED_DOCUMENTS = 20_000  # a larger collection is fitted on an even sample, and the others are folded in
Embed = Callable[[list[str]], Any]


class VectorTable(NamedTuple):
    """Unit vectors of documents by number, ascending; each row is stored as bytes and a scale."""

    numbers: Ints
    rows: Any  # int8, (n, n_dimensions)
    scales: Vectors

    def cosines(self, vector: Vectors) -> Vectors:
        """Return the cosine of every document with a unit vector."""
        if not len(self.numbers):
            return np.empty(0, np.float32)
        scale = max(float(np.abs(vector).max(initial=0.0)), 1e-9) / INT8_SCALE
        products = byte_products(self.rows, np.round(vector / scale).astype(np.int8))
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
        if not len(self.numbers):
            return np.zeros((len(numbers), self.rows.shape[1]), np.float32)
        rows = self.rows[at].astype(np.float32) * self.scales[at, None]
        rows[at < 0] = 0.0
        return rows

    def changed(self, kept: Ints, numbers: Ints, vectors: Vectors) -> "VectorTable":
        """Return the table with the rows of `kept` only, and new ones.

        Args:
          kept: Numbers that stay.
          numbers: New ones, larger than those, ascending.
          vectors: Theirs.
        """
        rows, scales = as_bytes(vectors)
        return self.with_bytes(kept, numbers, rows, scales)

    def with_bytes(self, kept: Ints, numbers: Ints, rows: Any, scales: Vectors) -> "VectorTable":
        """Return the table with the rows of `kept` only, and new ones that are bytes already.

        Args:
          kept: Numbers that stay.
          numbers: New ones, larger than those, ascending.
          rows: Theirs, as bytes.
          scales: One for each of those rows.
        """
        at = self.positions(kept)
        at = at[at >= 0]
        return VectorTable(
            np.concatenate([self.numbers[at], numbers]).astype(np.int64),
            np.concatenate([self.rows[at], rows]),
            np.concatenate([self.scales[at], scales]).astype(np.float32),
        )


@kernel
def byte_products(rows: Any, vector: Any) -> Any:
    """Return the products of every row with a vector, both of bytes, as whole numbers.

    Args:
      rows: int8, (n, n_dimensions).
      vector: int8, (n_dimensions,).
    """
    n, size = rows.shape
    products = np.empty(n, np.int32)
    for i in range(n):
        total = np.int32(0)
        for j in range(size):
            total += np.int32(rows[i, j]) * np.int32(vector[j])
        products[i] = total
    return products


def as_bytes(vectors: Vectors) -> tuple[Any, Vectors]:
    """Return vectors as bytes, and the scale of each."""
    scales = np.maximum(np.abs(vectors).max(axis=1, initial=0.0), 1e-9) / INT8_SCALE
    return np.round(vectors / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def empty_table(n_dimensions: int) -> VectorTable:
    """Return a table of no documents."""
    return VectorTable(np.empty(0, np.int64), np.empty((0, n_dimensions), np.int8), np.empty(0, np.float32))


class QueryMeaning(NamedTuple):
    """The unit vectors of a query, empty where there is none, with the documents that they are compared with."""

    latent: Vectors
    feedback: Vectors
    embedding: Vectors
    latent_table: VectorTable
    embedded_table: VectorTable


class LatentState(NamedTuple):
    """A latent space with the vectors of all documents in it."""

    space: LatentSpace | None
    table: VectorTable


NO_VECTOR: Vectors = np.empty(0, np.float32)


class MeaningIndex:
    """The latent space of a collection with its documents' vectors, and those of an embedding where there is one.

    Args:
      folder: Files of vectors are kept in it. They are derived from the document table and made again when missing.
      embed: Returns an array with a row for each of some texts; None for the latent space alone.
      embedding_name: Vectors are made again when the embedding has another name.
    """

    def __init__(self, folder: Path, embed: Embed | None = None, embedding_name: str = "") -> None:
        self._folder, self._embed, self._embedding_name = folder, embed, embedding_name
        self._lock = Lock()
        self.latent, self.embedded = LatentState(None, empty_table(0)), empty_table(0)
        try:
            space = LatentSpace.load(folder / "latent_space.npz")
            self.latent = LatentState(space, _load_table(folder / "latent_vectors.npz"))
            if embed is not None:
                self.embedded = _load_table(folder / "embedded_vectors.npz", embedding_name)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            pass  # They are made again by the next synchronisation.

    def synchronise(self, table: DocumentTable) -> None:
        """Fold in documents that are new, drop those that are gone, and fit the space again where it is outdated.

        Args:
          table: The documents, as committed.
        """
        numbers = table.numbers()
        with self._lock:
            space, vectors = self.latent
            new = numbers[vectors.positions(numbers) < 0]
            is_current = not len(new) and len(numbers) == len(vectors.numbers)
            if is_current and (self._embed is None or len(self.embedded.numbers) == len(numbers)):
                return
            if space is not None:
                for _, texts in _chunks(table, new):
                    space = space.with_unknown(texts)
            if space is None or space.is_outdated:
                space, new = self._fit(table, numbers), numbers
                vectors = empty_table(0 if space is None else space.n_dimensions)
            self.latent = LatentState(space, vectors if space is None else _folded(table, vectors, numbers, new, space))
            if self._embed is not None:
                self._embed_new(table, numbers)
            self._save()

    def _fit(self, table: DocumentTable, numbers: Ints) -> LatentSpace | None:
        at = np.linspace(0, len(numbers) - 1, min(len(numbers), MAX_FITTED_DOCUMENTS)).astype(np.int64)
        return fit_latent_space([text for _, chunk in _chunks(table, numbers[at]) for text in chunk])

    def _embed_new(self, table: DocumentTable, numbers: Ints) -> None:
        new = numbers[self.embedded.positions(numbers) < 0]
        parts = [
            self._vectors_of(table.plain_texts(batch.tolist(), MAX_EMBEDDED_CHARACTERS))
            for batch in np.array_split(new, max(1, -(-len(new) // EMBEDDING_BATCH)))
            if len(batch)
        ]
        kept = numbers[~np.isin(numbers, new)]
        if parts:
            vectors = np.concatenate(parts)
            table_so_far = self.embedded if len(self.embedded.numbers) else empty_table(vectors.shape[1])
            self.embedded = table_so_far.changed(kept, new, vectors)
        else:
            size = self.embedded.rows.shape[1]
            self.embedded = self.embedded.changed(kept, new, np.empty((0, size), np.float32))

    def _vectors_of(self, texts: list[str]) -> Vectors:
        if self._embed is None:
            return np.zeros((len(texts), 0), np.float32)
        vectors = np.asarray(self._embed(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise InvalidInput(
                f"meaning: the embedding returned an array of shape {vectors.shape} for {len(texts)} texts; "
                "return a finite array with one row per text"
            )
        return unit_rows(vectors)

    def _save(self) -> None:
        if self.latent.space is not None:
            self.latent.space.save(self._folder / "latent_space.npz")
        _save_table(self._folder / "latent_vectors.npz", self.latent.table)
        if self._embed is not None:
            _save_table(self._folder / "embedded_vectors.npz", self.embedded, self._embedding_name)

    def query_meaning(self, words: Ints, text: str) -> QueryMeaning:
        """Return the vectors of a query before feedback.

        Args:
          words: Stem numbers of its words.
          text: As it was typed, for the embedding.
        """
        (space, table), embedded = self.latent, self.embedded
        latent = NO_VECTOR if space is None or not len(words) else space.query_vector(words)
        if not np.any(latent):
            latent = NO_VECTOR
        is_embedded = self._embed is not None and len(embedded.numbers) > 0 and bool(text.strip())
        embedding = self._vectors_of([text[:MAX_EMBEDDED_CHARACTERS]])[0] if is_embedded else NO_VECTOR
        return QueryMeaning(latent, latent, embedding, table, embedded)


def with_feedback(meaning: QueryMeaning, numbers: Sequence[int]) -> QueryMeaning:
    """Return the vectors of a query with that of its feedback: moved towards the mean of its best documents.

    Args:
      meaning: The vectors of the query.
      numbers: Its documents, best first.
    """
    if not len(meaning.latent) or not len(numbers):
        return meaning
    best = meaning.latent_table.vectors(np.array(numbers[:N_FEEDBACK_DOCUMENTS], np.int64))
    return meaning._replace(feedback=unit_rows((meaning.latent + FEEDBACK_WEIGHT * best.mean(axis=0))[None])[0])


def nearest_documents(meaning: QueryMeaning, n: int) -> list[int]:
    """Return the numbers of the documents that are nearest to a query, n by each of its vectors.

    Args:
      meaning: The vectors of the query.
      n: The number of documents per vector.
    """
    numbers = dict[int, None]()
    for table, vector in ((meaning.latent_table, meaning.latent), (meaning.embedded_table, meaning.embedding)):
        if len(vector) and n > 0 and len(table.numbers):
            cosines = table.cosines(vector)
            at = np.argpartition(-cosines, n - 1)[:n] if n < len(cosines) else np.arange(len(cosines))
            at = at[cosines[at] >= MIN_COSINE]
            at = at[np.lexsort((table.numbers[at], -cosines[at]))]
            numbers |= dict.fromkeys(table.numbers[at].tolist())
    return list(numbers)


def similarities(meaning: QueryMeaning, numbers: Ints) -> Vectors:
    """Return three columns for these documents: latent, feedback and embedding cosine, at least 0.

    Args:
      meaning: The vectors of the query.
      numbers: The documents.
    """
    columns = np.zeros((len(numbers), 3))
    for column, table, vector in (
        (0, meaning.latent_table, meaning.latent),
        (1, meaning.latent_table, meaning.feedback),
        (2, meaning.embedded_table, meaning.embedding),
    ):
        if len(vector):
            columns[:, column] = np.clip(_row_products(table.vectors(numbers), vector), 0.0, 1.0)
    return columns


def _row_products(rows: Vectors, vector: Vectors) -> Vectors:
    """Return products row by row, so that one does not depend on the number of the others, as with BLAS."""
    return (rows * vector).sum(axis=1)


def _folded(table: DocumentTable, vectors: VectorTable, numbers: Ints, new: Ints, space: LatentSpace) -> VectorTable:
    added, rows, scales = [np.empty(0, np.int64)], [np.empty((0, space.n_dimensions), np.int8)], [np.empty(0)]
    for part, texts in _chunks(table, new):  # Bytes at once, as numbers of 32 bits would take four times the memory.
        part_rows, part_scales = as_bytes(space.document_vectors(texts))
        added.append(part)
        rows.append(part_rows)
        scales.append(part_scales)
    kept = numbers[~np.isin(numbers, new)]
    return vectors.with_bytes(kept, np.concatenate(added), np.concatenate(rows), np.concatenate(scales))


def embedding_of(meaning: str | Embed) -> tuple[Embed | None, str]:
    """Return the embedding that `meaning` names, and a name under which its vectors are kept.

    Args:
      meaning: "lsa" or "off" for none, "wordllama", or a function of texts.

    Raises:
      InvalidInput: If it is something else.
      NotFound: If wordllama is not installed.
    """
    if meaning in ("lsa", "off"):
        return None, ""
    if callable(meaning):
        return meaning, getattr(meaning, "__qualname__", type(meaning).__name__)
    if meaning != "wordllama":
        raise InvalidInput(f"meaning = {meaning!r:.60} must be lsa, off, wordllama or a function of texts")
    return _wordllama(), "wordllama"


def _wordllama() -> Embed:
    """Return the static embedding of the package wordllama, from the weights that its wheel brings."""
    try:
        import wordllama
    except ImportError:
        raise NotFound("meaning = 'wordllama' needs its package: pip install 'rankloop[search-embedding]'") from None
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: model.embed(texts, norm=True)


def _chunks(table: DocumentTable, numbers: Ints) -> Iterator[tuple[Ints, list[Ints]]]:
    for start in range(0, len(numbers), CHUNK_DOCUMENTS):
        part = numbers[start : start + CHUNK_DOCUMENTS]
        texts = table.packed_texts(part.tolist())
        yield np.array(sorted(texts), np.int64), [texts[number] for number in sorted(texts)]


def _save_table(path: Path, table: VectorTable, name: str = "") -> None:
    with path.open("wb") as file:
        np.savez(file, **table._asdict(), name=np.array(name))


def _load_table(path: Path, name: str = "") -> VectorTable:
    with np.load(path) as arrays:
        if str(arrays["name"]) != name:
            return empty_table(0)
        return VectorTable(arrays["numbers"], arrays["rows"], arrays["scales"])
