"""Reading LETOR files: formats, order, refusals."""

import bz2
import gzip
import lzma
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from sklearn.datasets import load_svmlight_file

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data import data_folder, read_letor, stream_letor
from rankloop.data.folder import absence_notice

PLAIN = b"""# a comment line
2 qid:7 1:0.5 3:-1.5e1 # GX029 inc = 1
0 qid:7 2:4

1 qid:a 1:1 2:2 3:3
"""


def written(tmp_path: Path, content: bytes, name: str = "some.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def read(tmp_path: Path, content: bytes, **options):
    return read_letor(written(tmp_path, content), **options)


def check_plain(data) -> None:
    assert data.features.tolist() == [[0.5, 0, -15], [0, 4, 0], [1, 2, 3]]
    assert data.relevance.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.query_ids == ("7", "a")
    assert data.features.flags.c_contiguous
    assert data.features.flags.writeable


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.rstrip(b"\n"),
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b" ", b"\t  "),
        PLAIN + b"\n\n \t\n",
        b"2 qid:7 3:-15 1:.5\n0 qid:7 2:+4.\n1 qid:a 3:3 2:2 1:1",
    ],
    ids=["plain", "crlf", "no end of line", "byte order mark", "tabs", "blank lines", "unsorted indices"],
)
def test_layouts_of_the_same_data(tmp_path, content):
    check_plain(read(tmp_path, content))


def zstandard(content: bytes) -> bytes:
    return pyarrow.Codec("zstd").compress(content, asbytes=True)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_compressed_in_two_parts(tmp_path, compress):
    check_plain(read(tmp_path, compress(PLAIN[:40]) + compress(PLAIN[40:])))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_a_compressed_file_that_is_cut_is_refused(tmp_path, compress):
    with pytest.raises(InvalidInput, match=r"some\.txt is cut short or damaged"):
        read(tmp_path, compress(PLAIN)[:-12])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_garbage_behind_a_compressed_file_is_refused(tmp_path, compress):
    with pytest.raises(InvalidInput, match=r"some\.txt is cut short or damaged"):
        read(tmp_path, compress(PLAIN) + b"garbage")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_parts_may_be_padded_with_zeros(tmp_path, compress):
    check_plain(read(tmp_path, compress(PLAIN[:40]) + bytes(8) + compress(PLAIN[40:]) + bytes(4)))


def test_a_query_that_comes_back_is_gathered(tmp_path):
    data = read(tmp_path, b"1 qid:b 1:1\n2 qid:a 1:2\n3 qid:b 1:3\n4 qid:c 1:4\n5 qid:a 1:5\n")
    assert data.query_ids == ("b", "a", "c")
    assert data.relevance.tolist() == [1, 3, 2, 5, 4]
    assert data.features[:, 0].tolist() == [1, 3, 2, 5, 4]
    assert data.offsets.tolist() == [0, 2, 4, 5]


def test_indices_from_zero(tmp_path):
    content = b"1 qid:1 1:10\n1 qid:1 0:5 2:20\n"
    assert read(tmp_path, content).features.tolist() == [[0, 10, 0], [5, 0, 20]]
    assert read(tmp_path, b"1 qid:1 1:10", zero_based=True).features.tolist() == [[0, 10]]
    with pytest.raises(InvalidInput, match=r"line 2: '0:5' has the index 0"):
        read(tmp_path, content, zero_based=False)


def test_a_zero_that_comes_after_many_lines(tmp_path):
    content = b"1 qid:1 2:7\n" * 50_000 + b"1 qid:1 0:5\n"
    data = read(tmp_path, content)
    assert data.features.shape == (50_001, 3)
    assert data.features[0].tolist() == [0, 0, 7]
    assert data.features[-1].tolist() == [5, 0, 0]


