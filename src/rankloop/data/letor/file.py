"""Files of queries with features and grades, in the format of LETOR, MSLR, Yahoo, Yandex and svmlight."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats, Ints, item_indices, whole_number
from rankloop.data.compression import BLOCK_BYTES, Block, line_blocks
from rankloop.data.dataset import Dataset, offsets_of
from rankloop.data.letor import lines as parser

Sizes = str | os.PathLike[str] | Sequence[int] | Ints | None
RowBlock = tuple[Floats, Floats, Ints]  # features, grades and the number of the query of each row
SIDE_SUFFIXES = (".query", ".group")
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
FIRST_WIDTH = 64
SCRATCH_BYTES = 1 << 20  # stays in the processor's cache
MAX_HARD_NUMBERS = 1 << 12  # numbers of a piece that float() has to read
MAX_QUOTE_LENGTH = 40
# The largest double, as Istella writes it.
MISSING_VALUE = re.compile(rb"1\.79769313486232e\+?308|1\.7976931348623157E308")


class Layout(NamedTuple):
    """The layout of a file, as far as the caller knows it."""

    n_features: int | None = None
    zero_based: bool | None = None
    max_features: int = 10_000

    @property
    def end_index(self) -> int:
        """Above the highest index that may occur."""
        return (self.n_features or self.max_features) + (0 if self.zero_based else 1)


class LetorRows(NamedTuple):
    """A piece of a file; columns are the feature indices of the file. Valid until the next piece is read."""

    features: Floats
    grades: Floats
    kinds: Ints  # where each row names its query
    lines: Ints  # counted from 1
    run_starts: Ints  # the rows at which another query's name begins
    run_names: list[str]
    lowest: int
    highest: int


def pieces(path: Path, layout: Layout, block_bytes: int = BLOCK_BYTES) -> Iterator[LetorRows]:
    """Yield the rows of a file, piece by piece.

    Args:
      path: The file, compressed or not.
      layout: The layout as far as it is known.
      block_bytes: The bytes of text that are read at a time.
    """
    scratch, n_lines = _scratch(min(FIRST_WIDTH, layout.end_index)), 0
    first_index = 1 if layout.zero_based is False else 0
    for block in line_blocks(path, block_bytes):
        position = block.start
        while position < block.stop:
            scratch.last_row.fill(-1)
            parsed = parser.parse_lines(block.buffer, position, block.stop, first_index, scratch)
            n_rows, problem_line = parsed.n_rows, n_lines + parsed.n_lines + 1
            features, grades, queries = scratch.features[:n_rows], scratch.grades[:n_rows], scratch.queries[:n_rows]
            lines = queries[:, parser.LINE] + (n_lines + 1)
            for row, column, start, end in scratch.hard[: parsed.n_hard].tolist():
                text = block.raw[start:end]
                value = 0.0 if column >= 0 and MISSING_VALUE.fullmatch(text) else float(text)
                if not np.isfinite(value):
                    line = problem_line if row == n_rows else lines[row]
                    raise InvalidInput(f"{path.name}, line {line}: {_quote(block, start)} is too large for a number")
                if row < n_rows:
                    (grades if column < 0 else features[:, column])[row] = value
            if parsed.problem == parser.TOO_LARGE and parsed.highest < layout.end_index:
                width = max(2 * scratch.features.shape[1], parsed.highest + 1)
                scratch = _scratch(min(layout.end_index, width))
            elif parsed.problem != parser.FINE:
                raise InvalidInput(f"{path.name}, line {problem_line}: {_complaint(block, parsed, layout)}")
            if n_rows:
                starts = parser.name_runs(block.buffer, queries)
                spans = queries[starts, parser.NAME_START : parser.NAME_END + 1].tolist()
                names = [block.raw[start:end].decode("utf-8", "backslashreplace") for start, end in spans]
                kinds, lowest, highest = queries[:, parser.KIND], parsed.lowest, parsed.highest
                yield LetorRows(features, grades, kinds, lines, starts, names, lowest, highest)
            position, n_lines = parsed.position, n_lines + parsed.n_lines


def _scratch(width: int) -> parser.LineScratch:
    n_rows = max(1, SCRATCH_BYTES // (8 * width))
    return parser.LineScratch(
        features=np.empty((n_rows, width)),
        grades=np.empty(n_rows),
        queries=np.empty((n_rows, 4), np.int64),
        hard=np.empty((MAX_HARD_NUMBERS + width + 1, 4), np.int64),
        last_row=np.empty(width, np.int64),
    )


def _quote(block: Block, start: int) -> str:
    """Return the token that begins at a position, cut to the length of a message."""
    text = block.raw[start : min(block.stop, start + 4 * MAX_QUOTE_LENGTH)].decode("utf-8", "replace")
    token = (text.split() or [""])[0]
    return repr(token if len(token) <= MAX_QUOTE_LENGTH else token[:MAX_QUOTE_LENGTH] + "…")


def _complaint(block: Block, parsed: parser.ParsedLines, layout: Layout) -> str:
    token, limit = _quote(block, parsed.token), layout.end_index - 1
    return {
        parser.BAD_GRADE: f"{token} is not a grade; a line begins with a finite number, as in '2 qid:7 1:0.5 2:3'",
        parser.BAD_QUERY: f"{token} lacks the query's name, as in 'qid:7'",
        parser.BAD_PAIR: f"{token} is not a feature; 'index:value' was expected, as in '3:0.5' "
        "(index a whole number from 0)",
        parser.BAD_VALUE: f"{token} does not have a finite number behind the colon, as in '3:0.5'",
        parser.TWICE: f"the index of {token} occurs twice in this line",
        parser.TOO_SMALL: f"{token} has the index 0 in a file whose indices begin with 1 (zero_based = False)",
        parser.TOO_LARGE: f"the index of {token} is above {limit}; "
        + ("n_features says so" if layout.n_features else "raise max_features if the file really has so many"),
    }[parsed.problem]


def _ends_of(sizes: Sizes) -> Ints:
    """Return the row after the last of each query, from a list of sizes or from a file of whole numbers."""
    name, values = "sizes", sizes
    if isinstance(sizes, str | os.PathLike):
        name = os.fspath(sizes)
        try:
            values = np.array(Path(sizes).read_text("ascii").split(), dtype=np.int64)
        except FileNotFoundError:
            raise NotFound(f"there is no file {name!r}") from None
        except (OSError, ValueError, OverflowError) as error:
            raise InvalidInput(f"{name!r} cannot be read as whole numbers of items: {error}") from None
    counts = item_indices(values, name)  # type: ignore[arg-type]
    wrong = np.flatnonzero(counts < 1)
    if len(wrong):
        raise InvalidInput(f"{name}: query {wrong[0]} has {counts[wrong[0]]} items; there must be at least 1")
    return np.cumsum(counts)


class Namer:
    """Numbers for the queries of a file, by first appearance; without names they follow from the sizes."""

    def __init__(self, path: Path, sizes: Sizes = None) -> None:
        self._path, self._n_rows = path, 0
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._kind: int | None = None
        self._ends = None if sizes is None else _ends_of(sizes)

    def names(self, first: int = 0, end: int | None = None) -> tuple[str, ...]:
        """Return the names of the queries so far, or of some; those of a file of sizes are "0", "1" and so on."""
        if self._ends is None:
            return tuple(self._names[first:end])
        return tuple(map(str, range(first, len(self._ends) if end is None else end)))

    @property
    def are_named(self) -> bool:
        """True if the file names its queries, false if their sizes are known instead."""
        return self._ends is None

    def number(self, rows: LetorRows, adjacent: bool = False) -> Ints:
        """Return the query of each row; with `adjacent`, raise `InvalidInput` if a query comes back after others."""
        if self._kind is None:
            self._settle(int(rows.kinds[0]))
        first, self._n_rows = self._n_rows, self._n_rows + len(rows.grades)
        if self._ends is not None:
            self._check_total()
            return np.searchsorted(self._ends, np.arange(first, self._n_rows), side="right")
        wrong = np.flatnonzero((rows.kinds != self._kind) | (rows.kinds == parser.NOWHERE))
        if len(wrong):
            in_comment, in_line = "as the number in a comment", "behind the grade, as in '2 qid:7 1:0.5'"
            rule = f"the query must be named {in_comment if self._kind == parser.IN_COMMENT else in_line}"
            advice = "for files without names give `sizes`, the number of items of each query"
            raise InvalidInput(f"{self._path.name}, line {rows.lines[wrong[0]]}: {rule}; {advice}")
        runs = []
        for start, name in zip(rows.run_starts.tolist(), rows.run_names, strict=True):
            if name not in self._numbers:
                self._numbers[name] = len(self._names)
                self._names.append(name)
            elif adjacent and name != self._names[-1]:
                fault = f"{self._path.name}, line {rows.lines[start]}: query {name!r} comes back after others"
                advice = "stream_letor needs the lines of a query together (read_letor gathers them)"
                raise InvalidInput(f"{fault}; {advice}")
            runs.append(self._numbers[name])
        return np.repeat(np.array(runs, np.int64), np.diff(rows.run_starts, append=len(rows.grades)))

    def finish(self) -> None:
        """Raise `InvalidInput` after the last row if the sizes are not those of the file."""
        if self._ends is not None:
            self._check_total(is_complete=True)

    def _check_total(self, is_complete: bool = False) -> None:
        total = 0 if self._ends is None or not len(self._ends) else int(self._ends[-1])
        if self._n_rows > total or (is_complete and self._n_rows < total):
            counted = f"{self._n_rows} items" + " or more" * (self._n_rows > total)
            raise InvalidInput(f"{self._path.name} has {counted}, the sizes of its queries sum to {total}")

    def _settle(self, kind: int) -> None:
        """Take the kind of name from the first row; a file of sizes beside it, as of LightGBM, counts without qid."""
        self._kind, path = kind, self._path
        if self._ends is None and kind != parser.IN_QID:
            stems = [path, path.with_suffix("")] if path.suffix in PACKED_SUFFIXES else [path]
            candidates = [stem.with_name(stem.name + suffix) for stem in stems for suffix in SIDE_SUFFIXES]
            beside = next((candidate for candidate in candidates if candidate.is_file()), None)
            self._ends = None if beside is None else _ends_of(beside)


def read_letor(
    path: str | os.PathLike[str],
    *,
    sizes: Sizes = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    max_features: int = 10_000,
) -> Dataset:
    """Read a file with `grade qid:name index:value … # comment` per item.

    The file may be compressed by gzip, bzip2, xz or zstandard. Items keep their order; those of one query are brought
    together, and queries stand by first appearance. Features that a line does not name are 0. Without `qid:` the query
    is the number in the comment (Yandex), or follows from `sizes`.

    Args:
      path: The file.
      sizes: The number of items of each query, a list or a file; by default a `.query` or `.group` file beside `path`.
      n_features: The number of features; the largest index unless given.
      zero_based: True if indices count from 0; unless given, true if an index 0 occurs.
      max_features: A larger index is an error.

    Raises:
      InvalidInput: If a line is wrong; the error names it.
      NotFound: If there is no such file.
    """
    file, layout = _checked(path, n_features, zero_based, max_features)
    namer, blocks, lowest, highest = Namer(file, sizes), [], 1, -1
    for rows in pieces(file, layout):
        blocks.append(_block(rows, namer.number(rows)))
        lowest, highest = min(lowest, rows.lowest), max(highest, rows.highest)
    namer.finish()
    try:
        features, grades, owner = _join_blocks(blocks, _complete_layout(layout, lowest, highest, file))
    except MemoryError:
        raise InvalidInput(f"{file.name} does not fit into memory: read it with stream_letor") from None
    if not (np.diff(owner) >= 0).all():
        order = np.argsort(owner, kind="stable")
        features, grades = features[order], grades[order]
    return Dataset(features, grades, offsets_of(np.bincount(owner, minlength=len(namer.names()))), namer.names())


def stream_letor(
    path: str | os.PathLike[str],
    *,
    sizes: Sizes = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    max_features: int = 10_000,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Dataset]:
    """Read a file as an iterator over data sets of complete queries, for files that are larger than memory.

    The lines of a query must be adjacent. Without n_features and zero_based the file is read twice, first to find them.

    Args:
      path: The file.
      sizes: The number of items of each query, as of `read_letor`.
      n_features: The number of features.
      zero_based: True if indices count from 0.
      max_features: A larger index is an error.
      block_bytes: The bytes of text of one data set, about.

    Raises:
      InvalidInput: If a line is wrong, or a query comes back after others.
      NotFound: If there is no such file.
    """
    file, layout = _checked(path, n_features, zero_based, max_features)
    whole_number(block_bytes, "block_bytes", 1)
    namer = Namer(file, sizes)
    if layout.n_features is None or layout.zero_based is None:
        lowest, highest = 1, -1
        for rows in pieces(file, layout, block_bytes):
            lowest, highest = min(lowest, rows.lowest), max(highest, rows.highest)
        layout = _complete_layout(layout, lowest, highest, file)
    return _complete_queries(file, layout, namer, block_bytes)


def _checked(
    path: str | os.PathLike[str], n_features: int | None, zero_based: bool | None, max_features: int
) -> tuple[Path, Layout]:
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {str(file)!r}")
    whole_number(max_features, "max_features", 1)
    if n_features is not None:
        whole_number(n_features, "n_features", 1)
    return file, Layout(n_features, zero_based, max(max_features, n_features or 0))


def _complete_layout(layout: Layout, lowest: int, highest: int, path: Path) -> Layout:
    """Return a layout with everything that the indices of the whole file tell."""
    zero_based = lowest == 0 if layout.zero_based is None else layout.zero_based
    n_features = max(highest + 1 if zero_based else highest, 0)
    declared = layout.n_features
    if declared is not None and n_features > declared:
        raise InvalidInput(f"{path.name} has {n_features} features, counted from 0; n_features says {declared}")
    return Layout(declared or n_features, zero_based, layout.max_features)


def _block(rows: LetorRows, owner: Ints) -> RowBlock:
    """Copy a piece, whose memory is reused."""
    return rows.features[:, : rows.highest + 1].copy(), rows.grades.copy(), owner


def _join_blocks(blocks: list[RowBlock], layout: Layout) -> RowBlock:
    """Return all rows in one table; each block is released when it was copied, so that rows are in memory once."""
    grades = np.concatenate([np.empty(0), *(block[1] for block in blocks)])
    owner = np.concatenate([np.empty(0, np.int64), *(block[2] for block in blocks)])
    features, end = np.zeros((len(grades), layout.n_features or 0)), len(grades)
    while blocks:
        columns = blocks.pop()[0][:, 0 if layout.zero_based else 1 :]
        features[end - len(columns) : end, : columns.shape[1]] = columns
        end -= len(columns)
    return features, grades, owner


def _complete_queries(path: Path, layout: Layout, namer: Namer, block_bytes: int) -> Iterator[Dataset]:
    """Yield queries once the next one has begun, so that they are complete."""
    held: list[RowBlock] = []
    for rows in pieces(path, layout, block_bytes):
        held.append(_join_blocks([_block(rows, namer.number(rows, adjacent=True))], layout))
        if held[-1][2][-1] > held[0][2][0]:
            features, grades, owner = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
            end = int(np.searchsorted(owner, owner[-1]))
            yield _dataset(features[:end], grades[:end], owner[:end], namer)
            held = [(features[end:], grades[end:], owner[end:])]
    namer.finish()
    if held:
        features, grades, owner = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
        yield _dataset(features, grades, owner, namer)


def _dataset(features: Floats, grades: Floats, owner: Ints, namer: Namer) -> Dataset:
    first, last = int(owner[0]), int(owner[-1])
    offsets = np.searchsorted(owner, np.arange(first, last + 2)).astype(np.int64)
    return Dataset(features.copy(), grades.copy(), offsets, namer.names(first, last + 1))
