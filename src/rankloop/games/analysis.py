"""Classify a measure by the least regret that any learner can guarantee from the grades of the first items."""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import msgspec

from rankloop.core.protocols import Measure
from rankloop.games.certificate import Certificate, Source, Thresholds, explain
from rankloop.games.closed_forms import closed_form
from rankloop.games.enumeration import thresholds_of
from rankloop.games.game import Game, measure_for, name_of, require_depth, require_items

Verdict = Literal["trivial", "sqrt", "two_thirds", "hopeless"]
RATES: dict[Verdict, str] = {"trivial": "0", "sqrt": "√T", "two_thirds": "T^(2/3)", "hopeless": "T"}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Verdict on a measure, a number of items and a depth, with a certificate that proves it.

    `verdict` is the growth of the least regret that a learner can guarantee over T rounds: `trivial` 0 (the order does
    not matter), `sqrt` √T, `two_thirds` T^(2/3), `hopeless` T (no learner gets better with time). `source` says what
    decided: a closed form (proved in docs/theory/games.md), exact arithmetic over all rankings, or floating point, in
    which numbers below `margin` count as 0. `research.games.certificate_check` checks certificates independently.
    """

    measure: Measure  # as the game uses it: a query without a relevant item counts as perfect
    n_items: int
    depth: int
    max_grade: int
    verdict: Verdict
    source: Source
    margin: float | None
    learnable_from: int  # the least depth that is not hopeless; 0 when trivial
    fast_from: int  # the least depth with √T; 0 when trivial
    certificate: Certificate

    @property
    def rate(self) -> str:
        """Return the growth of regret with the number of rounds T, as text."""
        return RATES[self.verdict]

    @property
    def reason(self) -> str:
        """Return the certificate in one or two sentences."""
        return explain(self.certificate, self.depth)

    def as_table(self) -> dict[str, Any]:
        """Return the analysis as a dictionary of plain values, for JSON."""
        certificate: dict[str, Any] = msgspec.to_builtins(self.certificate)
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return plain | {
            "measure": name_of(self.measure),
            "certificate": {"kind": type(self.certificate).__name__} | certificate,
        }


def analyse(
    measure: Measure | str = "nDCG",
    n_items: int = 4,
    depth: int | None = 1,
    max_grade: int = 1,
    *,
    closed_forms: bool = True,
) -> Analysis:
    """Decide how fast a measure can be learned from the grades of the first items of each ranking.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      depth: The number of top items whose grades come back; None for all.
      max_grade: Grades are 0, 1, … up to this.
      closed_forms: Use a formula where there is one; otherwise all rankings are enumerated (up to 7 items).

    Returns:
      The verdict with its certificate.

    Raises:
      InvalidInput: If the game is too large to enumerate, or floating point cannot decide it.
    """
    require_items(n_items, max_grade)
    n_graded = n_items if depth is None else depth
    require_depth(n_graded)
    built = measure_for(measure, max_grade)
    limits = thresholds(built, n_items, max_grade, closed_forms=closed_forms)  # type: ignore[arg-type]  # hashable
    return Analysis(
        measure=built,
        n_items=n_items,
        depth=n_graded,
        max_grade=max_grade,
        verdict=_verdict(limits, min(n_graded, n_items)),
        source=limits.source,
        margin=limits.margin,
        learnable_from=limits.learnable,
        fast_from=limits.fast,
        certificate=limits.certificate(min(n_graded, n_items)),
    )


def analyse_depths(
    measure: Measure | str = "nDCG", n_items: int = 4, max_grade: int = 1, *, closed_forms: bool = True
) -> list[Analysis]:
    """Return the analysis for every depth from 1 to `n_items`.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      max_grade: Grades are 0, 1, … up to this.
      closed_forms: Use a formula where there is one.
    """
    require_items(n_items, max_grade)
    return [analyse(measure, n_items, depth, max_grade, closed_forms=closed_forms) for depth in range(1, n_items + 1)]


@lru_cache(maxsize=256)
def thresholds(measure: Measure, n_items: int, max_grade: int, *, closed_forms: bool = True) -> Thresholds:
    """Return the depth from which a measure can be learned, and the depth from which it can be learned fast.

    Args:
      measure: The measure as `measure_for` returns it.
      n_items: The number of items in the fixed set.
      max_grade: Grades are 0, 1, … up to this.
      closed_forms: Use a formula where there is one.
    """
    formula = closed_form(measure, n_items, max_grade) if closed_forms else None
    return formula or thresholds_of(Game(measure=measure, n_items=n_items, max_grade=max_grade))


def _verdict(limits: Thresholds, depth: int) -> Verdict:
    if limits.unseen is None:
        return "trivial"
    if depth < limits.learnable:
        return "hopeless"
    return "two_thirds" if depth < limits.fast else "sqrt"
