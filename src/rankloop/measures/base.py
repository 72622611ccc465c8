"""What every measure shares: names that parse back, the rule for empty queries, one ranking or many queries."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.checks import check_positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.protocols import Measure
from rankloop.core.registry import build, entry_of
from rankloop.core.types import Floats, Ints, finite_floats, item_indices, real_numbers
from rankloop.measures.sorted_lists import checked_grades, checked_offsets, rankings_of

EVERYWHERE = 2**62  # a cutoff below every list
EMPTY_SUMS: Final = {"zero": 0.0, "one": 0.0, "skip": math.nan}  # for sums 0 is the worst and the best at once
INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


class Kernels(NamedTuple):
    """The arithmetic of a measure: of one ranking, and of many queries in one call.

    Each measure has its own loop over the queries: numba would compile one that is handed its kernel in every process.
    """

    one: Callable[..., float]
    many: Callable[..., Floats]


@dataclass(frozen=True, kw_only=True)
class RankedMeasure:
    """A measure that sees nothing but the grades in shown order; negative grades count as 0.

    `empty` says how a query without a relevant item counts: as the worst (`zero`, trec_eval's rule), as perfect (`one`,
    the rule of the regret papers), or not at all (`skip`: nan, left out by `mean_of`).
    """

    empty: Literal["zero", "one", "skip"] = "zero"

    higher_is_better: ClassVar[bool] = True
    _empty_values: ClassVar[dict[str, float]] = {"zero": 0.0, "one": 1.0, "skip": math.nan}
    _kernels: ClassVar[Kernels]

    @property
    def _options(self) -> tuple[float, ...]:
        """The parameters as the kernels take them."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        cutoff = getattr(self, "cutoff", None)
        if cutoff is not None and not 1 <= cutoff < EVERYWHERE:
            raise InvalidInput(f"cutoff must be at least 1 and not astronomic, got {cutoff}")

    def __call__(self, ranking: Ints, relevance: Floats) -> float:
        try:
            plain = ranking.dtype is INT64 and relevance.dtype is FLOAT64 and ranking.shape == relevance.shape
        except AttributeError:  # lists
            plain = False
        if not plain or ranking.ndim != 1:
            ranking = item_indices(ranking, "ranking")
            relevance = checked_grades(relevance, len(ranking), "ranking")
        return self._kernels.one(ranking, relevance, EVERYWHERE, self._options)

    def of_scores(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
        """One value per query; items stand by descending score, ties by item number."""
        scores = finite_floats(scores, 1, "scores")
        grades = checked_grades(relevance, len(scores), "scores")
        borders = checked_offsets(offsets, len(scores))
        return self._many(rankings_of(scores, borders, self._last), grades, borders, np.diff(borders))

    def of_rankings(
        self, rankings: ArrayLike, relevance: ArrayLike, offsets: ArrayLike, shown: ArrayLike | None = None
    ) -> Floats:
        """One value per query: the rankings stand one after another, each counting its own items from 0.

        `shown` tells how many items of each query were shown; the others exist, but nobody met them.
        """
        items = item_indices(rankings, "rankings")
        grades = checked_grades(relevance, len(items), "rankings")
        borders = checked_offsets(offsets, len(items))
        seen = np.diff(borders) if shown is None else item_indices(shown, "shown")
        if len(seen) != len(borders) - 1:
            raise InvalidInput(
                f"shown must have one number for each of the {len(borders) - 1} queries, got {len(seen)}"
            )
        return self._many(items, grades, borders, seen)

    def best(self, relevance: ArrayLike) -> float:
        """The value of the ideal ranking: by descending grade, which no measure here can beat."""
        plain = isinstance(relevance, np.ndarray) and relevance.dtype is FLOAT64 and relevance.ndim == 1
        grades = cast(Floats, relevance) if plain else finite_floats(relevance, 1, "relevance")
        return self(ranking_of(grades), grades)

    def __str__(self) -> str:
        given = [f for f in dataclasses.fields(self) if f.name != "cutoff" and getattr(self, f.name) != f.default]
        options = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in given)
        cutoff = getattr(self, "cutoff", None)
        return entry_of(self).kind + (f"({options})" if options else "") + (f"@{cutoff}" if cutoff else "")

    def _many(self, rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints) -> Floats:
        try:
            return self._kernels.many(rankings, relevance, offsets, shown, self._options)
        except InvalidInput as error:
            raise InvalidInput(f"{self}: {error}") from None

    @property
    def _last(self) -> int:
        """The cutoff as a number for kernels."""
        return getattr(self, "cutoff", None) or EVERYWHERE

    @property
    def _if_empty(self) -> float:
        return self._empty_values[self.empty]


@dataclass(frozen=True, kw_only=True)
class BinaryMeasure(RankedMeasure):
    """A measure that knows only relevant or not: an item is relevant from grade `relevant_from` on (trec_eval's -l)."""

    relevant_from: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("relevant_from", self.relevant_from)


def parse_measure(name: str | Any) -> Measure:
    """The measure of a name such as `AP`, `nDCG@10` or `nDCG(gain='linear')@10`; its `str` is that name again."""
    return cast(Measure, build(name, category="measure"))


def mean_of(values: ArrayLike) -> float:
    """The mean over queries, those that are skipped (nan) left out; nan when none is left."""
    array = real_numbers(values, "values")
    counted = array[~np.isnan(array)]
    return float(counted.mean()) if len(counted) else math.nan
