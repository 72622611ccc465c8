"""Streams over LETOR files: drawn from memory, or from front to back if the files are larger than memory."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import register
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import NO_CONTEXT, Dataset, concatenate, normalise_queries
from rankloop.data.folder import data_path
from rankloop.data.letor.file import SIDE_SUFFIXES, Layout, pieces, read_letor, stream_letor
from rankloop.data.public_sets import is_archive, public_path, published_folds, refuse_truncated
from rankloop.simulate.streams.pool import shuffled, shuffled_rounds

NOT_DATA = (*SIDE_SUFFIXES, ".json", ".csv", ".md", ".sha256")


@dataclass(frozen=True, kw_only=True)
class LetorQueries:
    """The parameters of both streams over LETOR files.

    Args:
      path: Where the files are.
      normalise: If true, every feature is scaled to [0, 1] inside each query.
      min_items: Queries with fewer items are left out.
      need_relevant: If true, queries without a grade above 0 are left out.
      candidates: The number of random items of the query in each round; all if None.
    """

    path: str | tuple[str, ...]
    normalise: bool = False
    min_items: PositiveCount = 1
    need_relevant: bool = False
    candidates: PositiveCount | None = None


@register("letor")
class Letor(LetorQueries):
    """Queries of LETOR files, drawn at random from memory.

    Args:
      path: A file, a folder of files, or a list of files. A path that does not exist is looked for in the data folder.
    """

    @property
    def problem(self) -> Problem:
        dataset = self.dataset()
        return Problem(dataset.n_features, max_grade=max(1, int(np.ceil(dataset.relevance.max()))))

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.dataset(), rng, self.candidates)

    def dataset(self, rng: Generator | None = None) -> Dataset:
        """Return the queries that take part; the data set is shared between runs and must not be changed."""
        names = (self.path,) if isinstance(self.path, str) else self.path
        files = tuple(file for name in names for file in _files(data_path(name)))
        return _load(files, _states(files), self.normalise, self.min_items, self.need_relevant)


def _states(files: tuple[Path, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return published_folds(path)[0].paths if is_archive(path) else [path]
    visible = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]
    files = [file for file in visible if file.suffix not in NOT_DATA]
    if not files:
        raise InvalidInput(f"the folder {str(path)!r} contains no LETOR files")
    return files


@functools.lru_cache(maxsize=4)
def _load(
    files: tuple[Path, ...], states: tuple[tuple[int, int], ...], normalise: bool, min_items: int, need_relevant: bool
) -> Dataset:
    dataset = concatenate([read_letor(file) for file in files])
    if len(dataset.relevance) and dataset.relevance.min() < 0.0:
        raise InvalidInput(f"{files[0].name} has the grade {dataset.relevance.min()}: grades of a stream begin at 0")
    best = [dataset.relevance[a:b].max(initial=0.0) for a, b in zip(dataset.offsets, dataset.offsets[1:])]
    query_numbers = np.flatnonzero((dataset.sizes >= min_items) & ((np.array(best) > 0.0) | (not need_relevant)))
    if not len(query_numbers):
        raise _no_query(files[0], min_items, need_relevant)
    queries = dataset if len(query_numbers) == dataset.n_queries else dataset.subset(query_numbers)
    return normalise_queries(queries) if normalise else queries


@register("letor_passes")
class LetorPasses(LetorQueries):
    """Queries of LETOR files from front to back, again and again, with a few megabytes in memory at a time.

    Queries of the same few megabytes come in random order, and so do the items of a query. `letor` draws from all
    queries each time, and needs them in memory.

    Args:
      path: A file, a list of files, or a published set (a folder or an archive: MSLR-WEB10K, Yahoo, Istella).
      part: The part of a published set's first fold.
    """

    part: Literal["all", "train", "validation", "test"] = "all"

    @property
    def problem(self) -> Problem:
        n_features, _, max_grade = self._size
        return Problem(n_features, max_grade=max_grade)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        while True:
            n_queries = 0
            for dataset in self.pieces():
                sizes = dataset.sizes.tolist()
                for q in np.argsort(rng.random(dataset.n_queries), kind="stable").tolist():
                    start, size = int(dataset.offsets[q]), sizes[q]
                    relevance = dataset.relevance[start : start + size]
                    if size < self.min_items or (self.need_relevant and not relevance.any()):
                        continue
                    n_shown = size if self.candidates is None else min(self.candidates, size)
                    rows, grades = shuffled(dataset.features, dataset.relevance, start, size, rng.random(n_shown))
                    n_queries += 1
                    yield Query(dataset.query_ids[q], rows, NO_CONTEXT), grades
            if n_queries == 0:
                raise _no_query(self._files[0], self.min_items, self.need_relevant)

    def pieces(self) -> Iterator[Dataset]:
        """Yield complete queries in one pass over all files."""
        n_features, zero_based, _ = self._size
        for file in self._files:
            for dataset in stream_letor(file, n_features=n_features, zero_based=zero_based):
                yield normalise_queries(dataset) if self.normalise else dataset

    @property
    def _files(self) -> tuple[Path, ...]:
        names = (self.path,) if isinstance(self.path, str) else self.path
        return tuple(file for name in names for file in _files_of(name, self.part))

    @property
    def _size(self) -> tuple[int, bool, int]:
        return _size_of(self._files, _states(self._files))


def _no_query(file: Path, min_items: int, need_relevant: bool) -> InvalidInput:
    return InvalidInput(f"{file.name}: no query has {min_items} items" + " and a relevant one" * need_relevant)


def _files_of(name: str, part: str) -> list[Path]:
    """Return a file itself, or the files of a published set's first fold or of one of its parts."""
    path = public_path(name)
    if path.is_file() and not is_archive(path):
        return [path]
    fold = published_folds(path)[0]
    files = fold.files if part == "all" else getattr(fold, part)
    if not files:
        raise InvalidInput(f"{name} has no part for validation: take train or test")
    return [Path(source.address) for source in files]


@functools.lru_cache(maxsize=8)
def _size_of(files: tuple[Path, ...], states: tuple[tuple[int, int], ...]) -> tuple[int, bool, int]:
    """Return the number of features, true if their numbers begin at 0, and the highest grade."""
    lowest, highest, max_grade = 1, 0, 1
    for file in files:
        refuse_truncated(file)
        for rows in pieces(file, Layout()):
            lowest, highest = min(lowest, rows.lowest), max(highest, rows.highest)
            max_grade = max(max_grade, int(np.ceil(rows.grades.max())))
            if rows.grades.min() < 0.0:
                raise InvalidInput(f"{file.name} has the grade {rows.grades.min()}: grades of a stream begin at 0")
    if highest == 0 and lowest == 1:
        raise InvalidInput(f"{files[0].name} contains no feature: is it empty?")
    return highest + (lowest == 0), lowest == 0, max_grade
