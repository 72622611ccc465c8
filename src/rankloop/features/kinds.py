"""The kinds of fields: the values that each accepts, and the hashed columns and numbers that they become."""

import base64
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from rankloop.core.checks import Positive, check_between
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec, category, register
from rankloop.features.words import STOP_WORDS, normal_form, words_of

MAX_TEXT = 1_000  # characters of a category or an id
MAX_LONG_TEXT = 100_000  # characters of a text of words
MAX_VALUES = 1_000  # categories in a list
MAX_DEVIATIONS = 10.0  # a scaled number is clipped to this many deviations
MAX_COMPONENT = 100.0  # of a vector
MAX_VECTOR = 4_096
KNOT_OCTAVES = 0.5  # between neighbouring knots of a number
DAY_SECONDS = 86_400.0
MAX_MOMENT = 1e12  # seconds from 1970
FLAG_NUMBERS = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}
UNPAIRED_SURROGATE = re.compile("[\ud800-\udfff]")
LN2 = 0.6931471805599453

REAL_TYPES = (int, float, np.integer, np.floating, np.bool_)
SET_TYPES = (set, frozenset)
LIST_TYPES = (list, tuple, *SET_TYPES)

KeysAndValues = tuple[Sequence[Any], Sequence[float]]  # the keys of a field's columns, and the value in each
NO_TOKENS: KeysAndValues = (), ()
UNIT_VALUE = (1.0,)


@runtime_checkable
class Field(Protocol):
    """A kind of field: a value becomes tokens, one hashed column each, or numbers of the dense block, or both."""

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        """Return the tokens of a value for a ranking at a time; none, and no numbers: the value is missing."""

    def numbers(self, value: Any) -> Sequence[float]:
        """Return `size` numbers; raise `InvalidInput` if the value is not of this kind."""


category("field", Field)


class HashedField:
    """The base class of kinds without numbers in the dense block."""

    size: ClassVar[int] = 0
    memory: ClassVar[bool] = False  # its columns and crosses are in the memory half of the weight table
    stamped: ClassVar[bool] = False  # its columns depend on the time of the ranking

    def numbers(self, value: Any) -> Sequence[float]:
        return ()


@register("category")
class Category(HashedField):
    """A text or a number that names something: brand, colour, country. Each of a list of n has the value 1 / √n."""

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, LIST_TYPES):
            if len(value) > MAX_VALUES:
                raise InvalidInput(f"a list of {len(value)} categories; at most {MAX_VALUES} are allowed")
            names = [name for name in map(_name, value) if name]
            return _spread(sorted(names) if isinstance(value, SET_TYPES) else names)
        text = _name(value)
        return ((text,), UNIT_VALUE) if text else NO_TOKENS


@register("id")
class Id(Category):
    """The id of a single product, document or user, whose columns are in the memory half of the weight table.

    An item without a value has its item id.
    """

    memory: ClassVar[bool] = True


@register("words")
class WordsField(HashedField):
    """A text of words: title, description, query. Each of n different words, in lower case, has the value 1 / √n.

    Args:
      stop_words: Leave out frequent words such as "the".
      bigrams: Add pairs of neighbouring words.
    """

    stop_words: bool = True
    bigrams: bool = False

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"stop_words": False, "bigrams": True})

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if not isinstance(value, str):
            raise InvalidInput(f"must be a text of words, got {short_text(value)}")
        _check_text(value, MAX_LONG_TEXT)
        words = words_of(value)
        if self.stop_words:
            words = [word for word in words if word not in STOP_WORDS]
        if self.bigrams:
            words += [f"{first} {second}" for first, second in pairwise(words)]
        return _spread(words)


@register("flag")
class Flag(HashedField):
    """True or false, also as 1, 0, "yes", "no", "true" and "false"."""

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, str):
            text = value.strip().lower()
            if not text:
                return NO_TOKENS
            value = FLAG_NUMBERS.get(text, value)
        if not _is_real(value) or value not in (0, 1):
            raise InvalidInput(f"must be true or false, got {short_text(value)}")
        return ("1" if value else "0",), UNIT_VALUE


