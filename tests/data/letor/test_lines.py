"""Whatever the bytes, reading ends in a data set or in InvalidInput, and agrees with a plain reader."""

import contextlib
import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.data import read_letor, stream_letor
from rankloop.data.letor.lines import _parse_number

PAIR = re.compile(rb"(\d+):([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
GRADE = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
LIMIT = 50

pieces = st.one_of(
    st.sampled_from([b"1", b"0", b"qid:1", b"qid:2", b"qid:", b"1:0.5", b"2:3", b"3:-1e3", b"0:1", b"51:1", b"# 7"]),
    st.sampled_from([b" ", b"  ", b"\t", b"\n", b"\r\n", b"\r", b":", b".", b"-", b"e", b"#", b"nan", b"inf"]),
    st.sampled_from([b"9999999999:1", b"1:99999999999999999999999", b"\x00", b"\xff", "é".encode()]),
)
almost_lines = st.builds(
    lambda grade, query, pairs: b"%d qid:%d %s\n" % (grade, query, b" ".join(b"%d:%.3f" % pair for pair in pairs)),
    st.integers(0, 4),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 52), st.floats(-9, 9)), max_size=4),
)
soup = st.lists(st.one_of(pieces, almost_lines), max_size=12).map(b"".join)


@st.composite
def mutated(draw):
    """Good lines with one byte replaced, removed or inserted, or with the end cut off."""
    text = bytearray(b"".join(draw(st.lists(almost_lines, min_size=1, max_size=6))))
    position, byte = draw(st.integers(0, len(text) - 1)), draw(st.integers(0, 255))
    change = draw(st.sampled_from(["replace", "remove", "insert", "cut"]))
    if change == "replace":
        text[position] = byte
    elif change == "remove":
        del text[position]
    elif change == "insert":
        text.insert(position, byte)
    else:
        del text[position:]
    return bytes(text)


def plain_reader(content: bytes):
    """The same rules with regular expressions: [(grade, query, {index: value})], or None when a line is broken."""
    rows, kinds = [], set()
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        body, hash_mark, comment = line.partition(b"#")
        tokens = [token for token in re.split(rb"[ \t\r]+", body) if token]
        if not tokens:
            continue
        grade = tokens.pop(0)
        if not GRADE.fullmatch(grade) or not math.isfinite(float(grade)):
            return None
        note = comment.strip(b" \t\r")
        query = tokens.pop(0)[4:] if tokens and tokens[0].startswith(b"qid:") else None
        if query == b"":
            return None
        kinds.add("qid" if query is not None else "comment" if hash_mark and note.isdigit() else "none")
        matches = [PAIR.fullmatch(token) for token in tokens]
        if not all(matches) or not all(math.isfinite(float(match[2])) for match in matches):
            return None
        indices = [int(match[1]) for match in matches]
        if len(set(indices)) < len(indices) or any(index > LIMIT for index in indices):
            return None
        name = (note if query is None else query).decode("utf-8", "backslashreplace")
        rows.append((float(grade), name, {int(match[1]): float(match[2]) for match in matches}))
    return rows if len(kinds) <= 1 and "none" not in kinds else None


def expected(rows):
    shift = 0 if any(0 in pairs for _, _, pairs in rows) else 1
    width = max((max(pairs, default=-1) for _, _, pairs in rows), default=-1) + 1 - shift
    queries = dict.fromkeys(name for _, name, _ in rows)
    ordered = [row for query in queries for row in rows if row[1] == query]
    features = np.zeros((len(rows), max(width, 0)))
    for i, (_, _, pairs) in enumerate(ordered):
        for index, value in pairs.items():
            features[i, index - shift] = value
    return features, [grade for grade, _, _ in ordered], tuple(queries)


