"""The base class of measures: names that parse back, the rule for empty queries, one ranking or many queries."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.checks import Positive
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of
from rankloop.core.protocols import Measure
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints, finite_floats, item_indices, real_numbers
from rankloop.measures import formulas
from rankloop.measures.formulas import NO_CUTOFF

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


def _checked_grades(relevance: ArrayLike, n_items: int, name: str) -> Floats:
    """Return finite grades as an array."""
    grades = finite_floats(relevance, 1, "relevance")
    if len(grades) != n_items:
        raise InvalidInput(f"{name} and relevance must be equally long, got {n_items} and {len(grades)}")
    return grades


def _checked_offsets(offsets: ArrayLike, n_items: int) -> Ints:
    """Return offsets as an array: query q has the entries from offsets[q] to offsets[q + 1]."""
    array = item_indices(offsets, "offsets")
    if not len(array):
        raise InvalidInput("offsets must hold one entry more than there are queries, got none")
    is_wrong = np.diff(array, prepend=0) < 0
    is_wrong[0], is_wrong[-1] = array[0] != 0, is_wrong[-1] or array[-1] != n_items
    if is_wrong.any():
        rule = f"offsets must start at 0, never fall and end at the number of items, {n_items}"
        fault = int(is_wrong.argmax())
        raise InvalidInput(f"{rule}; entry {fault} of {len(array)} is {array[fault]}")
    return array


@dataclass(frozen=True, kw_only=True)
class RankedMeasure:
    """A measure of the grades in shown order; negative grades count as 0.

    Measures that have a `cutoff` count this number of positions; None: all.

    Args:
      empty: The value of a query without a relevant item: `zero` is the worst value (trec_eval's rule), `one` the best
        (the rule of the regret papers), `skip` is nan, which `mean_of` leaves out.
    """

    empty: Literal["zero", "one", "skip"] = "zero"

    higher_is_better: ClassVar[bool] = True
    _worst: ClassVar[float] = 0.0
    _best: ClassVar[float] = 1.0  # of a query without a relevant item: 0 for a sum
    _formula: ClassVar[int]

    def __post_init__(self) -> None:
        cutoff = getattr(self, "cutoff", None)
        if cutoff is not None and not 1 <= cutoff < NO_CUTOFF:
            raise InvalidInput(f"cutoff must be from 1 to 2⁶² − 1, got {cutoff}")

    def __call__(self, ranking: Ints, relevance: Floats) -> float:
        """Return the value of a ranking of items with these grades."""
        is_array = isinstance(ranking, np.ndarray) and isinstance(relevance, np.ndarray)
        is_plain = is_array and ranking.dtype is INT64 and relevance.dtype is FLOAT64
        if not is_plain or ranking.ndim != 1 or ranking.shape != relevance.shape:
            ranking = item_indices(ranking, "ranking")
            relevance = _checked_grades(relevance, len(ranking), "ranking")
        return formulas.value_of(ranking, relevance, NO_CUTOFF, self._options)

    def of_scores(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
        """Return one value per query, for the order of descending scores, ties by item number.

        Args:
          scores: One score per item, query after query.
          relevance: One grade per item.
          offsets: Query q has the entries from offsets[q] to offsets[q + 1].
        """
        scores = finite_floats(scores, 1, "scores")
        grades = _checked_grades(relevance, len(scores), "scores")
        borders = _checked_offsets(offsets, len(scores))
        rankings = formulas.rankings_of(scores, borders, self._options.cutoff)
        return self._many(rankings, grades, borders, np.diff(borders))

    def of_rankings(
        self, rankings: ArrayLike, relevance: ArrayLike, offsets: ArrayLike, shown: ArrayLike | None = None
    ) -> Floats:
        """Return one value per query, for one ranking each.

        Args:
          rankings: The rankings one after another, each counting its items from 0.
          relevance: One grade per item.
          offsets: Query q has the entries from offsets[q] to offsets[q + 1].
          shown: The number of items that were shown, by query; None: all.
        """
        items = item_indices(rankings, "rankings")
        grades = _checked_grades(relevance, len(items), "rankings")
        borders = _checked_offsets(offsets, len(items))
        n_shown = np.diff(borders) if shown is None else item_indices(shown, "shown")
        if len(n_shown) != len(borders) - 1:
            raise InvalidInput(f"shown must have a number for each of {len(borders) - 1} queries, got {len(n_shown)}")
        return self._many(items, grades, borders, n_shown)

    def best(self, relevance: ArrayLike) -> float:
        """Return the value of the ideal ranking, which is by descending grade."""
        plain = isinstance(relevance, np.ndarray) and relevance.dtype is FLOAT64 and relevance.ndim == 1
        grades = cast(Floats, relevance) if plain else finite_floats(relevance, 1, "relevance")
        return self(ranking_of(grades), grades)

    def _many(self, rankings: Ints, relevance: Floats, offsets: Ints, shown: Ints) -> Floats:
        try:
            return formulas.values_of(rankings, relevance, offsets, shown, self._options)
        except InvalidInput as error:
            raise InvalidInput(f"{self}: {error}") from None

    @cached_property
    def _options(self) -> formulas.MeasureOptions:
        return formulas.MeasureOptions(
            formula=self._formula,
            cutoff=getattr(self, "cutoff", None) or NO_CUTOFF,
            empty={"zero": self._worst, "one": self._best, "skip": math.nan}[self.empty],
            relevant_from=getattr(self, "relevant_from", 1.0),
            max_grade=getattr(self, "max_grade", 0),
            half_life=getattr(self, "half_life", formulas.LOGARITHMIC_DISCOUNT),
            neutral=getattr(self, "neutral", 0.0),
            exponential=getattr(self, "gain", "linear") == "exponential",
        )


@dataclass(frozen=True, kw_only=True)
class BinaryMeasure(RankedMeasure):
    """A measure of binary relevance.

    Args:
      relevant_from: The lowest grade that counts as relevant, trec_eval's -l.
      empty: See `RankedMeasure`.
    """

    relevant_from: Positive = 1.0


def parse_measure(name: str | Any) -> Measure:
    """Return the measure of a name; its `str` is that name again.

    Args:
      name: A name such as `AP`, `nDCG@10` or `nDCG(gain='linear')@10`; or a measure, which is returned.

    Examples:
      >>> parse_measure("nDCG@2")([1, 0, 2], [1.0, 0.0, 0.0])
      0.6309297535714575
    """
    return cast(Measure, build(name, category="measure"))


def mean_of(values: ArrayLike) -> float:
    """Return the mean over queries without the skipped ones (nan); nan when none remains."""
    array = real_numbers(values, "values")
    counted = array[~np.isnan(array)]
    return float(counted.mean()) if len(counted) else math.nan