@register("number")
class Number(HashedField):
    """A number of any size: price, age, count.

    By default the number lies between two knots of a logarithmic scale (asinh), half an octave apart, and has a value
    for each by its distance. So its effect may rise and fall. With a scale, mean or deviation it becomes one number,
    (x − mean) / deviation, clipped to 10 deviations, and its effect is linear.

    Args:
      scale: `linear`, or `log` for the signed log(1 + |x|).
      mean: Of the scaled number.
      deviation: Its standard deviation.
    """

    scale: Literal["linear", "log"] | None = None
    mean: float = 0.0
    deviation: float = 1.0

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"scale": "log", "mean": 2.0, "deviation": 0.5}, {"mean": 50.0})

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not 0 < self.deviation < math.inf:
            numbers = f"mean = {self.mean} and deviation = {self.deviation}"
            raise InvalidInput(f"{numbers} must be finite, the latter above 0")

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        """1 where a scale, mean or deviation is declared."""
        return int(self.scale is not None or self.mean != 0.0 or self.deviation != 1.0)

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        return (("",), self.numbers(value)) if self.size else _tents(_finite(value))

    def numbers(self, value: Any) -> Sequence[float]:
        number = _finite(value)
        if not self.size:
            return ()
        if self.scale == "log":
            number = math.copysign(_line_log(1.0 + abs(number)), number) * LN2
        return (max(-MAX_DEVIATIONS, min(MAX_DEVIATIONS, (number - self.mean) / self.deviation)),)


@register("date")
class Date(HashedField):
    """A date or time: "2026-11-15", a date, or seconds since 1970. It becomes its age in days and its weekday."""

    stamped: ClassVar[bool] = True

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, str) and not value.strip():
            return NO_TOKENS
        day = math.floor(moment_of(value) / DAY_SECONDS)
        age, weekday = math.floor(at / DAY_SECONDS) - day, (day + 3) % 7  # 1970 began on a Thursday
        knots, nearness = _tents(float(age))
        return [*(f"age {knot}" for knot in knots), f"weekday {weekday}"], [*nearness, 1.0]


@register("vector")
class Vector(HashedField):
    """An embedding: a list of numbers, or the base64 of little-endian float32 numbers.

    Components are clipped to ±100; a missing vector counts as 0. It cannot be crossed.

    Args:
      size: The number of components.
    """

    size: int = field()  # type: ignore[misc]  # here a parameter, without a default

    examples: ClassVar[tuple[Spec, ...]] = ({"size": 3},)

    def __post_init__(self) -> None:
        check_between(1, MAX_VECTOR, size=self.size)

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        return NO_TOKENS

    def numbers(self, value: Any) -> Sequence[float]:
        try:
            is_text = isinstance(value, str)
            vector = np.frombuffer(base64.b64decode(value, validate=True), "<f4") if is_text else np.asarray(value)
        except (TypeError, ValueError):  # no base64, or rows of different lengths
            vector = np.empty(0, object)
        if vector.dtype.kind not in "biuf":
            raise InvalidInput(f"must be numbers, or the base64 of float32 numbers, got {short_text(value)}")
        vector = vector.astype(np.float64)
        if vector.shape != (self.size,):
            raise InvalidInput(f"must be {self.size} numbers, got {' × '.join(map(str, vector.shape)) or 'one'}")
        if not np.isfinite(vector).all():
            raise InvalidInput("every number must be finite")
        return vector.clip(-MAX_COMPONENT, MAX_COMPONENT)  # type: ignore[return-value]


@register("counter")
class Counter(HashedField):
    """A decayed count that `Ranker` keeps itself: clicks, impressions or click rate of an item; nothing is given.

    A rate is log((c + m r) / ((n + m) r)) for c clicks in n impressions, r being the click rate of all pages and m
    `impressions`; counts are log(1 + count). A count halves every `half_life_days`. A value that is given is taken as
    it is. Only `Ranker` counts: in a service the value must be given, and counts as 0 where it is missing.

    Args:
      counts: rate, clicks or impressions.
      half_life_days: Of what was counted.
      by: The field that is counted by, such as brand; empty: the item id. With a context field, by it and the item id.
      impressions: The number of impressions that the general click rate counts for, in a rate.
    """

    counts: Literal["rate", "clicks", "impressions"] = "rate"
    half_life_days: Positive = 7.0
    by: str = ""
    impressions: Positive = 10.0

    size: ClassVar[int] = 1
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"counts": "clicks", "half_life_days": 0.5, "by": "brand"})

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        return ("",), tuple(self.numbers(value))

    def numbers(self, value: Any) -> Sequence[float]:
        return (max(-MAX_DEVIATIONS, min(MAX_DEVIATIONS, _finite(value))),)


