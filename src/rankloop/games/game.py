"""A measure seen as a game: every ranking against every relevance, and what feedback tells them apart."""

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
from rankloop.games.numbers import SAME, level_numbers, whole_numbers

MAX_GRADES = 100
MAX_ENTRIES = 4_000_000  # of the loss matrix: 7 items with grades 0..1, 6 with 0..3, 5 with 0..4
RENAMINGS = 500  # pairs of ranking and relevance on which the measure is asked directly


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
                f"{self.n_items} items with grades 0..{self.max_grade} make a matrix of 10^{digits:.1f} entries, at "
                f"most {MAX_ENTRIES:.0e} are possible: fewer items or grades, or a measure with a closed form"
            )

    @cached_property
    def ranks(self) -> Ints:
        """(n_rankings, n_items): the position of each item, counted from 0; row 0 shows the items in their order."""
        return np.array(list(itertools.permutations(range(self.n_items))), dtype=np.int64)

    @cached_property
    def rankings(self) -> Ints:
        """(n_rankings, n_items): the items of each ranking, best first."""
        return np.argsort(self.ranks, axis=1)

    @cached_property
    def relevances(self) -> Ints:
        """(n_relevances, n_items): the grades of the items."""
        return np.array(list(itertools.product(range(self.max_grade + 1), repeat=self.n_items)), dtype=np.int64)

    @cached_property
    def in_shown_order(self) -> Floats:
        """The measure of the items 0, 1, … for every relevance: all that the game needs, as items are only names."""
        items = np.arange(self.n_items, dtype=np.int64)
        values = np.array([self.measure(items, row.astype(np.float64)) for row in self.relevances])
        if not np.isfinite(values).all():
            raise InvalidInput("the measure is not finite for every relevance, so that it makes no game")
        return values

    @cached_property
    def shown_relevance(self) -> Ints:
        """(n_rankings, n_relevances): which row of `relevances` the grades make, read in the order of the ranking."""
        base = (self.max_grade + 1) ** np.arange(self.n_items - 1, -1, -1, dtype=np.int64)
        return np.asarray(np.einsum("rai,i->ar", self.relevances[:, self.rankings], base), dtype=np.int64)

    @cached_property
    def values(self) -> Floats:
        """(n_rankings, n_relevances): the measure itself, a gain or a loss, as it is printed."""
        values = self.in_shown_order[self.shown_relevance]
        self._require_renaming(values)
        return values

    @cached_property
    def loss(self) -> Floats:
        """The matrix L: `values`, with a minus sign for gains."""
        return -self.values if self.measure.higher_is_better else self.values

    def feedback(self, depth: int) -> Ints:
        """The matrix H: the grades of the first `depth` items, read as one number with max_grade + 1 digits."""
        require_depth(depth)
        base = (self.max_grade + 1) ** np.arange(min(depth, self.n_items) - 1, -1, -1, dtype=np.int64)
        seen = self.relevances[:, self.rankings[:, : min(depth, self.n_items)]]
        return np.asarray(np.einsum("rai,i->ar", seen, base), dtype=np.int64)

    def signals(self, action: int, depth: int) -> Ints:
        """The signal matrix of a ranking: row s marks the relevances whose feedback is s."""
        n_signals = (self.max_grade + 1) ** min(depth, self.n_items)
        same = np.arange(n_signals)[:, None] == self.feedback(depth)[action]
        return np.asarray(same, dtype=np.int64)

    @cached_property
    def whole(self) -> Ints | None:
        """`loss` times a common denominator, in whole numbers, where the measure is rational; else None."""
        numbers = whole_numbers(self.in_shown_order)
        if numbers is None:
            return None
        return (-numbers if self.measure.higher_is_better else numbers)[self.shown_relevance]

    @cached_property
    def duplicates(self) -> Ints:
        """Rankings with equal loss rows get equal numbers, counted from 0 as they come."""
        rows = level_numbers(self.in_shown_order)[self.shown_relevance]
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[number.ravel()], dtype=np.int64)

    def action(self, ranking: Ints | list[int] | tuple[int, ...]) -> int:
        """The row of a ranking."""
        (row,) = np.flatnonzero((self.rankings == np.asarray(ranking)).all(axis=1))
        return int(row)

    def _require_renaming(self, values: Floats) -> None:
        """Refuse a measure that looks at the names of items: everything here rests on it seeing grades only."""
        pairs = np.linspace(0, values.size - 1, min(values.size, RENAMINGS)).astype(np.int64)
        actions, outcomes = np.unravel_index(pairs, values.shape)
        for action, outcome in zip(actions, outcomes):
            direct = self.measure(self.rankings[action].copy(), self.relevances[outcome].astype(np.float64))
            if abs(direct - values[action, outcome]) > SAME * max(1.0, abs(direct)):
                raise InvalidInput(
                    f"the measure gives {direct} to the ranking {self.rankings[action].tolist()} of "
                    f"{self.relevances[outcome].tolist()} and {values[action, outcome]} to the same grades under other "
                    f"names of items; a game needs a measure that sees only the grades in shown order"
                )


def measure_for(measure: Any, max_grade: int = 1) -> Measure:
    """The measure as games use it: queries without a relevant item count as perfect, the scale ends at `max_grade`."""
    built = build(measure, category="measure")
    fields = {field.name: field for field in dataclasses.fields(built)}
    changes: dict[str, Any] = {"empty": "one"} if "empty" in fields else {}
    if "max_grade" in fields and built.max_grade == fields["max_grade"].default:
        changes["max_grade"] = max_grade
    made: Measure = dataclasses.replace(built, **changes)
    return made


def name_of(measure: Measure) -> str:
    """The name of a measure, without the rule for empty queries, which makes no difference between rankings."""
    defaults = {"empty": "zero"} if hasattr(measure, "empty") else {}
    named = dataclasses.replace(measure, **defaults)  # type: ignore[type-var]
    return entry_of(named).kind if type(named).__str__ is object.__str__ else str(named)


def require_items(n_items: int, max_grade: int) -> None:
    """Refuse what is no game: the number of items and the highest grade are at least 1."""
    whole_number(n_items, "n_items", 1)
    whole_number(max_grade, "max_grade", 1)
    if max_grade > MAX_GRADES:
        raise InvalidInput(f"grades are 0..max_grade with max_grade at most {MAX_GRADES}, got {max_grade}")


def require_depth(depth: int) -> None:
    """Refuse a feedback of nothing."""
    whole_number(depth, "depth", 1)
