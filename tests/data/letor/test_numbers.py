"""Numbers in a byte buffer equal Python's float()."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankloop.data import read_letor
from rankloop.data.letor.lines import parse_number

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
    value, end, is_number, is_hard = parse_number(as_buffer(text), 0, len(text))
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
    assert not any(parse_number(as_buffer(text), 0, len(text))[3] for text in texts)


@pytest.mark.parametrize("text", ["", "-", ".", "e5", "1e", "1e+", "+-1", "abc", "-.e1"])
def test_what_is_not_a_number(text):
    assert not parse_number(as_buffer(text), 0, len(text))[2]


def test_no_byte_behind_the_end_is_read():
    assert parse_number(as_buffer("12345"), 0, 2)[:2] == (12.0, 2)
    assert parse_number(as_buffer("1e5"), 0, 2)[2] is False


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_written_and_read_back_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("numbers") / "file.txt"
    path.write_text("\n".join(f"{value!r} qid:1 1:{value!r}" for value in values))
    data = read_letor(path, cache=False)
    np.testing.assert_array_equal(data.relevance.view(np.uint64), np.array(values).view(np.uint64))
    np.testing.assert_array_equal(data.features[:, 0].view(np.uint64), np.array(values).view(np.uint64))


def test_more_hard_numbers_than_there_is_room_for(tmp_path):
    values = np.random.default_rng(0).random((700, 30)) * 1e-30
    lines = [
        f"1 qid:{i} " + " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row)) for i, row in enumerate(values.tolist())
    ]
    (tmp_path / "file.txt").write_text("\n".join(lines))
    np.testing.assert_array_equal(read_letor(tmp_path / "file.txt", cache=False).features, values)
