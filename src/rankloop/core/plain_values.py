"""Serialisation: NamedTuples of arrays and numbers to dicts, lists and numbers that JSON can carry, and back."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import entry_of
from rankloop.core.types import Decision
from rankloop.core.weight_table import WeightTable

ENTRY_TYPES: dict[str, set[type]] = {"f": {float, int}, "i": {int}, "u": {int}, "b": {bool}}
INT64 = np.dtype(np.int64)
NOT_FINITE = "{} holds a number that is not finite"
SCORES_NOT_FINITE = (
    "the scores of these items are not finite: a feature is too large for the weights; scale it, or wrap the "
    "learner with standardised"
)


def to_plain(value: Any) -> Any:
    """Return a value as dicts, lists and numbers for JSON; raise `InvalidInput` for numbers that are not finite."""
    if type(value) is float:
        if not math.isfinite(value):
            raise InvalidInput(NOT_FINITE.format("value"))
        return value
    if type(value) is int:
        return value
    if hasattr(value, "_fields"):
        return {name: to_plain(part) for name, part in zip(value._fields, value)}
    if isinstance(value, np.ndarray):
        _require_finite(value)
        return value.tolist() if value.ndim == 1 else {"shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    if isinstance(value, WeightTable):
        return value.digest()  # tells tables apart; their contents are in files only
    return to_plain(value.item()) if isinstance(value, np.generic) else value


def from_plain(plain: Any, annotation: Any, where: str = "value") -> Any:
    """Return the value that `to_plain` wrote.

    Args:
      plain: Dicts, lists and numbers.
      annotation: The type of the value.
      where: The name of the value, for error messages.
    """
    return _reader(annotation)(plain, where)


@functools.cache
def _reader(annotation: Any) -> Callable[[Any, str], Any]:
    """Return the function that reads values of a type; cached, because every event of a log has some."""
    origin = get_origin(annotation) or annotation
    if origin is np.ndarray:
        dtype = np.dtype(get_args(get_args(annotation)[1])[0])
        return lambda plain, where: _array(plain, dtype, where)
    arguments = get_args(annotation)
    if hasattr(origin, "_fields"):
        parameters, hints = dict(zip(getattr(origin, "__parameters__", ()), arguments)), get_type_hints(origin)
        parts = [(name, f".{name}", _reader(parameters.get(hints[name], hints[name]))) for name in origin._fields]

        def read_fields(plain: Any, where: str) -> Any:
            if not isinstance(plain, Mapping) or plain.keys() != hints.keys():
                raise InvalidInput(f"{where} must be an object with {', '.join(origin._fields)}")
            return origin._make(read_part(plain[name], where + part) for name, part, read_part in parts)

        return read_fields
    if origin is tuple:

        def read_tuple(plain: Any, where: str) -> Any:
            if not isinstance(plain, list):
                raise InvalidInput(f"{where} must be a list, got {plain!r:.60}")
            types = arguments[:1] * len(plain) if len(arguments) == 2 and arguments[1] is Ellipsis else arguments
            if len(types) != len(plain):
                raise InvalidInput(f"{where} must have {len(types)} parts, got {len(plain)}")
            return tuple(_reader(part_type)(part, where) for part, part_type in zip(plain, types))

        return read_tuple

    def read_scalar(plain: Any, where: str) -> Any:
        value = float(plain) if type(plain) is int and annotation is float else plain
        if type(value) is not annotation:
            name = getattr(annotation, "__name__", annotation)
            raise InvalidInput(f"{where} must be of type {name}, got {plain!r:.60}")
        if annotation is float and not math.isfinite(value):
            raise InvalidInput(NOT_FINITE.format(where))
        return value

    return read_scalar


def decision_to_plain(decision: Decision[Any]) -> dict[str, Any]:
    """Return a decision for JSON; an unknown propensity is null."""
    propensity = float(decision.log_propensity) if math.isfinite(decision.log_propensity) else None
    try:
        receipt = to_plain(decision.receipt)
    except InvalidInput:
        raise InvalidInput(SCORES_NOT_FINITE) from None
    return {"ranking": decision.ranking.tolist(), "log_propensity": propensity, "receipt": receipt}


def check_finite_receipt(receipt: Any) -> None:
    """Raise `InvalidInput` if a receipt has a number that is not finite, which a log could not hold."""
    for part in receipt:
        if isinstance(part, tuple):
            check_finite_receipt(part)
        elif isinstance(part, float | np.ndarray) and not np.all(np.isfinite(part)):
            raise InvalidInput(SCORES_NOT_FINITE)


def decision_from_plain(plain: Mapping[str, Any]) -> Decision[Any]:
    """Return the decision that `decision_to_plain` wrote; its receipt stays plain, see `with_receipt`."""
    try:
        ranking, propensity, receipt = plain["ranking"], plain["log_propensity"], plain["receipt"]
    except (KeyError, TypeError):
        raise InvalidInput("a decision must have ranking, log_propensity and receipt") from None
    propensity = math.nan if propensity is None else from_plain(propensity, float, "log_propensity")
    return Decision(_array(ranking, INT64, "ranking"), propensity, receipt)


def with_receipt(decision: Decision[Any], learner: Any) -> Decision[Any]:
    """Return a decision whose plain receipt is replaced by the learner's type; other receipts stay.

    Args:
      decision: The decision.
      learner: The learner that made it.
    """
    if isinstance(decision.receipt, tuple):
        return decision
    return decision._replace(receipt=from_plain(decision.receipt, receipt_type(learner), "receipt"))


def receipt_type(learner: Any) -> Any:
    """Return the type of a learner's receipts, X of `rank(...) -> Decision[X]`; a wrapper may use its inner's."""
    annotation, has_inner = _annotated_receipt(type(learner))  # type: ignore[arg-type]  # classes are hashable
    if not has_inner:
        return annotation
    inner = receipt_type(learner.inner)
    return inner if isinstance(annotation, TypeVar) else get_origin(annotation)[inner]


@functools.cache
def _annotated_receipt(cls: type) -> tuple[Any, bool]:
    """Return the X of `rank(...) -> Decision[X]`, and whether it contains that of the inner learner."""
    try:
        arguments = get_args(get_type_hints(cls.rank).get("return"))  # type: ignore[attr-defined]
    except NameError as error:  # a type that is imported for type checkers only
        raise InvalidInput(f"the annotations of {cls.__name__}.rank cannot be resolved: {error}") from None
    if len(arguments) != 1 or arguments[0] is Any:
        raise InvalidInput(f"{cls.__name__}.rank needs a return annotation, as in `-> Decision[tuple[()]]`")
    parts = (arguments[0], *get_args(arguments[0]))
    return arguments[0], any(isinstance(part, TypeVar) for part in parts)


def check_learns_from_other_pages(learner: Any) -> None:
    """Raise `InvalidInput` for a learner with receipts, which pages that another system ordered lack."""
    if receipt_type(learner) == tuple[()]:
        return
    while hasattr(learner, "inner"):
        learner = learner.inner
    others = "use click_regression, or online_gradient for grades"
    raise InvalidInput(f"{entry_of(learner).kind} learns from its own exploration, which other pages lack: {others}")


def _array(plain: Any, dtype: Any, where: str) -> Any:
    shape, values = None, plain
    if type(plain) is not list and isinstance(plain, Mapping):
        shape, values = plain.get("shape"), plain.get("values")
    if not isinstance(values, list) or not ENTRY_TYPES[dtype.kind].issuperset(map(type, values)):
        raise InvalidInput(f"{where} must be a list of {dtype.name} numbers")
    try:
        array = np.array(values, dtype=dtype)
        array = array if shape is None else array.reshape(shape)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{where}: {error}") from None
    _require_finite(array, where)
    return array


def _require_finite(array: Any, where: str = "value") -> None:
    if array.dtype.kind == "f" and 0 in np.isfinite(array).tobytes():  # quicker than `all` for short arrays
        raise InvalidInput(NOT_FINITE.format(where))
