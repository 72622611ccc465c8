"""Logs of single choices: tables with an action, a reward and its propensity in each row, read piece by piece."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, real_numbers
from rankloop.logs.columns import CLICK, ChoiceColumns, Mask
from rankloop.logs.table_reader import Fault, Given, TableReader

ABOVE_ZERO = "what was shown had a probability above 0 and at most 1"


class ChoiceRows(NamedTuple):
    """One entry per logged decision."""

    reward: Floats
    propensity: Floats  # the probability with which the logging policy showed it
    target: Floats  # the probability with which the target policy would
    predicted: Floats | None = None  # a reward model's value of what was shown
    expected: Floats | None = None  # the model's value of the target policy: Σ_a target(a) · predicted(a)


def rows_of(
    reward: ArrayLike,
    propensity: ArrayLike,
    target: ArrayLike,
    predicted: ArrayLike | None = None,
    expected: ArrayLike | None = None,
    *,
    first_row: int = 0,
    where: str = "",
    ndim: int = 1,
) -> ChoiceRows:
    """Check and copy the columns of a log of single choices; an error names its row.

    Args:
      reward: The reward of each row.
      propensity: The probability with which the logging policy showed what was shown.
      target: The probability with which the target policy would show it.
      predicted: The reward model's prediction for what was shown.
      expected: The reward model's mean under the target policy.
      first_row: The number of the first row, for messages.
      where: The file, for messages.
      ndim: 1 for single choices; 2 for rankings, every entry being a row of numbers by position.
    """
    prefix = f"{where}, " if where else ""
    named_cells = zip(ChoiceRows._fields, (reward, propensity, target, predicted, expected))
    columns = {name: real_numbers(cells, f"{prefix}{name}") for name, cells in named_cells if cells is not None}
    if not {"reward", "propensity", "target"} <= columns.keys():
        raise InvalidInput(f"{prefix}propensity and target are needed, one for each reward")
    shape, logged, targeted = columns["reward"].shape, columns["propensity"], columns["target"]
    for name, values in columns.items():
        if values.ndim != ndim:
            raise InvalidInput(f"{prefix}{name} must have {ndim} dimension(s), got shape {values.shape}")
        if values.shape != shape:
            raise InvalidInput(f"{prefix}{name} has shape {values.shape}, reward has {shape}")

    def refuse(bad: Mask, values: Floats, fault: str) -> None:
        if bad.any():
            index = tuple(np.argwhere(bad)[0].tolist())
            raise InvalidInput(f"{prefix}row {index[0] + first_row}: the {fault.format(values[index])}")

    refuse(~np.isfinite(logged), logged, "propensity is missing")
    refuse((logged <= 0) | (logged > 1), logged, f"propensity is {{}}; {ABOVE_ZERO}")
    refuse(~((targeted >= 0) & (targeted <= 1 + 1e-9)), targeted, "target is {}; it must be a probability from 0 to 1")
    for name in ("reward", *list(columns)[3:]):
        refuse(~np.isfinite(columns[name]), columns[name], f"{name} is {{}}; it must be finite")
    return ChoiceRows(**columns)


class LogPiece(NamedTuple):
    """Consecutive rows; `first_row` counts from 1, below the header."""

    first_row: int
    action: np.ndarray[tuple[int], np.dtype[np.object_]]  # labels, as text
    reward: Floats
    propensity: Floats  # nan where missing
    target: Floats | None
    position: np.ndarray[tuple[int], np.dtype[np.object_]] | None
    context: Mapping[str, Any]  # numbers or texts by column


class ChoiceLog:
    """A table that can be read again and again, a piece at a time: a file of any format (see `TableReader`) or a frame.

    Columns that are not named are recognised by usual names, among them those of the Open Bandit Dataset (item_id,
    click, propensity_score, position); every other column is context, except an unnamed one, time stamps, and those
    with another usual name of the click, the ad, the propensity … (`columns.left_out`).
    """

    def __init__(self, path: Given, **named: str) -> None:
        self.source = TableReader(path)
        self.name, self.names = self.source.name, self.source.names
        self.columns = ChoiceColumns.of(self.names, named, self.name)

    def pieces(self) -> Iterator[LogPiece]:
        """From the first row to the last."""
        columns, first = self.columns, 1
        for table in self._tables([name for name in (*columns[:5], *columns.context) if name]):
            if table.num_rows:
                yield LogPiece(
                    first,
                    _texts(table[columns.action]),
                    self._numbers(table, columns.reward, first),
                    self._numbers(table, columns.propensity, first),
                    self._numbers(table, columns.target, first) if columns.target else None,
                    _texts(table[columns.position]) if columns.position else None,
                    {name: _context(table[name]) for name in columns.context},
                )
                first += table.num_rows

    def rows(self) -> Iterator[ChoiceRows]:
        """Rows for `estimate`, where the table itself tells the target policy's probability of what was shown."""
        reward, propensity, target = self.columns[1:4]
        if not target:
            raise InvalidInput(f"{self.name} has no column with the target policy's probabilities: name it target=")
        first = 1
        for table in self._tables([reward, propensity, target]):
            numbers = [self._numbers(table, name, first) for name in (reward, propensity, target)]
            yield rows_of(numbers[0], numbers[1], numbers[2], first_row=first, where=self.name)
            first += table.num_rows

    def _numbers(self, table: Any, name: str, first: int) -> Floats:
        try:
            return np.array(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)
        except (TypeError, ValueError) as error:
            fault = min(self.source.text_faults([table], [name], first), default=None)
            message = self._message(fault) if fault else f"{self.name}, from row {first}: {name}: {error}"
            raise InvalidInput(message) from None

    def _message(self, fault: Fault) -> str:
        right = CLICK if fault.column == self.columns.reward else "a number"
        return f"{self.name}, row {fault.row}: {fault.column} is {fault.value!r}; it must be {right}"

    def _tables(self, chosen_columns: list[str]) -> Iterator[Any]:
        texts = [name for name in (self.columns.action, self.columns.position) if name]
        numbers = [name for name in self.columns[1:4] if name and name in chosen_columns]
        try:
            yield from self.source.batches(chosen_columns, numbers, texts)
        except InvalidInput:
            faults = self.source.texts_in(numbers)
            if not faults:
                raise
            raise InvalidInput(self._message(min(faults))) from None


def _texts(column: Any) -> Any:
    return np.asarray(column.cast(import_extra("pyarrow").string()).to_numpy(zero_copy_only=False), dtype=object)


def _context(column: Any) -> Any:
    pa = import_extra("pyarrow")
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    return _texts(column)
