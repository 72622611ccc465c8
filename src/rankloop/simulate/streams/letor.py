"""Streams over LETOR files."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import register
from rankloop.core.types import Floats, Problem, Query
from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.folder import data_path
from rankloop.data.letor.file import read_letor
from rankloop.data.letor.rows import SIDE_SUFFIXES
from rankloop.data.public_sets import is_archive, published_folds
from rankloop.simulate.streams.pool import shuffled_rounds

NOT_DATA = (*SIDE_SUFFIXES, ".json", ".csv", ".md", ".sha256")


@dataclass(frozen=True, kw_only=True)
class LetorQueries:
    """Which files, and what of their queries takes part."""

    path: str | tuple[str, ...]
    normalise: bool = False
    min_items: int = 1
    need_relevant: bool = False
    candidates: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, min_items=self.min_items)
        if self.candidates is not None:
            check_at_least(1, candidates=self.candidates)


@register("letor")
class Letor(LetorQueries):
    """Queries of LETOR files, drawn at random: `path` is a file, a folder of them, or a list of files.

    A path that does not exist as it is written is looked for in the data folder. normalise: every feature to [0, 1]
    inside each query. min_items and need_relevant leave out queries with fewer items, and those without any grade
    above 0. candidates: so many random items of the query in each round, all unless given.
    """

    @property
    def problem(self) -> Problem:
        dataset = self.dataset()
        return Problem(n_features=dataset.n_features, max_grade=max(1, int(np.ceil(dataset.relevance.max()))))

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        return shuffled_rounds(self.dataset(), rng, self.candidates)

    def dataset(self, rng: Generator | None = None) -> Dataset:
        """The queries that take part; shared between runs, not to be written to. Draws nothing."""
        names = (self.path,) if isinstance(self.path, str) else self.path
        files = tuple(file for name in names for file in _files(data_path(name)))
        states = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        return _load(files, states, self.normalise, self.min_items, self.need_relevant)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return published_folds(path)[0].paths if is_archive(path) else [path]
    found = [
        file
        for file in sorted(path.iterdir())
        if file.is_file() and not file.name.startswith(".") and file.suffix not in NOT_DATA
    ]
    if not found:
        raise InvalidInput(f"the folder {str(path)!r} holds no LETOR files")
    return found


@functools.lru_cache(maxsize=4)
def _load(
    files: tuple[Path, ...], states: tuple[tuple[int, int], ...], normalise: bool, min_items: int, need_relevant: bool
) -> Dataset:
    dataset = concatenate([read_letor(file) for file in files])
    if len(dataset.relevance) and dataset.relevance.min() < 0.0:
        raise InvalidInput(f"{files[0].name} has the grade {dataset.relevance.min()}: grades of a stream begin at 0")
    best = [dataset.relevance[a:b].max(initial=0.0) for a, b in zip(dataset.offsets, dataset.offsets[1:])]
    chosen = np.flatnonzero((dataset.sizes >= min_items) & ((np.array(best) > 0.0) | (not need_relevant)))
    if not len(chosen):
        raise InvalidInput(f"{files[0].name}: no query has {min_items} items" + " and a relevant one" * need_relevant)
    queries = dataset if len(chosen) == dataset.n_queries else dataset.subset(chosen)
    return normalise_queries(queries) if normalise else queries
