"""What a value of each kind becomes: tents by arithmetic, dates by hand, equal values alike, the rest refused."""

import base64
import math
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, entries, spec_of
from rankloop.features.kinds import (
    DAY_SECONDS,
    MAX_COMPONENT,
    MAX_DEVIATIONS,
    Category,
    Date,
    Flag,
    Id,
    Number,
    Vector,
    WordsField,
    _line_log,
    _tents,
    knot_value,
)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
MAX = sys.float_info.max
TOO_LONG = 10**5000  # a number that Python does not write out

NAMES = {"ids": lambda value: type(value).__name__}  # some values are too long for a name


def tokens(kind, value, at=0.0):
    keys, values = kind.tokens(value, at)
    return dict(zip(keys, values, strict=True))


# --- numbers


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, {0: 1.0}),
        (-0.0, {0: 1.0}),
        (5e-324, {0: 1.0}),
        (-5e-324, {0: 1.0}),
        (0.75, {2: 1.0}),  # ¾ + √(9/16 + 1) = 2, one octave, two knots
        (-0.75, {-2: 1.0}),
        (1.875, {4: 1.0}),  # (4 − ¼) / 2
        ((3 - 1 / 3) / 2, {3: 1.0}),  # half an octave is 1.5 times
        (2.0**40, {82: 1.0}),
        (3 * 2.0**40, {85: 1.0}),
        (2.5 * 2.0**40, {84: 0.5, 85: 0.5}),
        (MAX, {2050: 1.0}),
        (-MAX, {-2050: 1.0}),
        (True, {2: 2 - math.sqrt(2), 3: math.sqrt(2) - 1}),  # 1 + √2 = 2 · 1.2071…, 2.414… steps
    ],
)
def test_tents_by_hand(number, expected):
    found = tokens(Number(), number)
    assert found.keys() == expected.keys()
    assert list(found.values()) == pytest.approx(list(expected.values()), abs=1e-15)


def test_tents_written_down():
    """These are exact: another machine has to give the same bits."""
    assert tokens(Number(), 19.99) == {10: 0.4996876951661413, 11: 0.5003123048338587}
    assert tokens(Number(), 1234567.0) == {42: 0.6452503204341866, 43: 0.3547496795658134}
    assert tokens(Number(), -0.01) == {-1: 0.020099997500125255, 0: 0.9799000024998747}
    assert tokens(Number(), 1e308) == {2048: 0.7749261414928696, 2049: 0.22507385850713035}


@given(NUMBERS)
def test_tents(number):
    knots, values = _tents(number)
    assert 1 <= len(knots) <= 2
    assert len(knots) == len(values)
    assert sum(values) == pytest.approx(1.0, abs=1e-15)
    assert all(0.0 < value <= 1.0 for value in values)
    low, high = knot_value(knots[0]), knot_value(knots[-1])
    assert low - 1e-12 * (1 + abs(low)) <= number <= high + 1e-12 * (1 + abs(high))
    mirrored = dict(zip(*_tents(-number)))
    assert mirrored == pytest.approx({-knot: value for knot, value in zip(knots, values)}, abs=1e-12)


@given(st.floats(-1e300, 1e300), st.floats(0, 1e-6))
def test_tents_are_continuous(number, share):
    other = number + share * abs(number)
    one, two = dict(zip(*_tents(number))), dict(zip(*_tents(other)))
    difference = sum(abs(one.get(knot, 0.0) - two.get(knot, 0.0)) for knot in {*one, *two})
    assert difference <= 8 * share + 1e-11


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_tents_keep_the_order(first, second):
    assume(first < second)
    assert mean_knot(first) <= mean_knot(second)


def mean_knot(number):
    return sum(knot * value for knot, value in zip(*_tents(number)))


@given(st.integers(-2049, 2049))
def test_knots_are_where_they_say(knot):
    assert dict(zip(*_tents(knot_value(knot)))).get(knot, 0.0) == pytest.approx(1.0, abs=1e-9)


def test_knots_beyond_the_largest_number():
    assert knot_value(2050) == MAX
    assert knot_value(-2051) == -MAX


