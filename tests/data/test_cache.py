"""The parsed copy: used when it is right, ignored when it is not."""

import numpy as np
import pytest

from rankloop.core.files import cache_folder
from rankloop.data import read_letor
from rankloop.data.letor import file as letor

CONTENT = b"2 qid:q 1:0.5\n0 qid:r 2:4\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "data.txt"
    file.write_bytes(CONTENT)
    return file


@pytest.fixture
def parses(monkeypatch):
    """Counts how often a file is really parsed."""
    calls = []
    original = letor._read

    def counted(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(letor, "_read", counted)
    return calls


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a[:3], b[:3], strict=True)) and a.query_ids == b.query_ids


def test_the_second_time_nothing_is_parsed(path, parses):
    first, second = read_letor(path), read_letor(path)
    assert len(parses) == 1
    assert same(first, second)
    assert second.features.flags.writeable
    assert second.features.flags.c_contiguous
    assert [file.suffix for file in cache_folder().iterdir()] == [".npz"]


def test_another_content_or_another_option_is_another_copy(path, parses):
    read_letor(path)
    path.write_bytes(CONTENT + b"1 qid:r 1:1\n")
    assert len(read_letor(path).relevance) == 3
    assert read_letor(path, n_features=9).n_features == 9
    assert read_letor(path, sizes=[3]).n_queries == 1
    assert len(parses) == 4


def test_a_changed_file_of_sizes_is_noticed(tmp_path, parses):
    path, sizes = tmp_path / "train", tmp_path / "train.query"
    path.write_bytes(b"1 1:1\n2 1:1\n")
    sizes.write_bytes(b"2")
    assert read_letor(path).n_queries == 1
    sizes.write_bytes(b"1 1")
    assert read_letor(path).n_queries == 2


@pytest.mark.parametrize("damage", [b"", b"junk", "flip", "cut"])
def test_a_damaged_copy_is_rebuilt(path, parses, damage):
    first = read_letor(path)
    (copy,) = cache_folder().iterdir()
    content = bytearray(copy.read_bytes())
    if damage == "flip":
        content[content.index(np.float64(0.5).tobytes())] ^= 1
    elif damage == "cut":
        del content[len(content) // 2 :]
    else:
        content = damage
    copy.write_bytes(content)
    assert same(read_letor(path), first)
    assert len(parses) == 2
    assert same(read_letor(path), first)
    assert len(parses) == 2


def test_no_cache(path, parses):
    read_letor(path, cache=False)
    read_letor(path, cache=False)
    assert len(parses) == 2
    assert not list(cache_folder().iterdir())


def test_a_folder_that_cannot_be_written_costs_only_time(path, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path / "file" / "inside"))
    assert read_letor(path).n_queries == 2


def test_a_broken_file_leaves_no_copy(path):
    path.write_bytes(b"oops")
    with pytest.raises(ValueError, match="line 1"):
        read_letor(path)
    assert not list(cache_folder().iterdir())


def test_an_empty_file_comes_back_empty(path):
    path.write_bytes(b"")
    assert read_letor(path).query_ids == read_letor(path).query_ids == ()


def test_where_copies_lie(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKLOOP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rankloop"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parts[-2:] == (".cache", "rankloop")
