"""A measure as a game: the loss of every ranking for every relevance, and the feedback of each."""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entry_of
from rankloop.core.types import Floats, Ints, whole_number

EQUALITY_TOLERANCE = 1e-9  # relative to the largest value
DOUBTFUL_RANGE = (1e-12, 1e-7)  # a float in this range is neither certainly 0 nor certainly different from 0
MAX_GRADES = 100
MAX_ENTRIES = 4_000_000  # of the loss matrix: 7 items with grades 0..1, 6 with 0..3, 5 with 0..4
RENAMINGS_CHECKED = 500  # pairs of ranking and relevance on which the measure itself is evaluated


def _level_numbers(values: Floats) -> Ints:
    """Return a number for each value: equal values get equal numbers, larger values larger ones."""
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order]) / (np.abs(values).max() or 1.0)
    is_zero(gaps)
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = np.concatenate(([0], np.cumsum(gaps > EQUALITY_TOLERANCE)))
    return numbers


def is_zero(numbers: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Mark the floats, of magnitude about 1, that stand for 0; raise `InvalidInput` if one is too close to call."""
    size = np.abs(numbers)
    doubtful = size[(size > DOUBTFUL_RANGE[0]) & (size < DOUBTFUL_RANGE[1])]
    if len(doubtful):
        raise InvalidInput(f"no verdict: {doubtful[0]:.1e} is too small to tell from 0 in floating point")
    return size <= EQUALITY_TOLERANCE


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
        whole_number(self.n_items, "n_items", 1)
        digits = (math.lgamma(self.n_items + 1) + self.n_items * math.log(self.max_grade + 1)) / math.log(10)
        if digits > math.log10(MAX_ENTRIES) + 1e-9:
            items = f"{self.n_items} items with grades 0..{self.max_grade}"
            needed = f"need a loss matrix of 10^{digits:.1f} entries, but at most {MAX_ENTRIES:,} fit"
            raise InvalidInput(f"{items} {needed}: take fewer items, fewer grades, or a measure with a closed form")

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
            raise InvalidInput("the measure is not finite for every relevance: analyse a measure that always is")
        return values

    @cached_property
    def shown_relevance(self) -> Ints:
        """Row of `relevances` that holds the grades in the order of the ranking, as (n_rankings, n_relevances)."""
        return self.feedback(self.n_items)

    @cached_property
    def values(self) -> Floats:
        """Value of every ranking for every relevance, as (n_rankings, n_relevances)."""
        values = self.in_shown_order[self.shown_relevance]
        checked = np.linspace(0, values.size - 1, min(values.size, RENAMINGS_CHECKED)).astype(np.int64)
        for action, outcome in np.column_stack(np.unravel_index(checked, values.shape)):
            direct = self.measure(self.rankings[action].copy(), self.relevances[outcome].astype(np.float64))
            if abs(direct - values[action, outcome]) > EQUALITY_TOLERANCE * max(1.0, abs(direct)):
                order, grades = self.rankings[action].tolist(), self.relevances[outcome].tolist()
                both = f"{direct}, but {values[action, outcome]} after renumbering the items"
                fault = f"the measure depends on item numbers: ranking {order} of the grades {grades} gets {both}"
                raise InvalidInput(f"{fault}; analyse a measure that uses only the grades in shown order")
        return values

    @cached_property
    def loss(self) -> Floats:
        """Loss matrix L: `values`, negated for measures where higher is better."""
        return -self.values if self.measure.higher_is_better else self.values

    def feedback(self, depth: int) -> Ints:
        """Return the feedback matrix H: the first `depth` grades, read as a number in base max_grade + 1."""
        n_graded = min(whole_number(depth, "depth", 1), self.n_items)
        base = (self.max_grade + 1) ** np.arange(n_graded - 1, -1, -1, dtype=np.int64)
        return np.asarray(np.einsum("rai,i->ar", self.relevances[:, self.rankings[:, :n_graded]], base), dtype=np.int64)

    @cached_property
    def duplicates(self) -> Ints:
        """Class number of each ranking: rankings with equal loss rows have the same number, counted from 0."""
        rows = _level_numbers(self.in_shown_order)[self.shown_relevance]
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[number.ravel()], dtype=np.int64)

    def observable_terms(self, depth: int) -> Floats:
        """Return the functionals of a distribution that feedback of this depth reveals, as (n_terms, n_relevances)."""
        rows = [np.ones(len(self.relevances))]
        for size in range(1, depth + 1):
            for items in itertools.combinations(range(self.n_items), size):
                for grades in itertools.product(range(1, self.max_grade + 1), repeat=size):
                    rows.append((self.relevances[:, items] == grades).all(axis=1).astype(np.float64))
        return np.array(rows)

    def gap_between(self, first: Floats, second: Floats) -> float:
        """Return the least loss of a ranking, summed over two distributions, against the best ranking of each."""
        losses = self.loss @ np.column_stack((first, second))
        return float((losses - losses.min(axis=0)).sum(axis=1).min())

    def action(self, ranking: Ints | list[int] | tuple[int, ...]) -> int:
        """Return the row of a ranking."""
        (row,) = np.flatnonzero((self.rankings == np.asarray(ranking)).all(axis=1))
        return int(row)


def measure_for(measure: Any, max_grade: int = 1) -> Measure:
    """Build a measure as games use it: queries without relevant items count as perfect.

    Args:
      measure: A measure, its name or its spec.
      max_grade: The highest grade, from 1 to 100; the end of the grade scale of measures that have one.
    """
    if whole_number(max_grade, "max_grade", 1) > MAX_GRADES:
        raise InvalidInput(f"grades are 0..max_grade with max_grade at most {MAX_GRADES}, got {max_grade}")
    built = build(measure, category="measure")
    fields = {field.name: field for field in dataclasses.fields(built)}
    changes: dict[str, Any] = {"empty": "one"} if "empty" in fields else {}
    if "max_grade" in fields and built.max_grade == fields["max_grade"].default:
        changes["max_grade"] = max_grade
    return cast(Measure, dataclasses.replace(built, **changes))


def name_of(measure: Measure) -> str:
    """Return the name of a measure, without its rule for queries without relevant items."""
    defaults = {"empty": "zero"} if hasattr(measure, "empty") else {}
    named = dataclasses.replace(measure, **defaults)  # type: ignore[type-var]
    return entry_of(named).kind if type(named).__str__ is object.__str__ else str(named)
