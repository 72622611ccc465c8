"""The kinds of fields: what a value of each may be, and which columns and numbers it becomes."""

import base64
import binascii
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

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec, category, register
from rankloop.features.words import STOP_WORDS, normal_form, words_of

MAX_TEXT = 1_000  # characters of a category or an id
MAX_LONG_TEXT = 100_000  # characters of a text of words
MAX_VALUES = 1_000  # categories in a list
MAX_DEVIATIONS = 10.0  # a declared number counts as at most so many deviations
MAX_COMPONENT = 100.0  # of a vector
MAX_VECTOR = 4_096
TENT = 0.5  # octaves between the knots of a number
DAY = 86_400.0
MAX_MOMENT = 1e12  # seconds before or after 1970
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
LN2 = 0.6931471805599453

REAL = (int, float, np.integer, np.floating, np.bool_)
SETS = (set, frozenset)
LISTS = (list, tuple, *SETS)

KeysAndValues = tuple[Sequence[Any], Sequence[float]]  # the field's columns, by a text or a number; the value in each
NOTHING: KeysAndValues = (), ()
ONE = (1.0,)


@runtime_checkable
class Field(Protocol):
    """A kind of field. A value becomes tokens, each of them a hashed column of its own; or numbers; or both.

    No tokens where there are no numbers say that the value is missing. `at` is when the ranking is made, in seconds
    since 1970.
    """

    def tokens(self, value: Any, at: float) -> KeysAndValues: ...
    def numbers(self, value: Any) -> Sequence[float]:
        """One for each of `size`."""


category("field", Field)


class HashedField:
    """A field that has no numbers of its own in the dense block."""

    size: ClassVar[int] = 0
    memory: ClassVar[bool] = False  # its columns, and those of its crosses, remember single things
    stamped: ClassVar[bool] = False  # its columns depend on when the ranking is made

    def numbers(self, value: Any) -> Sequence[float]:
        return ()


@register("category")
class Category(HashedField):
    """A text, or a number that names something: brand, colour, country. A list of them counts each, by 1 / √n."""

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, LISTS):
            if len(value) > MAX_VALUES:
                raise InvalidInput(f"a list of {len(value)} categories; at most {MAX_VALUES} are taken")
            names = [name for name in map(_name, value) if name]
            return _spread(sorted(names) if isinstance(value, SETS) else names)
        text = _name(value)
        return ((text,), ONE) if text else NOTHING


@register("id")
class Id(Category):
    """The name of a single thing that comes and goes: a product, a document, a visitor. It is remembered by itself.

    Of items the field takes the item's own id where a request does not give it.
    """

    memory: ClassVar[bool] = True


@register("words")
class WordsField(HashedField):
    """A text of words: title, description, query. Each different word counts, by 1 / √n; capitals do not matter.

    Words such as "the" are left out, unless `stop_words` is false. `bigrams` adds neighbouring words as pairs.
    """

    stop_words: bool = True
    bigrams: bool = False

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"stop_words": False, "bigrams": True})

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if not isinstance(value, str):
            raise InvalidInput(f"must be a text of words, got {told(value)}")
        _check_text(value, MAX_LONG_TEXT)
        words = words_of(value)
        if self.stop_words:
            words = [word for word in words if word not in STOP_WORDS]
        if self.bigrams:
            words += [f"{first} {second}" for first, second in pairwise(words)]
        return _spread(words)


@register("flag")
class Flag(HashedField):
    """True or false; 1, 0, "yes", "no", "true" and "false" will do."""

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, str):
            text = value.strip().lower()
            if not text:
                return NOTHING
            value = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}.get(text, value)
        if not _is_real(value) or value not in (0, 1):
            raise InvalidInput(f"must be true or false, got {told(value)}")
        return ("1" if value else "0",), ONE


@register("number")
class Number(HashedField):
    """A number of any size: price, age, count. Nothing has to be known about it.

    It is read on a logarithmic scale (asinh, so that 0 and negative numbers have their place), on which it lies between
    two knots, half an octave apart; each counts by its nearness. So the effect may rise, fall and turn.
    With `scale` "linear" or "log", or a `mean` or a `deviation`, it becomes one number: (x − mean) / deviation, of x or
    of the signed log(1 + |x|), at most 10 deviations from 0; its effect is then a straight line.
    """

    scale: Literal["linear", "log"] | None = None
    mean: float = 0.0
    deviation: float = 1.0

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"scale": "log", "mean": 2.0, "deviation": 0.5}, {"mean": 50.0})

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not 0 < self.deviation < math.inf:
            raise InvalidInput(
                f"mean = {self.mean} and deviation = {self.deviation} must be finite, the latter above 0"
            )

    @cached_property
    def declared(self) -> bool:
        return self.scale is not None or self.mean != 0.0 or self.deviation != 1.0

    @property
    def size(self) -> int:  # type: ignore[override]  # one number where it is declared
        return int(self.declared)

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        number = _finite(value)
        return (("",), (self._scaled(number),)) if self.declared else tents(number)

    def numbers(self, value: Any) -> Sequence[float]:
        return (self._scaled(_finite(value)),) if self.declared else ()

    def _scaled(self, number: float) -> float:
        if self.scale == "log":
            number = math.copysign(octaves(abs(number)), number) * LN2
        return max(-MAX_DEVIATIONS, min(MAX_DEVIATIONS, (number - self.mean) / self.deviation))


