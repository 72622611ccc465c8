"""Names of past queries with their vectors, so that clicks for one query count for queries of similar meaning."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock

import numpy as np

from rankloop.core.types import Floats

MAX_PAST_QUERIES = 5_000
MIN_SIMILARITY = 0.6  # cosine in the latent space
MAX_SIMILAR = 4


class PastQueries:
    """Past queries in the order of their first search; only names are kept on disk.

    Args:
      path: The file of names. It is personal data: `forget` takes names out again.
      vector_of: Returns the vector of a query by its name; empty where it has none.
    """

    def __init__(self, path: Path, vector_of: Callable[[str], Floats]) -> None:
        self._path, self._vector_of, self._lock = path, vector_of, Lock()
        self._vectors: dict[str, Floats] = {}
        if path.exists():
            names = path.read_text(encoding="utf-8").splitlines()
            self._vectors = {name: vector_of(name) for name in names[-MAX_PAST_QUERIES:]}

    def similar(self, name: str, vector: Floats) -> list[str]:
        """Return the query itself and the past queries that are nearest to it.

        Args:
          name: Of the query.
          vector: Its unit vector; may be empty.
        """
        with self._lock:
            names = [other for other, row in self._vectors.items() if other != name and len(row) == len(vector) > 0]
            rows = np.array([self._vectors[other] for other in names])
        if not names:
            return [name]
        cosines = rows @ vector
        best = np.argsort(-cosines, kind="stable")[:MAX_SIMILAR]
        return [name, *(names[i] for i in best if cosines[i] >= MIN_SIMILARITY)]

    def add(self, name: str, vector: Floats) -> None:
        """Remember a query that was searched.

        Args:
          name: Of the query.
          vector: Its unit vector.
        """
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
