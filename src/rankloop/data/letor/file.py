"""Files of queries with features and grades, in the format of LETOR, MSLR, Yahoo, Yandex and svmlight."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rankloop.core.errors import NotFound
from rankloop.core.types import Floats, Ints, whole_number
from rankloop.data.cache import cached
from rankloop.data.compression import BLOCK_BYTES
from rankloop.data.dataset import Dataset
from rankloop.data.letor.rows import (
    Layout,
    LetorTable,
    Namer,
    Sizes,
    columns_of,
    pieces,
    side_file,
    sizes_of,
)


def read_letor(
    path: str | os.PathLike[str],
    *,
    sizes: Sizes = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    max_features: int = 10_000,
    cache: bool = True,
) -> Dataset:
    """A whole file: `grade qid:name index:value … # comment` per item; gzip, bzip2, xz and zstandard are seen through.

    Items keep their order; items of one query that are apart are brought together, queries stand by first appearance.
    Features that a line does not name are 0. Indices count from 1, or from 0 when a 0 occurs (`zero_based` decides).
    Lines without qid: the query is the number in the comment (Yandex), or follows from `sizes`, the number of items
    of each query, given as a list or a file (a `.query` or `.group` file beside `path` is found by itself). A parsed
    copy is kept in the cache folder under the checksum of the file, unless `cache` is False.
    """
    file, layout = _existing(path), _layout(n_features, zero_based, max_features)
    counts = None if sizes is None else sizes_of(sizes)
    if not cache:
        return _read(file, layout, counts)
    beside = side_file(file)
    options = (tuple(layout), None if counts is None else counts.tolist())
    return cached([file] if beside is None else [file, beside], options, lambda: _read(file, layout, counts))


def stream_letor(
    path: str | os.PathLike[str],
    *,
    sizes: Sizes = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    max_features: int = 10_000,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Dataset]:
    """The same file as data sets of whole queries, about `block_bytes` of text at a time, for files beyond memory.

    The lines of a query must be adjacent here. Without n_features and zero_based the file is read twice, first to
    find them.
    """
    file, layout = _existing(path), _layout(n_features, zero_based, max_features)
    whole_number(block_bytes, "block_bytes", 1)
    counts = None if sizes is None else sizes_of(sizes)
    if layout.n_features is None or layout.zero_based is None:
        layout = _measured(file, layout, block_bytes)
    return _whole_queries(file, layout, Namer(file, counts), block_bytes)


def _existing(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {str(file)!r}")
    return file


def _layout(n_features: int | None, zero_based: bool | None, max_features: int) -> Layout:
    whole_number(max_features, "max_features", 1)
    if n_features is not None:
        whole_number(n_features, "n_features", 1)
    return Layout(n_features, zero_based, max(max_features, n_features or 0))


def _read(path: Path, layout: Layout, counts: Ints | None) -> Dataset:
    table, namer = LetorTable(path, layout), Namer(path, counts)
    for rows in pieces(path, layout):
        table.append(rows, namer.number(rows))
    namer.finish()
    return table.dataset(namer.names())


def _measured(path: Path, layout: Layout, block_bytes: int) -> Layout:
    """The layout with what was unknown found out by reading the file once."""
    lowest, highest = 1, -1
    for rows in pieces(path, layout, block_bytes):
        lowest, highest = min(lowest, rows.lowest), max(highest, rows.highest)
    zero_based = lowest == 0 if layout.zero_based is None else layout.zero_based
    n_features = max(highest + 1 if zero_based else highest, 0) if layout.n_features is None else layout.n_features
    return Layout(n_features, zero_based, layout.max_features)


def _whole_queries(path: Path, layout: Layout, namer: Namer, block_bytes: int) -> Iterator[Dataset]:
    """Rows are held back until the last query among them is surely complete."""
    held: list[tuple[Floats, Floats, Ints]] = []
    for rows in pieces(path, layout, block_bytes):
        columns = np.zeros((len(rows.grades), layout.n_features or 0))
        used = columns_of(rows, bool(layout.zero_based), columns.shape[1])
        columns[:, : used.shape[1]] = used
        held.append((columns, rows.grades.copy(), namer.number(rows, adjacent=True)))
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