@register("date")
class Date(HashedField):
    """A day or a moment: "2026-11-15", a date, or seconds since 1970. Its age in days counts, and its weekday."""

    stamped: ClassVar[bool] = True

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        if isinstance(value, str) and not value.strip():
            return NOTHING
        moment = moment_of(value)
        day = math.floor(moment / DAY)
        age, weekday = math.floor(at / DAY) - day, (day + 3) % 7  # 1970 began on a Thursday
        knots, nearness = tents(float(age))
        return [*(f"age {knot}" for knot in knots), f"weekday {weekday}"], [*nearness, 1.0]


@register("vector")
class Vector(HashedField):
    """So many numbers that somebody else made: an embedding. A list, or the base64 of float32, little end first.

    They are taken as they are, at most 100 each way; all of them missing count as 0. There are no crosses with it.
    """

    size: int = field()  # type: ignore[misc]  # here a parameter, without a default

    examples: ClassVar[tuple[Spec, ...]] = ({"size": 3},)

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_VECTOR:
            raise InvalidInput(f"size = {self.size} must be from 1 to {MAX_VECTOR}")

    def tokens(self, value: Any, at: float) -> KeysAndValues:
        return NOTHING

    def numbers(self, value: Any) -> Sequence[float]:
        vector = _decoded(value) if isinstance(value, str) else _floats(value)
        if vector.shape != (self.size,):
            raise InvalidInput(f"must be {self.size} numbers, got {' × '.join(map(str, vector.shape)) or 'one'}")
        if not np.isfinite(vector).all():
            raise InvalidInput("every number must be finite")
        return vector.clip(-MAX_COMPONENT, MAX_COMPONENT)  # type: ignore[no-any-return]


def octaves(number: float) -> float:
    """log₂(1 + x) for x ≥ 0, drawn with a straight line from each power of 2 to the next: the same bits everywhere.

    Exact arithmetic only: a library's logarithm differs in its last bits from machine to machine.
    """
    return _line_log(1.0 + number)


def tents(number: float) -> KeysAndValues:
    """The knots on both sides of a number, on the scale of asinh, and how near it is to each."""
    size = abs(number)
    reach = _line_log(size + math.sqrt(size * size + 1.0)) if size < 1e8 else _line_log(size, doublings=1)
    steps = math.copysign(reach, number) / TENT
    knot = math.floor(steps)
    near = steps - knot
    return ((knot, knot + 1), (1.0 - near, near)) if near else ((knot,), ONE)


def knot_value(knot: int) -> float:
    """The number that lies on a knot: the inverse of `tents`."""
    reach = abs(knot) * TENT
    whole = math.floor(reach)
    if whole > sys.float_info.max_exp:  # half an octave beyond the largest number, which this knot is for
        return math.copysign(sys.float_info.max, knot)
    half = math.ldexp(reach - whole + 1.0, whole - 1)
    return math.copysign(half - 0.25 / half, knot)


def _line_log(number: float, doublings: int = 0) -> float:
    """That of number · 2^doublings, which need not be one that can be written down."""
    mantissa, exponent = math.frexp(number)  # number = mantissa · 2^exponent, mantissa from ½ to 1
    return exponent + doublings + 2.0 * mantissa - 2.0


def _spread(texts: list[str]) -> KeysAndValues:
    """Each different one alike, the sum of squares being 1."""
    different = list(dict.fromkeys(texts))
    return (different, [1.0 / math.sqrt(len(different))] * len(different)) if different else NOTHING


def _name(value: Any) -> str:
    """A category as text: 1, 1.0, "1" and true are the same."""
    if isinstance(value, str):  # the most frequent case
        _check_text(value, MAX_TEXT)
        return normal_form(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return ""
    if not isinstance(value, (int, float)):
        raise InvalidInput(f"must be a text or a number, or a list of them, got {told(value)}")
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
        raise InvalidInput(f"must be a number, got {told(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInput("a number beyond 1e308") from None
    if not math.isfinite(number):
        raise InvalidInput(f"must be a finite number, got {number}")
    return number


def _is_real(value: Any) -> bool:
    """Whether this is one real number; true and false are 1 and 0."""
    return isinstance(value, REAL) and not isinstance(value, np.timedelta64)


def _check_text(text: str, limit: int) -> None:
    if len(text) > limit:
        raise InvalidInput(f"a text of {len(text)} characters; at most {limit} are taken")
    if not text.isascii() and HALF_CHARACTER.search(text):
        raise InvalidInput(f"{text!r:.60} has an unpaired surrogate; give valid Unicode text")


def told(value: Any) -> str:
    """A value in a message; some numbers are too long to be written."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"a {type(value).__name__} too long to be told"


def moment_of(value: Any) -> float:
    """Seconds since 1970; what has no time zone is in UTC."""
    given = value
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
        raise InvalidInput(f'must be a date, as in "2026-11-15", or seconds since 1970, got {told(given)}')
    moment = _finite(value)
    if abs(moment) > MAX_MOMENT:
        raise InvalidInput(f"{moment} seconds since 1970 is no date (are these milliseconds?)")
    return moment


def _decoded(text: str) -> Any:
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float64)
    except (ValueError, binascii.Error):
        raise InvalidInput("must be numbers, or the base64 of float32 numbers") from None


def _floats(value: Any) -> Any:
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths
        given = np.empty(0, object)
    if given.dtype.kind not in "biuf":
        raise InvalidInput(f"must be numbers, got {told(value)}")
    return given.astype(np.float64)
