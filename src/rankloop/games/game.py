"""A measure as a game: the loss of every ranking for every relevance, and the feedback of each."""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entry_of
from rankloop.core.types import Floats, Ints, whole_number
from rankloop.games.numbers import EQUALITY_TOLERANCE, common_integers, level_numbers

MAX_GRADES = 100
MAX_ENTRIES = 4_000_000  # of the loss matrix: 7 items with grades 0..1, 6 with 0..3, 5 with 0..4
RENAMINGS_CHECKED = 500  # pairs of ranking and relevance on which the measure itself is evaluated


@dataclass(frozen=True, kw_only=True)
class Game:
    """All `n_items`! rankings against all (max_grade + 1)^n_items relevances, judged by the measure.

    Rankings stand in the lexicographic order of their rank vectors (132: the first item first, the second item last),
    relevances in lexicographic order (000, 001, 010, …), as in the tables of Chaudhuri and Tewari (2015), "Online
    ranking with top-1 feedback". For small sets only: the matrix has n_items! · (max_grade + 1)^n_items entries.
    """

    measure: Measure
    n_items: int
    max_grade: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "measure", measure_for(self.measure, self.max_grade))
        require_items(self.n_items, self.max_grade)
        digits = (math.lgamma(self.n_items + 1) + self.n_items * math.log(self.max_grade + 1)) / math.log(10)
        if digits > math.log10(MAX_ENTRIES) + 1e-9:
            raise InvalidInput(
                f"{self.n_items} items with grades 0..{self.max_grade} need a loss matrix of 10^{digits:.1f} entries, "
                f"but at most {MAX_ENTRIES:,} fit: take fewer items, fewer grades, or a measure with a closed form"
            )

    @cached_property
    def ranks(self) -> Ints:
        """Position of each item, counted from 0, as (n_rankings, n_items); row 0 shows the items in their order."""
        return np.array(list(itertools.permutations(range(self.n_items))), dtype=np.int64)

    @cached_property
    def rankings(self) -> Ints:
        """Items of each ranking, best first, as (n_rankings, n_items)."""
        return np.argsort(self.ranks, axis=1)

    @cached_property
    def relevances(self) -> Ints:
        """Grades of the items, as (n_relevances, n_items)."""
        return np.array(list(itertools.product(range(self.max_grade + 1), repeat=self.n_items)), dtype=np.int64)

    @cached_property
    def in_shown_order(self) -> Floats:
        """Value of the ranking 0, 1, 2, … for every relevance; all other values follow by renumbering the items."""
        items = np.arange(self.n_items, dtype=np.int64)
        values = np.array([self.measure(items, row.astype(np.float64)) for row in self.relevances])
        if not np.isfinite(values).all():
            raise InvalidInput(
                "the measure is not finite for every relevance: analyse a measure that always returns a finite number"
            )
        return values

    @cached_property
    def shown_relevance(self) -> Ints:
        """Row of `relevances` that holds the grades in the order of the ranking, as (n_rankings, n_relevances)."""
        base = (self.max_grade + 1) ** np.arange(self.n_items - 1, -1, -1, dtype=np.int64)
        return np.asarray(np.einsum("rai,i->ar", self.relevances[:, self.rankings], base), dtype=np.int64)

    @cached_property
    def values(self) -> Floats:
        """Value of every ranking for every relevance, as (n_rankings, n_relevances)."""
        values = self.in_shown_order[self.shown_relevance]
        self._require_renaming(values)
        return values

    @cached_property
    def loss(self) -> Floats:
        """Loss matrix L: `values`, negated for measures where higher is better."""
        return -self.values if self.measure.higher_is_better else self.values

    def feedback(self, depth: int) -> Ints:
        """Return the feedback matrix H: the first `depth` grades, read as a number in base max_grade + 1."""
        require_depth(depth)
        base = (self.max_grade + 1) ** np.arange(min(depth, self.n_items) - 1, -1, -1, dtype=np.int64)
        revealed_grades = self.relevances[:, self.rankings[:, : min(depth, self.n_items)]]
        return np.asarray(np.einsum("rai,i->ar", revealed_grades, base), dtype=np.int64)

    @cached_property
    def integer_loss(self) -> Ints | None:
        """`loss` times a common denominator, as integers; None where the measure is not rational."""
        numbers = common_integers(self.in_shown_order)
        if numbers is None:
            return None
        return (-numbers if self.measure.higher_is_better else numbers)[self.shown_relevance]

    @cached_property
    def duplicates(self) -> Ints:
        """Class number of each ranking: rankings with equal loss rows have the same number, counted from 0."""
        rows = level_numbers(self.in_shown_order)[self.shown_relevance]
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[number.ravel()], dtype=np.int64)

    def action(self, ranking: Ints | list[int] | tuple[int, ...]) -> int:
        """Return the row of a ranking."""
        (row,) = np.flatnonzero((self.rankings == np.asarray(ranking)).all(axis=1))
        return int(row)

    def _require_renaming(self, values: Floats) -> None:
        """Raise `InvalidInput` if the measure depends on item numbers and not only on the grades in shown order."""
        pairs = np.linspace(0, values.size - 1, min(values.size, RENAMINGS_CHECKED)).astype(np.int64)
        actions, outcomes = np.unravel_index(pairs, values.shape)
        for action, outcome in zip(actions, outcomes):
            direct = self.measure(self.rankings[action].copy(), self.relevances[outcome].astype(np.float64))
            if abs(direct - values[action, outcome]) > EQUALITY_TOLERANCE * max(1.0, abs(direct)):
                raise InvalidInput(
                    f"the measure depends on item numbers: ranking {self.rankings[action].tolist()} of the grades "
                    f"{self.relevances[outcome].tolist()} gets {direct}, but {values[action, outcome]} after "
                    f"renumbering the items; analyse a measure that uses only the grades in shown order"
                )


def measure_for(measure: Any, max_grade: int = 1) -> Measure:
    """Build a measure as games use it.

    Args:
      measure: A measure, its name or its spec.
      max_grade: The end of the grade scale, for measures that have one.

    Returns:
      The measure with queries without relevant items counted as perfect.
    """
    built = build(measure, category="measure")
    fields = {field.name: field for field in dataclasses.fields(built)}
    changes: dict[str, Any] = {"empty": "one"} if "empty" in fields else {}
    if "max_grade" in fields and built.max_grade == fields["max_grade"].default:
        changes["max_grade"] = max_grade
    made: Measure = dataclasses.replace(built, **changes)
    return made


def name_of(measure: Measure) -> str:
    """Return the name of a measure, without its rule for queries without relevant items."""
    defaults = {"empty": "zero"} if hasattr(measure, "empty") else {}
    named = dataclasses.replace(measure, **defaults)  # type: ignore[type-var]
    return entry_of(named).kind if type(named).__str__ is object.__str__ else str(named)


def require_items(n_items: int, max_grade: int) -> None:
    """Raise if the number of items or the highest grade is out of range.

    Args:
      n_items: At least 1.
      max_grade: From 1 to 100.

    Raises:
      InvalidInput: If a number is out of range.
    """
    whole_number(n_items, "n_items", 1)
    whole_number(max_grade, "max_grade", 1)
    if max_grade > MAX_GRADES:
        raise InvalidInput(f"grades are 0..max_grade with max_grade at most {MAX_GRADES}, got {max_grade}")


def require_depth(depth: int) -> None:
    """Raise `InvalidInput` if `depth` is no integer from 1 on."""
    whole_number(depth, "depth", 1)