def test_features_that_come_late_make_the_table_wider(tmp_path):
    lines = [f"{i % 3} qid:{i // 10} 1:{i} {i + 1}:1" for i in range(1, 900)]
    data = read(tmp_path, "\n".join(lines).encode())
    assert data.features.shape == (899, 900)
    assert data.features[:, 0].tolist() == list(range(1, 900))
    assert all(data.features[i - 1, i] == 1 for i in range(1, 900))
    assert data.features.sum() == sum(range(1, 900)) + 899


def test_number_of_features_can_be_said(tmp_path):
    assert read(tmp_path, PLAIN, n_features=5).features.shape == (3, 5)
    with pytest.raises(InvalidInput, match=r"line 2: the index of '3:-1.5e1' is above 2; n_features says so"):
        read(tmp_path, PLAIN, n_features=2)
    with pytest.raises(InvalidInput, match="has 3 features, counted from 0; n_features says 2"):
        read(tmp_path, b"1 qid:1 0:1 2:1", n_features=2)


def test_a_late_zero_cuts_no_feature_of_earlier_lines_off(tmp_path):
    content = b"1 qid:1 1:1 2:5\n" * 60_000 + b"1 qid:1 1:1\n" * 60_000 + b"1 qid:1 0:9\n"
    with pytest.raises(InvalidInput, match="has 3 features, counted from 0; n_features says 2"):
        read(tmp_path, content, n_features=2)
    data = read(tmp_path, content, n_features=3)
    assert data.features[0].tolist() == [0, 1, 5]
    assert data.features[-1].tolist() == [9, 0, 0]


def test_an_absurd_index_is_refused_before_memory_is(tmp_path):
    for index in ("10001", "999999999999", "9" * 400):
        with pytest.raises(InvalidInput, match=r"line 1: the index of .* is above 10000; raise max_features"):
            read(tmp_path, f"1 qid:1 {index}:1".encode())
    assert read(tmp_path, b"1 qid:1 10001:1", max_features=20_000).features.shape == (1, 10_001)


def test_yandex_names_the_query_in_the_comment(tmp_path):
    data = read(tmp_path, b"2 1:0.5 3:1 # 12\n0 2:1 # 12\n1 1:1 #13\n")
    assert data.query_ids == ("12", "13")
    assert data.offsets.tolist() == [0, 2, 3]


def test_sizes_beside_the_file(tmp_path):
    content = b"2 1:0.5\n0 2:1\n1 1:1\n"
    path = written(tmp_path, gzip.compress(content), "rank.train.gz")
    with pytest.raises(InvalidInput, match=r"line 1: the query must be named behind the grade"):
        read_letor(path)
    written(tmp_path, b"2\n1\n", "rank.train.query")
    assert read_letor(path).offsets.tolist() == [0, 2, 3]
    assert read_letor(path, sizes=[1, 1, 1]).offsets.tolist() == [0, 1, 2, 3]
    assert read_letor(path, sizes=tmp_path / "rank.train.query").query_ids == ("0", "1")
    written(tmp_path, b"2\n2\n", "rank.train.query")
    with pytest.raises(InvalidInput, match="has 3 items, the sizes of its queries sum to 4"):
        read_letor(path)
    written(tmp_path, b"2\nx\n", "rank.train.query")
    with pytest.raises(InvalidInput, match=r"rank\.train\.query' cannot be read as whole numbers of items: .*'x'"):
        read_letor(path)


@pytest.mark.parametrize("sizes", [[3, 0], [1, 1], [4], [-1, 4], [], [1.5, 1.5], "missing.query"])
def test_wrong_sizes_are_refused(tmp_path, sizes):
    with pytest.raises((InvalidInput, NotFound)):
        read(tmp_path, b"2 1:0.5\n0 2:1\n1 1:1\n", sizes=sizes)


