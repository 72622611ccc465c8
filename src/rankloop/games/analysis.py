"""What can be learned at all: the verdict on a measure when only the first grades of a ranking come back."""

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
    """The verdict on a measure, a number of items and a depth, with a certificate that `objection` checks.

    `verdict` is the growth of the least regret that a learner can guarantee over T rounds: `trivial` 0 (the order does
    not matter), `sqrt` √T, `two_thirds` T^(2/3), `hopeless` T (no learner gets better with time). `source` says what
    decided: a closed form (proved in docs/theory/games.md), exact arithmetic over all rankings, or floating point, in
    which numbers below `margin` count as 0.
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
        """How regret grows with the number of rounds T."""
        return RATES[self.verdict]

    @property
    def reason(self) -> str:
        """The certificate in one or two sentences."""
        return explain(self.certificate, self.depth)

    def as_table(self) -> dict[str, Any]:
        """The whole analysis in plain tables, lists and numbers, as JSON writes it."""
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
    """What a learner can guarantee that sees the grades of the first `depth` items of its ranking (None: of all).

    With `closed_forms=False` the game is enumerated even where a formula is known: up to 7 items.
    """
    require_items(n_items, max_grade)
    seen = n_items if depth is None else depth
    require_depth(seen)
    built = measure_for(measure, max_grade)
    found = thresholds(built, n_items, max_grade, closed_forms=closed_forms)  # type: ignore[arg-type]  # hashable
    return Analysis(
        measure=built,
        n_items=n_items,
        depth=seen,
        max_grade=max_grade,
        verdict=_verdict(found, min(seen, n_items)),
        source=found.source,
        margin=found.margin,
        learnable_from=found.learnable,
        fast_from=found.fast,
        certificate=found.certificate(min(seen, n_items)),
    )


def analyse_depths(
    measure: Measure | str = "nDCG", n_items: int = 4, max_grade: int = 1, *, closed_forms: bool = True
) -> list[Analysis]:
    """The analysis for every depth from 1 to n_items; the geometry is done once."""
    require_items(n_items, max_grade)
    return [analyse(measure, n_items, depth, max_grade, closed_forms=closed_forms) for depth in range(1, n_items + 1)]


@lru_cache(maxsize=256)
def thresholds(measure: Measure, n_items: int, max_grade: int, *, closed_forms: bool = True) -> Thresholds:
    """From which depth on the measure can be learned, and from which fast."""
    known = closed_form(measure, n_items, max_grade) if closed_forms else None
    return known or thresholds_of(Game(measure=measure, n_items=n_items, max_grade=max_grade))


def _verdict(found: Thresholds, depth: int) -> Verdict:
    if found.unseen is None:
        return "trivial"
    if depth < found.learnable:
        return "hopeless"
    return "two_thirds" if depth < found.fast else "sqrt"
