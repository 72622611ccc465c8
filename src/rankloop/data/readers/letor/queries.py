"""Which query a row of a LETOR file belongs to."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Ints, item_indices
from rankloop.data.readers.letor.parser import IN_COMMENT, IN_QID, NOWHERE
from rankloop.data.readers.letor.rows import Rows

Sizes = str | os.PathLike[str] | Sequence[int] | Ints | None
SIDE_SUFFIXES = (".query", ".group")
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def side_file(path: Path) -> Path | None:
    """The file beside `path` that holds the number of items of each query, as LightGBM and XGBoost write it."""
    stems = [path, path.with_suffix("")] if path.suffix in PACKED_SUFFIXES else [path]
    candidates = [stem.with_name(stem.name + suffix) for stem in stems for suffix in SIDE_SUFFIXES]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def sizes_of(sizes: Sizes) -> Ints:
    """The number of items of each query, from a list or from a file of whole numbers."""
    name, values = "sizes", sizes
    if isinstance(sizes, str | os.PathLike):
        name, values = os.fspath(sizes), _numbers_in(Path(sizes))
    counts = item_indices(values, name)  # type: ignore[arg-type]
    wrong = np.flatnonzero(counts < 1)
    if len(wrong):
        raise InvalidInput(f"{name}: query {wrong[0]} has {counts[wrong[0]]} items, at least 1 is right")
    return counts


def _numbers_in(path: Path) -> list[int]:
    try:
        words = path.read_text("ascii").split()
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{str(path)!r} cannot be read as whole numbers: {error}") from None
    for position, word in enumerate(words):
        if not (word.isdigit() and len(word) < 19):
            raise InvalidInput(f"{path.name}: {word[:40]!r}, number {position + 1} in the file, is no number of items")
    return [int(word) for word in words]


class Namer:
    """Numbers the queries by first appearance, while the rows of a file come by."""

    def __init__(self, path: Path, counts: Ints | None) -> None:
        self._path = path
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._kind: int | None = None
        self._n_rows = 0
        self._ends = None if counts is None else np.cumsum(counts)

    def names(self, first: int = 0, end: int | None = None) -> tuple[str, ...]:
        """Names of the queries so far, or of some of them; those of a file of sizes are "0", "1", …"""
        if self._ends is None:
            return tuple(self._names[first:end])
        return tuple(map(str, range(first, len(self._ends) if end is None else end)))

    @property
    def are_named(self) -> bool:
        """Whether the file names its queries, rather than saying how many items each has."""
        return self._ends is None

    def number(self, rows: Rows, adjacent: bool = False) -> Ints:
        """The query of each row; with `adjacent` a query that comes back is refused."""
        if self._kind is None:
            self._settle(int(rows.kinds[0]))
        first, self._n_rows = self._n_rows, self._n_rows + len(rows.grades)
        if self._ends is not None:
            self._check_total(self._n_rows > self._total)
            return np.searchsorted(self._ends, np.arange(first, self._n_rows), side="right")
        self._check_kinds(rows)
        if adjacent:
            self._check_adjacent(rows)
        runs = [self._number_of(name) for name in rows.run_names]
        lengths = np.diff(rows.run_starts, append=len(rows.grades))
        return np.repeat(np.array(runs, dtype=np.int64), lengths)

    def finish(self) -> None:
        """After the last row: the sizes must have been those of this file."""
        self._check_total(self._ends is not None and self._n_rows < self._total)

    @property
    def _total(self) -> int:
        return 0 if self._ends is None or not len(self._ends) else int(self._ends[-1])

    def _check_total(self, is_wrong: bool) -> None:
        if is_wrong:
            found = f"{self._n_rows} items" + " or more" * (self._n_rows > self._total)
            raise InvalidInput(f"{self._path.name} has {found}, the sizes of its queries sum to {self._total}")

    def _number_of(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def _settle(self, kind: int) -> None:
        """The first row decides where the queries are named; a side file counts when no qid does."""
        self._kind = kind
        beside = side_file(self._path)
        if self._ends is None and kind != IN_QID and beside is not None:
            self._ends = np.cumsum(sizes_of(beside))

    def _check_kinds(self, rows: Rows) -> None:
        wrong = np.flatnonzero((rows.kinds != self._kind) | (rows.kinds == NOWHERE))
        if len(wrong):
            where = (
                "as the number in a comment" if self._kind == IN_COMMENT else "behind the grade, as in '2 qid:7 1:0.5'"
            )
            raise InvalidInput(
                f"{self._path.name}, line {rows.lines[wrong[0]]}: the query must be named {where}; "
                "for files without names give `sizes`, the number of items of each query"
            )

    def _check_adjacent(self, rows: Rows) -> None:
        last = self._names[-1] if self._names else None
        for start, name in zip(rows.run_starts.tolist(), rows.run_names, strict=True):
            if name != last and name in self._numbers:
                raise InvalidInput(
                    f"{self._path.name}, line {rows.lines[start]}: query {name!r} comes back after others; "
                    "stream_letor needs the lines of a query together (read_letor gathers them)"
                )
            last = self._names[self._number_of(name)]