def test_qid_wins_over_a_file_of_sizes(tmp_path):
    written(tmp_path, b"1 1 1", "some.txt.query")
    check_plain(read(tmp_path, PLAIN))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"x qid:1 1:1", "'x' is not a grade"),
        (b"qid:1 1:1", "'qid:1' is not a grade"),
        (b"1:1", "'1:1' is not a grade"),
        (b"nan qid:1 1:1", "'nan' is not a grade"),
        (b"1e qid:1 1:1", "'1e' is not a grade"),
        (b"1e999 qid:1 1:1", "'1e999' is too large"),
        (b"1 qid: 1:1", "'qid:' lacks the query's name"),
        (b"1 1:1", "the query must be named behind the grade"),
        (b"1 1:1 qid:1", "'qid:1' is not a feature"),
        (b"1 qid:1 1", "'1' is not a feature"),
        (b"1 qid:1 1 :2", "'1' is not a feature"),
        (b"1 qid:1 -1:2", "'-1:2' is not a feature"),
        (b"1 qid:1 1.5:2", "'1.5:2' is not a feature"),
        (b"1 qid:1 a:2", "'a:2' is not a feature"),
        (b"1 qid:1 1:", "'1:' does not have a finite number"),
        (b"1 qid:1 1: 2", "'1:' does not have a finite number"),
        (b"1 qid:1 1:NaN", "'1:NaN' does not have a finite number"),
        (b"1 qid:1 1:-inf", "'1:-inf' does not have a finite number"),
        (b"1 qid:1 1:1_0", "'1:1_0' does not have a finite number"),
        (b"1 qid:1 1:0x10", "'1:0x10' does not have a finite number"),
        (b"1 qid:1 1:1.2.3", "'1:1.2.3' does not have a finite number"),
        (b"1 qid:1 1:--1", "'1:--1' does not have a finite number"),
        (b"1 qid:1 1:1e400", "'1e400' is too large for a number"),
        (b"1 qid:1 1:1\x00", "does not have a finite number"),
        ("1 qid:1 1:½".encode(), "'1:½' does not have a finite number"),
        (b"1 qid:1 1:1 2:2 1:3", "the index of '1:3' occurs twice"),
        (b"1 qid:1 2:2 1:3 2:3", "the index of '2:3' occurs twice"),
    ],
)
def test_broken_lines_are_refused_by_number(tmp_path, line, message):
    content = b"# comment\n1 qid:1 1:1\n\n" + line + b"\n1 qid:2 1:1\n"
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, content)
    assert "some.txt, line 4: " in str(caught.value)
    assert message in str(caught.value)


def test_line_numbers_hold_across_blocks(tmp_path):
    path = written(tmp_path, b"1 qid:1 1:0.5\n" * 1000 + b"oops\n")
    for block_bytes in (1, 7, 100, 10_000):
        with pytest.raises(InvalidInput, match="line 1001: 'oops' is not a grade"):
            list(stream_letor(path, block_bytes=block_bytes))


def test_mixed_ways_of_naming_queries_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="line 2: the query must be named behind the grade"):
        read(tmp_path, b"1 qid:1 1:1\n1 1:1 # 3\n")
    with pytest.raises(InvalidInput, match="line 2: the query must be named as the number in a comment"):
        read(tmp_path, b"1 1:1 # 3\n1 1:1\n")


def test_empty_files_and_items_without_features(tmp_path):
    empty = read(tmp_path, b"")
    assert (empty.n_queries, empty.features.shape, empty.query_ids) == (0, (0, 0), ())
    assert list(stream_letor(written(tmp_path, b"# nothing\n"))) == []
    assert read(tmp_path, b"3 qid:1\n").features.shape == (1, 0)


def test_what_is_not_there(tmp_path):
    with pytest.raises(NotFound, match="there is no file"):
        read_letor(tmp_path / "absent.txt")
    with pytest.raises(NotFound, match="there is no file"):
        read_letor(tmp_path)