def test_declared_numbers():
    assert tokens(Number(mean=50.0, deviation=20.0), 90) == {"": 2.0}
    assert Number(scale="linear").numbers(-3) == (-3.0,)
    assert Number(scale="linear").numbers(1e9) == (MAX_DEVIATIONS,)
    assert Number(deviation=1e-300).numbers(-MAX) == (-MAX_DEVIATIONS,)
    assert Number(scale="linear", mean=-MAX).numbers(MAX) == (MAX_DEVIATIONS,)
    assert Number(scale="log").numbers(7) == (3 * math.log(2),)  # log₂ 8
    assert Number(scale="log").numbers(-7) == (-3 * math.log(2),)
    assert Number(scale="log", mean=1.0, deviation=0.5).numbers(0) == (-2.0,)
    assert Number().numbers(7) == ()
    assert _line_log(1.0 + 5.0) == 2.5  # between 4 and 8 a straight line
    assert (Number().size, Number(scale="log").size, Number(mean=1.0).size) == (0, 1, 1)


@pytest.mark.parametrize(
    "parameters", [{"mean": math.nan}, {"deviation": 0.0}, {"deviation": math.inf}, {"scale": "x"}]
)
def test_scales_that_are_none(parameters):
    with pytest.raises(InvalidInput):
        Number(**parameters)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "must be a finite number, got nan"),
        (math.inf, "must be a finite number, got inf"),
        (np.float32("-inf"), "finite"),
        ("3", "must be a number, got '3'"),
        ("", "must be a number, got ''"),
        ([1], "must be a number"),
        (np.array(1.0), "must be a number"),
        (1j, "must be a number"),
        (np.complex128(1), "must be a number"),
        (np.timedelta64(3, "D"), "must be a number"),
        (Decimal(1), "must be a number"),
        ({}, "must be a number"),
        (10**400, "beyond 1e308"),
        (TOO_LONG, "beyond 1e308"),
    ],
    **NAMES,
)
def test_what_is_no_number(value, message):
    for kind in (Number(), Number(scale="linear")):
        with pytest.raises(InvalidInput, match=message):
            kind.tokens(value, 0.0)
        if kind.size:
            with pytest.raises(InvalidInput, match=message):
                kind.numbers(value)


def test_numbers_that_are_equal_mean_the_same():
    for value in (1, True, np.int8(1), np.float32(1), np.bool_(True), np.longdouble(1)):
        assert tokens(Number(), value) == tokens(Number(), 1.0)


# --- categories and ids


@pytest.mark.parametrize("value", [1, 1.0, True, "1", " 1 ", np.int64(1), np.float32(1), np.bool_(True), [1], ("1",)])
def test_categories_that_are_equal(value):
    assert tokens(Category(), value) == {"1": 1.0}
    assert tokens(Id(), value) == {"1": 1.0}


def test_categories():
    half = 1 / math.sqrt(2)
    assert tokens(Category(), "caf\u00e9") == tokens(Category(), "cafe\u0301") == {"caf\u00e9": 1.0}
    assert tokens(Category(), "Acme") != tokens(Category(), "ACME"), "capitals count"
    assert tokens(Category(), ["b", "a", "b", "", None]) == {"b": half, "a": half}
    assert tokens(Category(), {"b", "a"}) == tokens(Category(), frozenset("ab"))
    assert list(tokens(Category(), {"b", "a"})) == ["a", "b"], "sets have no order of their own"
    assert tokens(Category(), np.array(["b", "a"])) == {"b": half, "a": half}
    assert tokens(Category(), np.array(7)) == {"7": 1.0}
    assert tokens(Category(), 0.1) == tokens(Category(), "0.1")
    assert tokens(Category(), -0.0) == {"0": 1.0}
    assert tokens(Category(), 1e22) == tokens(Category(), 10**22)
    assert tokens(Category(), 10**999) == {"1" + 999 * "0": 1.0}
    for nothing in ("", "  ", [], [None, ""], set(), np.array([])):
        assert tokens(Category(), nothing) == {}
    assert len(tokens(Category(), list(range(1000)))) == 1000
    assert sum(value**2 for value in tokens(Category(), list(range(1000))).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "finite number, got nan"),
        ([1, math.inf], "finite number, got inf"),
        (np.float64("nan"), "finite"),
        (10**1000, "more than 1000 digits"),
        (TOO_LONG, "more than 1000 digits"),
        ("x" * 1001, "a text of 1001 characters; at most 1000"),
        ("x" * 10**6, "a text of 1000000 characters"),
        (list(range(10_000)), "a list of 10000 categories; at most 1000"),
        (np.arange(1001), "a list of 1001 categories"),
        (["a", ["b"]], r"got \['b'\]"),
        ({"a": 1}, "must be a text or a number, or a list of them"),
        (b"bytes", "must be a text or a number"),
        (1j, "must be a text or a number"),
        (date(2020, 1, 1), "must be a text or a number"),
        (np.array([[1, 2]]), "must be a text or a number"),
        (object, "must be a text or a number"),
        ("\ud800", "has an unpaired surrogate"),
        (["a", "b\udfff"], "has an unpaired surrogate"),
    ],
    **NAMES,
)
def test_what_is_no_category(value, message):
    for kind in (Category(), Id()):
        with pytest.raises(InvalidInput, match=message):
            kind.tokens(value, 0.0)