def _tents(number: float) -> KeysAndValues:
    """Return the knots on both sides of a number on the asinh scale, and linear weights by its distance to each."""
    size = abs(number)
    octaves = _line_log(size + math.sqrt(size * size + 1.0)) if size < 1e8 else _line_log(size, doublings=1)
    steps = math.copysign(octaves, number) / KNOT_OCTAVES
    knot = math.floor(steps)
    upper_weight = steps - knot
    return ((knot, knot + 1), (1.0 - upper_weight, upper_weight)) if upper_weight else ((knot,), UNIT_VALUE)


def knot_value(knot: int) -> float:
    """Return the number at a knot, the inverse of `tents`."""
    reach = abs(knot) * KNOT_OCTAVES
    octave = math.floor(reach)
    if octave > sys.float_info.max_exp:  # half an octave beyond the largest number, which this knot is for
        return math.copysign(sys.float_info.max, knot)
    half = math.ldexp(reach - octave + 1.0, octave - 1)
    return math.copysign(half - 0.25 / half, knot)


def _line_log(number: float, doublings: int = 0) -> float:
    """Return the log₂ of number · 2^doublings, perhaps beyond the largest float, interpolated between powers of 2."""
    # It uses exact arithmetic, because the last bits of a library's logarithm differ between machines.
    mantissa, exponent = math.frexp(number)  # number = mantissa · 2^exponent, mantissa from ½ to 1
    return exponent + doublings + 2.0 * mantissa - 2.0


def _spread(texts: list[str]) -> KeysAndValues:
    """Return each different text with the same value, so that squares sum to 1."""
    tokens = list(dict.fromkeys(texts))
    return (tokens, [1.0 / math.sqrt(len(tokens))] * len(tokens)) if tokens else NO_TOKENS


def _name(value: Any) -> str:
    """Return a category as text; 1, 1.0, "1" and true are equal."""
    if isinstance(value, str):  # the most frequent case
        _check_text(value, MAX_TEXT)
        return normal_form(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return ""
    if not isinstance(value, (int, float)):
        raise InvalidInput(f"must be a text or a number, or a list of them, got {short_text(value)}")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"must be a text or a finite number, got {value}")
        if value != int(value):
            return repr(value)
    if abs(value) >= 10**MAX_TEXT:
        raise InvalidInput(f"a number of more than {MAX_TEXT} digits")
    return str(int(value))


def _finite(value: Any) -> float:
    if type(value) is not float and not _is_real(value):
        raise InvalidInput(f"must be a number, got {short_text(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInput("a number beyond 1e308") from None
    if not math.isfinite(number):
        raise InvalidInput(f"must be a finite number, got {number}")
    return number


def _is_real(value: Any) -> bool:
    """Return true for a real number; true and false are 1 and 0."""
    return isinstance(value, REAL_TYPES) and not isinstance(value, np.timedelta64)


def _check_text(text: str, limit: int) -> None:
    if len(text) > limit:
        raise InvalidInput(f"a text of {len(text)} characters; at most {limit} are allowed")
    if not text.isascii() and UNPAIRED_SURROGATE.search(text):
        raise InvalidInput(f"{text!r:.60} has an unpaired surrogate; give valid Unicode text")


def short_text(value: Any) -> str:
    """Return a value as a short text for error messages."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"a {type(value).__name__} too long to print"


def moment_of(value: Any) -> float:
    """Return a date or time in seconds since 1970, UTC where it has no time zone; raise `InvalidInput` for others."""
    original = value
    try:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        value = None
    if not _is_real(value):
        raise InvalidInput(f'must be a date, as in "2026-11-15", or seconds since 1970, got {short_text(original)}')
    moment = _finite(value)
    if abs(moment) > MAX_MOMENT:
        raise InvalidInput(f"{moment} seconds since 1970 is not a date (are these milliseconds?)")
    return moment