@settings(max_examples=400, deadline=None)
@given(content=st.one_of(soup, mutated(), st.binary(max_size=60)), block_bytes=st.integers(1, 200))
def test_any_bytes(tmp_path_factory, content, block_bytes):
    if content.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")):
        return
    path = tmp_path_factory.getbasetemp() / "fuzz.txt"
    path.write_bytes(content)
    rows = plain_reader(content)
    try:
        data = read_letor(path, max_features=LIMIT)
    except InvalidInput:
        assert rows is None
    else:
        assert rows is not None
        features, grades, names = expected(rows)
        np.testing.assert_array_equal(data.features, features)
        assert data.relevance.tolist() == grades
        assert data.query_ids == names
    try:
        parts = list(stream_letor(path, max_features=LIMIT, block_bytes=block_bytes))
    except InvalidInput:
        return
    assert sum(len(part.relevance) for part in parts) == len(rows)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"]), st.binary(max_size=80))
def test_bytes_that_claim_to_be_compressed(tmp_path_factory, magic, rest):
    path = tmp_path_factory.getbasetemp() / "packed.txt"
    path.write_bytes(magic + rest)
    with contextlib.suppress(InvalidInput):
        read_letor(path)


digits = st.text("0123456789", max_size=25)
numerals = st.builds(
    lambda sign, whole, point, fraction, power: sign + whole + point + fraction + power,
    st.sampled_from(["", "-", "+"]),
    digits,
    st.sampled_from(["", "."]),
    digits,
    st.one_of(
        st.just(""), st.builds("e{}".format, st.integers(-400, 400)), st.builds("E+{}".format, st.integers(0, 30))
    ),
)


def as_buffer(text: str):
    return np.frombuffer(bytearray(text.encode()), np.uint8)


@settings(deadline=None)
@given(st.one_of(numerals, st.floats(allow_nan=False, allow_infinity=False).map(repr)))
@example("9007199254740993")
@example("9007199254740992e22")
@example("-0.0")
@example("0." + "0" * 40 + "1")
@example("123456789012345678901234567890")
@example("1e-22")
@example("1e99999999999999999999")
def test_a_number_is_read_as_float_reads_it(text):
    value, end, is_number, is_hard = _parse_number(as_buffer(text), 0, len(text))
    try:
        truth = float(text)
    except ValueError:
        assert not is_number or end < len(text)
        return
    assert is_number
    assert end == len(text)
    if not is_hard:
        assert value == truth
        assert np.signbit(value) == np.signbit(truth)


def test_most_printed_numbers_need_no_second_reading():
    rng = np.random.default_rng(0)
    texts = [f"{value:.6f}" for value in rng.random(1000) * 1000] + ["3", "0", "1e5", "2.5e-7"]
    assert not any(_parse_number(as_buffer(text), 0, len(text))[3] for text in texts)


@pytest.mark.parametrize("text", ["", "-", ".", "e5", "1e", "1e+", "+-1", "abc", "-.e1"])
def test_what_is_not_a_number(text):
    assert not _parse_number(as_buffer(text), 0, len(text))[2]


def test_no_byte_behind_the_end_is_read():
    assert _parse_number(as_buffer("12345"), 0, 2)[:2] == (12.0, 2)
    assert _parse_number(as_buffer("1e5"), 0, 2)[2] is False


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_written_and_read_back_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("numbers") / "file.txt"
    path.write_text("\n".join(f"{value!r} qid:1 1:{value!r}" for value in values))
    data = read_letor(path)
    np.testing.assert_array_equal(data.relevance.view(np.uint64), np.array(values).view(np.uint64))
    np.testing.assert_array_equal(data.features[:, 0].view(np.uint64), np.array(values).view(np.uint64))


def test_more_hard_numbers_than_there_is_room_for(tmp_path):
    values = np.random.default_rng(0).random((700, 30)) * 1e-30
    lines = [
        f"1 qid:{i} " + " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row)) for i, row in enumerate(values.tolist())
    ]
    (tmp_path / "file.txt").write_text("\n".join(lines))
    np.testing.assert_array_equal(read_letor(tmp_path / "file.txt").features, values)