# --- words


def test_words():
    third = 1 / math.sqrt(3)
    assert tokens(WordsField(), "The red, RED shoes of Acme") == {"red": third, "shoes": third, "acme": third}
    assert tokens(WordsField(stop_words=False), "to be") == {"to": 1 / math.sqrt(2), "be": 1 / math.sqrt(2)}
    assert tokens(WordsField(bigrams=True), "red shoes") == {"red": third, "shoes": third, "red shoes": third}
    assert list(tokens(WordsField(bigrams=True), "a red b red")) == ["red", "b", "red b", "b red"]
    assert tokens(WordsField(), "") == tokens(WordsField(), "the of") == tokens(WordsField(), "…!") == {}
    assert len(tokens(WordsField(), " ".join(f"w{i}" for i in range(10_000)))) == 10_000
    assert tokens(WordsField(), "x" * 100_000) == {"x" * 100_000: 1.0}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * 10**6, "a text of 1000000 characters; at most 100000"),
        (3, "must be a text of words, got 3"),
        (["a"], "must be a text of words"),
        (b"a", "must be a text of words"),
        (TOO_LONG, "a int too long to print"),
        ("fine \ud83d", "has an unpaired surrogate"),
    ],
    **NAMES,
)
def test_what_is_no_text(value, message):
    with pytest.raises(InvalidInput, match=message):
        WordsField().tokens(value, 0.0)


# --- flags


def test_flags():
    for value in (True, 1, 1.0, np.bool_(True), np.int8(1), "1", "true", " Yes ", "TRUE"):
        assert tokens(Flag(), value) == {"1": 1.0}
    for value in (False, 0, 0.0, -0.0, np.float64(0), "0", "no", "False"):
        assert tokens(Flag(), value) == {"0": 1.0}
    assert tokens(Flag(), "") == tokens(Flag(), "  ") == {}


@pytest.mark.parametrize(
    "value",
    [2, -1, 0.5, math.nan, "maybe", [True], np.array([1, 0]), np.array(1), 1 + 0j, {}, TOO_LONG, "\ud800"],
    **NAMES,
)
def test_what_is_no_flag(value):
    with pytest.raises(InvalidInput, match="must be true or false"):
        Flag().tokens(value, 0.0)


# --- dates


NOW = datetime(2026, 11, 15, 13, 30, tzinfo=UTC).timestamp()  # a Sunday


def test_dates_by_hand():
    assert tokens(Date(), "2026-11-15", NOW) == {"age 0": 1.0, "weekday 6": 1.0}
    assert tokens(Date(), "1970-01-01", 0.0) == {"age 0": 1.0, "weekday 3": 1.0}  # a Thursday
    assert tokens(Date(), "1969-12-31", 0.0)["weekday 2"] == 1.0
    one_day = dict(zip((f"age {knot}" for knot in _tents(1.0)[0]), _tents(1.0)[1]))
    assert tokens(Date(), "2026-11-14", NOW) == one_day | {"weekday 5": 1.0}
    week = _tents(7.0)
    assert list(tokens(Date(), "2026-11-08", NOW)) == [*(f"age {knot}" for knot in week[0]), "weekday 6"]
    assert "age -2" in tokens(Date(), "2026-11-16", NOW), "what is to come has an age below 0"


