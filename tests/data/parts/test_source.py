"""Parts are found by name, known again, and missed by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.parts.source import (
    SCHEMA_COPIES,
    PartSource,
    _available_memory,
    check_memory,
    entries_in,
    fit_memory,
    sources_in,
)
from tests.data.parts.cases import write_parts


def test_parts_are_listed_by_name_without_what_stands_beside_them(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    for name in (".hidden.txt", "_SUCCESS", "part-0.txt.query", "README.md"):
        (folder / name).touch()
    found = sources_in(str(folder))
    assert [source.name for source in found] == ["part-0.txt", "part-1.txt", "part-2.txt", "part-3.txt.gz"]
    assert found[0].size == (folder / "part-0.txt").stat().st_size
    assert sources_in(str(folder / "part-1.txt")) == [found[1]]
    assert entries_in(str(tmp_path)) == ({}, ["data"])


def test_an_address_lists_the_same_parts(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "data")
    here, there = sources_in(str(folder)), sources_in(f"file://{folder}")
    assert [(each.name, each.size, each.modified) for each in there] == [
        (each.name, each.size, each.modified) for each in here
    ]
    with there[3].local() as copy:
        assert copy.read_bytes() == (folder / "part-3.txt.gz").read_bytes()
        assert copy.parent != folder
    assert not copy.exists()


def test_a_folder_without_parts_or_with_two_kinds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing at"):
        sources_in(str(tmp_path / "nowhere"))
    with pytest.raises(NotFound, match="holds no parts"):
        sources_in(str(tmp_path))
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.csv").touch()
    with pytest.raises(InvalidInput, match="LETOR files and tables"):
        sources_in(str(tmp_path))
    with pytest.raises(InvalidInput, match="cannot be opened"):
        sources_in("nosuch://bucket/parts")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_part_that_changed_or_is_gone_is_named(tmp_path: Path, scheme: str) -> None:
    source = sources_in(scheme + str(write_parts(tmp_path)))[0]
    source.check()
    os.utime(tmp_path / "part-0.txt", ns=(0, source.modified + 1))
    with pytest.raises(InvalidInput, match=r"part-0\.txt' changed during training"):
        source.check()
    (tmp_path / "part-0.txt").unlink()
    with pytest.raises(NotFound, match=r"part-0\.txt' is missing"):
        source.check()


def test_data_beyond_memory_are_known_by_their_size() -> None:
    free = _available_memory()
    assert free > 1 << 20
    assert fit_memory([PartSource("a.txt", 1 << 10, 0)])
    assert not fit_memory([PartSource("a.txt", free // 2, 0)])
    assert not fit_memory([PartSource("a.txt.gz", free // 12, 0)])


@pytest.mark.parametrize(("name", "n_bytes"), [("shop.csv", 101), ("shop.csv.gz", 17), ("shop.parquet", 17)])
def test_a_log_by_name_beyond_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, n_bytes: int
) -> None:
    monkeypatch.setattr("rankloop.data.parts.source._available_memory", lambda: 100 * SCHEMA_COPIES["batch"])
    (tmp_path / name).write_bytes(b"x" * (n_bytes - 1))
    check_memory(tmp_path / name, "batch")
    (tmp_path / name).write_bytes(b"x" * n_bytes)
    check_memory(tmp_path / name, "online")
    with pytest.raises(InvalidInput, match=rf"{name} .* and there are 3,000\. At most 100 fit here: .*--solver online"):
        check_memory(tmp_path / name, "batch")