@pytest.mark.parametrize(
    "options", [{"n_features": 0}, {"n_features": 2.0}, {"max_features": 0}, {"max_features": "many"}]
)
def test_impossible_options(tmp_path, options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        read(tmp_path, PLAIN, **options)
    with pytest.raises(InvalidInput, match=next(iter(options))):
        stream_letor(written(tmp_path, PLAIN), **options)


@pytest.mark.parametrize("block_bytes", [0, 2.5])
def test_impossible_blocks(tmp_path, block_bytes):
    with pytest.raises(InvalidInput, match="block_bytes"):
        stream_letor(written(tmp_path, PLAIN), block_bytes=block_bytes)


@pytest.mark.parametrize("block_bytes", [1, 30, 64, 1000])
def test_streaming_gives_the_same_queries(tmp_path, block_bytes):
    rng = np.random.default_rng(0)
    lines = []
    for query in range(30):
        for _ in range(rng.integers(1, 8)):
            pairs = " ".join(f"{j}:{rng.random():.3f}" for j in range(1, 8) if rng.random() < 0.5)
            lines.append(f"{rng.integers(5)} qid:{query} {pairs}")
    path = written(tmp_path, "\n".join(lines).encode())
    whole = read_letor(path)
    parts = list(stream_letor(path, block_bytes=block_bytes))
    assert tuple(name for part in parts for name in part.query_ids) == whole.query_ids
    assert all(part.features.shape[1] == whole.n_features for part in parts)
    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([part.relevance for part in parts]), whole.relevance)
    np.testing.assert_array_equal(np.concatenate([part.sizes for part in parts]), whole.sizes)
    if block_bytes < 1000:
        assert len(parts) > 5


def test_streaming_needs_no_more_memory_for_a_longer_file(tmp_path):
    def peak(n_queries: int) -> int:
        lines = (
            f"{i % 3} qid:{i // 10} " + " ".join(f"{j}:0.{i}" for j in range(1, 30)) for i in range(10 * n_queries)
        )
        path = written(tmp_path, "\n".join(lines).encode())
        tracemalloc.start()
        assert sum(part.n_queries for part in stream_letor(path, block_bytes=50_000)) == n_queries
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(10)
    assert peak(2000) < 1.2 * peak(500)


def test_streaming_with_sizes(tmp_path):
    path = written(tmp_path, b"1 1:1\n2 1:2\n3 1:3\n4 1:4\n")
    parts = list(stream_letor(path, sizes=[1, 2, 1], block_bytes=1))
    assert [part.relevance.tolist() for part in parts] == [[1], [2, 3], [4]]
    assert [part.query_ids for part in parts] == [("0",), ("1",), ("2",)]
    with pytest.raises(InvalidInput, match="the sizes of its queries sum to 2"):
        list(stream_letor(path, sizes=[1, 1], block_bytes=1000))


def test_streaming_refuses_a_query_that_comes_back(tmp_path):
    path = written(tmp_path, b"1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1\n")
    for block_bytes in (1, 1000):
        with pytest.raises(InvalidInput, match="line 3: query '1' comes back"):
            list(stream_letor(path, block_bytes=block_bytes))
    with pytest.raises(InvalidInput, match="block_bytes"):
        stream_letor(path, block_bytes=0)


REAL = {
    "letor/mq2008/S1.txt.gz": (2933, 46, 157),
    "letor/mslr_sample/mslr_sample.txt.gz": (19_704, 136, 181),
    "letor/clueweb09_webis/part1.txt.gz": (5309, 42, 12),
    "letor/lightgbm_lambdarank/rank.train.gz": (3005, 300, 201),
}


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the folder of LETOR files"))
@pytest.mark.parametrize("name", REAL)
def test_real_files_as_scikit_learn_reads_them(name):
    path = data_folder() / name
    data = read_letor(path)
    assert (*data.features.shape, data.n_queries) == REAL[name]
    peer = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(data.features, peer[0].toarray())
    np.testing.assert_array_equal(data.relevance, peer[1])