def test_dates_are_days_of_utc():
    """The age is a difference of days, so that nothing changes between two midnights."""
    midnight = NOW - NOW % DAY_SECONDS
    for at in (midnight, midnight + 1, midnight + DAY_SECONDS - 1):
        for value in ("2026-11-14", "2026-11-14T23:59:59", datetime(2026, 11, 14, 23), midnight - 1.0):
            assert tokens(Date(), value, at) == tokens(Date(), "2026-11-14", NOW)
    assert tokens(Date(), "2026-11-14", midnight - 1) != tokens(Date(), "2026-11-14", midnight)


def test_dates_that_are_equal():
    day = tokens(Date(), "2026-11-01", NOW)
    east = timezone(timedelta(hours=5))
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    for value in (
        date(2026, 11, 1),
        datetime(2026, 11, 1, 3),
        moment,
        moment.timestamp(),
        int(moment.timestamp()),
        np.float64(moment.timestamp()),
        np.datetime64("2026-11-01"),
        np.datetime64("2026-11-01T12:00:00.000000001"),
        datetime(2026, 11, 2, 4, 59, tzinfo=east),
        " 2026-11-01T00:00:00+00:00 ",
    ):
        assert tokens(Date(), value, NOW) == day, value
    assert tokens(Date(), datetime(2026, 11, 2, 5, tzinfo=east), NOW) != day
    assert tokens(Date(), "", NOW) == tokens(Date(), " ", NOW) == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("yesterday", "must be a date, as in"),
        ("2026-13-01", "must be a date, as in"),
        ("\ud800", "must be a date"),
        ([2026], "must be a date"),
        (1j, "must be a date"),
        (np.datetime64("NaT"), "must be a date"),
        (np.timedelta64(1, "D"), "must be a date"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (1.7e15, "milliseconds"),
        (10**400, "beyond 1e308"),
        (TOO_LONG, "beyond 1e308"),
    ],
    **NAMES,
)
def test_what_is_no_date(value, message):
    with pytest.raises(InvalidInput, match=message):
        Date().tokens(value, NOW)


# --- vectors


def test_vectors():
    kind = Vector(size=3)
    assert list(kind.tokens([1, 2, 3], 0.0)[0]) == []
    for value in ([1, -2, 300], (1.0, -2.0, 300.0), np.array([1, -2, 300], np.int16), [True, -2, 300]):
        assert list(kind.numbers(value)) == [1.0, -2.0, MAX_COMPONENT]
    packed = base64.b64encode(np.array([1.0, -0.1, 1e30], "<f4").tobytes()).decode()
    assert list(kind.numbers(packed)) == [1.0, float(np.float32(-0.1)), MAX_COMPONENT]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "must be 3 numbers, got 2"),
        ([], "must be 3 numbers, got 0"),
        ([[1, 2, 3]], "must be 3 numbers, got 1 × 3"),
        (5, "must be 3 numbers, got one"),
        ([1, 2, math.nan], "finite"),
        ([1, 2, math.inf], "finite"),
        (["1", "2", "3"], "must be numbers"),
        ([1, 2, "3"], "must be numbers"),
        ([1, 2, None], "must be numbers"),
        ([1, 2, 3j], "must be numbers"),
        ([1, [2], 3], "must be numbers"),
        ([TOO_LONG, 1, 1], "must be numbers"),
        ({"a": 1}, "must be numbers"),
        ({1, 2, 3}, "must be numbers"),
        (np.zeros(3, "datetime64[D]"), "must be numbers"),
        ("", "must be 3 numbers, got 0"),
        ("AAAA", "base64"),
        ("not base64!", "base64"),
        ("\ud800", "base64"),
        (base64.b64encode(np.full(3, np.nan, "<f4").tobytes()).decode(), "finite"),
    ],
    **NAMES,
)
def test_what_is_no_vector(value, message):
    with pytest.raises(InvalidInput, match=message):
        Vector(size=3).numbers(value)


@pytest.mark.parametrize("size", [0, -1, 4097])
def test_sizes_of_vectors(size):
    with pytest.raises(InvalidInput, match="size"):
        Vector(size=size)


@pytest.mark.parametrize("entry", entries("field"), ids=lambda entry: entry.kind)
def test_every_kind_is_built_from_its_spec(entry):
    for example in getattr(entry.cls, "examples", ({},)):
        kind = entry.cls(**example)
        assert build(spec_of(kind), "field") == kind
        assert kind.size >= 0
        assert kind.memory in (True, False)
        assert kind.stamped in (True, False)
