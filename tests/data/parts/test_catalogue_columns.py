"""The copy of a part has the rows of the part, in the order that is asked for, or does not stand at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.data import Dataset, normalise_queries, read_letor
from rankloop.data.parts.catalogue import ColumnCopy, PartOptions, hash_of
from rankloop.data.parts.source import scratch_folder, sources_in
from tests.data.parts.cases import lines_of, write_parts

UNSORTED = PartOptions(by_hash=False)


def _copy(path: Path, options: PartOptions = UNSORTED) -> ColumnCopy:
    return ColumnCopy(sources_in(str(path))[0], options)


def _rows(copy: ColumnCopy, first: int = 0, end: int | None = None, width: int | None = None) -> tuple[Floats, Floats]:
    return copy.rows(first, copy.n_rows if end is None else end, width or copy.n_features)


def _same(copy: ColumnCopy, expected: Dataset) -> None:
    features, grades = _rows(copy)
    assert np.array_equal(features, expected.features)
    assert np.array_equal(grades, expected.relevance)
    assert np.array_equal(copy.summary().sizes, expected.sizes)
    assert [copy.name_of(query) for query in range(expected.n_queries)] == list(expected.query_ids)


@pytest.mark.parametrize("name", ["part-0.txt", "part-3.txt.gz"])
def test_a_copy_has_the_rows_of_the_part_in_its_order(tmp_path: Path, name: str) -> None:
    part = write_parts(tmp_path) / name
    _same(_copy(part), read_letor(part))


def test_by_hash_a_range_of_hashes_is_one_stretch(tmp_path: Path) -> None:
    part = write_parts(tmp_path) / "part-1.txt"
    whole = read_letor(part)
    order = np.argsort(np.array([hash_of(name) for name in whole.query_ids], np.uint64))
    copy = _copy(part, PartOptions())
    _same(copy, whole.subset(order))
    hashes = copy.summary().hashes
    assert np.array_equal(hashes, np.sort(hashes))


def test_a_hash_is_the_same_everywhere() -> None:
    assert hash_of("") == 0x2D06800538D394C2  # the published value of XXH3 for no bytes


def test_rows_of_a_query_that_are_apart_are_brought_together(tmp_path: Path) -> None:
    part = tmp_path / "part.txt"
    part.write_text("\n".join([*lines_of(0)[::2], *lines_of(0)[1::2]]))
    _same(_copy(part), read_letor(part))
    assert _copy(part).summary().sizes.tolist() == [10] * 12


def test_indices_from_zero_and_rows_of_different_width(tmp_path: Path) -> None:
    part = tmp_path / "part.txt"
    part.write_text("1 qid:a 1:3 2:4\n0 qid:a 2:5\n2 qid:b 1:6 9:0\n")
    copy = _copy(part)
    _same(copy, read_letor(part))
    assert copy.n_features == 9
    shifted = _copy(part, UNSORTED._replace(zero_based=True))
    assert _rows(shifted)[0][0].tolist() == [0, 3, 4, *[0] * 7]
    wide = _rows(copy, 1, 3, width=11)[0]
    assert wide.tolist() == [[0, 5, *[0] * 9], [6, *[0] * 10]]
    part.write_text("1 qid:a 0:3 2:4\n0 qid:a 1:5\n")
    _same(_copy(part), read_letor(part))


def test_queries_without_names_are_those_of_their_part(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("1 1:3\n0 1:2\n1 1:1\n")
        (tmp_path / f"{name}.query").write_text("2\n1\n")
    copies = [_copy(tmp_path / name) for name in ("one.txt", "two.txt")]
    assert [copy.name_of(1) for copy in copies] == ["one.txt:1", "two.txt:1"]


def test_normalised_as_in_memory(tmp_path: Path) -> None:
    part = write_parts(tmp_path) / "part-2.txt"
    _same(_copy(part, UNSORTED._replace(normalise=True)), normalise_queries(read_letor(part)))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_of_grades_is_a_part_too(tmp_path: Path, kind: str) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    whole = read_letor(write_parts(tmp_path / "text") / "part-0.txt")
    columns = {f"f{number}": whole.features[:, number] for number in range(whole.n_features)}
    names = np.repeat(whole.query_ids, whole.sizes)
    table = pa.table({"qid": names, **columns, "relevance": whole.relevance})
    part = tmp_path / f"part.{kind}"
    if kind == "csv":
        csv.write_csv(table, part)
    else:
        parquet.write_table(table, part, row_group_size=50)
    _same(_copy(part, PartOptions(by_hash=False)), whole)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("qid,f\n1,2\n", "needs a column relevance or grade"),
        ("f,grade\n1,2\n", "needs a column query or query_id"),
        ("qid,f,grade\n1,x,2\n", "column 'f'"),
        ("qid,f,grade\n1,,2\n", "column 'f'"),
    ],
)
def test_a_table_that_is_no_part_says_why(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "part.csv").write_text(text)
    with pytest.raises(InvalidInput, match=complaint) as raised:
        _copy(tmp_path / "part.csv", PartOptions())
    assert "part.csv" in str(raised.value)


@pytest.mark.parametrize("name", ["part-0.txt", "part-3.txt.gz"])
def test_a_truncated_part_is_named_and_leaves_no_copy(tmp_path: Path, name: str) -> None:
    part = write_parts(tmp_path) / name
    part.write_bytes(part.read_bytes()[:-12])
    part.write_bytes(part.read_bytes() + (b" 3:" if name.endswith("txt") else b""))
    with pytest.raises(InvalidInput, match=name):
        _copy(part)
    assert list(scratch_folder().iterdir()) == []


def test_a_copy_is_used_again_and_made_anew_when_it_is_damaged(tmp_path: Path) -> None:
    part = write_parts(tmp_path) / "part-0.txt"
    whole, copy = read_letor(part), _copy(part)
    written = (copy.folder / "features.npy").stat().st_mtime_ns
    assert (_copy(part).folder / "features.npy").stat().st_mtime_ns == written
    with (copy.folder / "features.npy").open("r+b") as file:
        file.truncate(1000)
    _same(_copy(part), whole)
    (copy.folder / "queries.npz").unlink()
    _same(_copy(part), whole)


def test_a_copy_that_is_cut_short_while_in_use_is_not_read_as_zeros(tmp_path: Path) -> None:
    copy = _copy(write_parts(tmp_path) / "part-0.txt")
    with (copy.folder / "features.npy").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InvalidInput, match=r"copy of part-0\.txt .* cut short"):
        _rows(copy)


def test_no_room_for_a_copy_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    part = write_parts(tmp_path / "data") / "part-0.txt"
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path / "file"))
    with pytest.raises(InvalidInput, match="set RANKLOOP_CACHE"):
        _copy(part)
