"""Queries on disks are the same as in memory, however they are cut; and no query is in two parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.data import Dataset, concatenate, read_letor
from rankloop.data.parts.catalogue import (
    HASH_END,
    PartOptions,
    StoredDataset,
    hash_of,
    summary_of,
)
from rankloop.data.parts.source import sources_in
from rankloop.training.folds import Fold, everything
from tests.data.parts.cases import write_parts

OPTIONS = PartOptions()


def catalogue_in(folder: Path) -> StoredDataset:
    return StoredDataset.of_parts([summary_of((source, OPTIONS)) for source in sources_in(str(folder))], OPTIONS)


def sorted_in_memory(folder: Path, *ranges: tuple[int, int]) -> Dataset:
    """Of each part the queries with hashes in each range, by hash: read in the plain way."""
    parts = []
    for source in sources_in(str(folder)):
        whole = read_letor(source.address)
        hashes = [hash_of(name) for name in whole.query_ids]
        order = sorted(range(whole.n_queries), key=hashes.__getitem__)
        chosen = [query for low, high in ranges for query in order if low <= hashes[query] < high]
        parts.append(whole.subset(chosen))
    return concatenate(parts)


def _equal(found: Dataset, expected: Dataset) -> None:
    assert np.array_equal(found.features, expected.features)
    assert np.array_equal(found.relevance, expected.relevance)
    assert np.array_equal(found.offsets, expected.offsets)


@pytest.mark.parametrize(
    "ranges", [[(0, HASH_END)], [(HASH_END // 5, HASH_END // 2)], [(HASH_END // 2, HASH_END), (0, HASH_END // 4)]]
)
def test_ranges_of_hashes_are_those_queries(tmp_path: Path, ranges: list[tuple[int, int]]) -> None:
    folder = write_parts(tmp_path)
    found, expected = catalogue_in(folder).within(ranges), sorted_in_memory(folder, *ranges)
    assert found.n_queries == expected.n_queries
    assert np.array_equal(found.offsets, expected.offsets)
    _equal(found.load(), expected)


def test_any_cut_is_loaded_as_a_subset(tmp_path: Path) -> None:
    folder = write_parts(tmp_path)
    ranges = (0, HASH_END // 3), (HASH_END // 3, HASH_END)
    found, expected = catalogue_in(folder).within(ranges), sorted_in_memory(folder, *ranges)
    for first, end in [(0, 1), (3, 30), (11, 13), (47, 48)]:
        _equal(found.between(first, end).load(), expected.subset(range(first, end)))
        _equal(found.load().subset(range(first, end)), expected.subset(range(first, end)))
    assert str(found.between(10, 14)) == "part-0.txt, part-1.txt"


def test_halves_joined_are_the_whole(tmp_path: Path) -> None:
    folder = write_parts(tmp_path)
    catalogue = catalogue_in(folder)
    halves = [catalogue.within([(0, HASH_END // 2)]), catalogue.within([(HASH_END // 2, HASH_END)])]
    fold = Fold("", *halves, catalogue.within([]))
    _equal(everything([fold]).load(), concatenate([half.load() for half in halves]))


def test_a_query_in_two_parts_is_refused_with_both_names(tmp_path: Path) -> None:
    folder = write_parts(tmp_path)
    catalogue_in(folder).checked()
    with (folder / "part-2.txt").open("a") as file:
        file.write("1 qid:0-7 1:1\n")
    with pytest.raises(InvalidInput, match=r"query '0-7' is in two parts, part-0\.txt and part-2\.txt"):
        catalogue_in(folder).checked()


def test_a_part_that_changes_between_two_passes_is_noticed(tmp_path: Path) -> None:
    folder = write_parts(tmp_path)
    queries = catalogue_in(folder).within([(0, HASH_END)]).between(0, 48)
    queries.load()
    with (folder / "part-1.txt").open("a") as file:
        file.write("1 qid:new 1:1\n")
    with pytest.raises(InvalidInput, match=r"part-1\.txt' changed during training"):
        queries.load()
