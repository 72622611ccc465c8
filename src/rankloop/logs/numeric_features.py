"""The columns of a log of lists that are features in plain numbers, for learners without a schema."""

from collections.abc import Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats
from rankloop.logs.columns import NO_FEATURES, learned_from, numbers_in
from rankloop.logs.context import NumberColumn, are_times
from rankloop.logs.list_log import ListLog
from rankloop.logs.outcome_columns import outcomes_of, outcomes_said

EMPTY_CELL_ADVICE = ", but features are numbers: fill it in, leave the column out (--without), or use a schema"


class NumericFeatures(NamedTuple):
    """A number for each row and feature, and which columns are not features."""

    values: Floats  # (n_rows, n_features)
    names: tuple[str, ...]  # empty where an export does not tell
    ids: tuple[str, ...] = ()  # columns that look like ids
    set_aside: tuple[str, ...] = ()  # columns named like a time, or like the click, the item … that another one is
    outcomes: Mapping[str, str] = MappingProxyType({})  # columns known only after the click, and what gave them away

    @property
    def described(self) -> str:
        """One line: which columns are features, and which are not."""
        unused = f"; left out as ids: {', '.join(self.ids)}" if self.ids else ""
        if self.set_aside:
            unused += f"; not features, by their names: {', '.join(self.set_aside)}"
        if self.outcomes:
            unused += f"; outcomes, so not features: {outcomes_said(self.outcomes)}"
        return f"features: {', '.join(self.names) or self.values.shape[1]}{unused}"


def numeric_features(log: ListLog, features: Sequence[str] = ()) -> NumericFeatures:
    """Return the columns of a log that are features as numbers; refuse other cells, with the ways out of it.

    Every column without a role is a feature, except times, whole numbers that look like ids, outcomes such as a
    purchase, and other usual names of the click, the item, the propensity …

    Args:
      log: The log; columns to be left alone are named when it is read.
      features: Columns that are features whatever they look like.
    """
    if log.export is not None:
        if log.export.features is None:
            text = "holds values by a schema, not numbers: a ranker with a schema can read them"
            raise InvalidInput(f"{log.name} {text}")
        return NumericFeatures(log.export.features, log.export.feature_names)
    columns, left_out, outcomes = _feature_columns(log, features)
    arrays = {name: log.table[name].to_numpy() for name in columns}
    texts = [name for name in columns if arrays[name].dtype.kind not in "biuf"]
    if texts:
        are = "is not a column of numbers" if len(texts) == 1 else "are not columns of numbers"
        times = [name for name in texts if arrays[name].dtype.kind == "M" or are_times(arrays[name].tolist())]
        ages = f", of a time ({', '.join(times)}) an age or an hour" if times else ""
        options = " ".join(f"--without {quote(name)}" for name in texts)
        listed = ", ".join(f'"{name}"' for name in texts)
        fault = f"{', '.join(texts)} {are}, but features must be numbers"
        as_numbers = f"write a 0/1 column for each value of a text{ages}"
        without = f"leave out what is no feature: {options} (in Python without=[{listed}])"
        with_schema = "learn from texts as they are with a schema, which --guess-schema FILE writes"
        raise InvalidInput(f"{log.name}: {fault}: {as_numbers}, or {without}, or {with_schema}")
    looks = {name: NumberColumn(name) for name in columns if name not in features}
    for name, column in looks.items():
        column.add(np.asarray(arrays[name], dtype=np.float64))
    ids = tuple(name for name, column in looks.items() if column.is_id)
    used = tuple(name for name in columns if name not in ids)
    if not used:
        raise InvalidInput(f"{log.name} has no column of features; it has {', '.join(log.values)}")
    values = [np.asarray(arrays[name], dtype=np.float64) for name in used]
    for name, numbers in zip(used, values):
        if not np.isfinite(numbers).all():
            numbers_in(arrays[name].tolist(), name, log.name, "a finite number", EMPTY_CELL_ADVICE)
    set_aside = tuple(name for name in left_out if name not in features)
    return NumericFeatures(np.ascontiguousarray(np.column_stack(values)), used, ids, set_aside, outcomes)


def other_than_numbers(log: ListLog, features: Sequence[str] = ()) -> list[str]:
    """Return the feature columns of a table for which a schema is needed: those with texts, dates or gaps.

    Where no column differs inside a list, plain numbers could not order a list: then these are the query and the item.

    Args:
      log: The log.
      features: Columns that are features whatever they look like.
    """
    if log.export is not None:
        return []
    arrays = {name: log.table[name].to_numpy() for name in _feature_columns(log, features)[0]}
    others = [name for name, cells in arrays.items() if cells.dtype.kind not in "biuf" or not np.isfinite(cells).all()]
    if others or not log.columns.item or not all(map(log.same_in_lists, arrays)):
        return others
    return [name for name in (log.columns.query, log.columns.item) if name]


def _feature_columns(log: ListLog, features: Sequence[str]) -> tuple[list[str], tuple[str, ...], dict[str, str]]:
    """Return the columns that may be features, those left out by their names, and outcomes with what gave them away."""
    unknown = next((name for name in features if name not in log.values), None)
    if unknown is not None:
        raise InvalidInput(f"{log.name} has no column {unknown!r}{nearest(unknown, log.values)}")
    columns, table = log.columns, log.table
    usable = {*columns.others, *columns.left_out, columns.time, columns.propensity}
    names, left_out = learned_from([name for name in table.column_names if name in usable], (), NO_FEATURES)
    cells = {name: table[name].to_pylist() for name in names if name not in features}
    outcomes = outcomes_of(cells, log.clicked, (columns.purchase, columns.revenue))
    return [name for name in dict.fromkeys([*names, *features]) if name not in outcomes], left_out, outcomes
