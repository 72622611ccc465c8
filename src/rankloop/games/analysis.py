"""Classify a measure by the least regret that any learner can guarantee from the grades of the first items."""

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.core.types import whole_number
from rankloop.games.certificate import AllEqual, AllSeen, Certificate, Source, Thresholds, Unseen
from rankloop.games.closed_forms import closed_form
from rankloop.games.enumeration import thresholds_of
from rankloop.games.game import EQUALITY_TOLERANCE, Game, measure_for, name_of
from rankloop.games.generic_forecaster import MAX_ITEMS, MAX_RELEVANCES

Verdict = Literal["trivial", "sqrt", "two_thirds", "hopeless"]
RATES: dict[Verdict, str] = {"trivial": "0", "sqrt": "√T", "two_thirds": "T^(2/3)", "hopeless": "T"}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Verdict on a measure, a number of items and a depth, with a certificate that proves it.

    `verdict` is the growth of the least regret that a learner can guarantee over T rounds: `trivial` 0 (the order does
    not matter), `sqrt` √T, `two_thirds` T^(2/3), `hopeless` T (no learner gets better with time). `source` says what
    decided: a closed form (proved in docs/theory/games.md), or an enumeration of all rankings, in which numbers below
    `margin` count as 0. `research.games.certificate_check` checks certificates independently.
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
        proof = self.certificate
        if isinstance(proof, AllEqual):
            return "Every ranking has the same value for all grades."
        if isinstance(proof, AllSeen):
            return "Showing the rankings that may be the best already reveals which of them is better."
        pair, grades = f"{_order_text(proof.first)} and {_order_text(proof.second)}", _grades_text(proof.items)
        if isinstance(proof, Unseen):
            limit = f"no ranking reveals more than {self.depth} of them at once"
            return f"Which of the rankings {pair} is better depends on {grades}, but {limit}."
        needed = f"to decide between them takes {grades}, which neither of the two reveals"
        result = "So some rounds must show rankings that are worse than both."
        return f"For some users {pair} tie for the best; {needed}. {result}"

    def as_table(self) -> dict[str, Any]:
        """Return the analysis as a dictionary of plain values, for JSON."""
        certificate: dict[str, Any] = msgspec.to_builtins(self.certificate)
        certificate = {"kind": type(self.certificate).__name__} | certificate
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return plain | {"measure": name_of(self.measure), "certificate": certificate}


def _order_text(order: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, order))}]" if len(order) <= 8 else f"[{', '.join(map(str, order[:6]))}, …]"


def _grades_text(items: tuple[int, ...]) -> str:
    if len(items) == 1:
        return f"the grade of item {items[0]}"
    if len(items) > 6:
        return f"the grades of {len(items)} items ({', '.join(map(str, items[:4]))}, …) taken together"
    return f"the grades of items {', '.join(map(str, items[:-1]))} and {items[-1]} taken together"


def analyse(measure: Measure | str = "nDCG", n_items: int = 4, depth: int | None = 1, max_grade: int = 1) -> Analysis:
    """Decide how fast a measure can be learned from the grades of the first items of each ranking.

    Measures without a formula are decided by enumerating all rankings of up to 7 items.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      depth: The number of top items whose grades come back; None for all.
      max_grade: Grades are 0, 1, … up to this.
    """
    whole_number(n_items, "n_items", 1)
    n_graded = whole_number(n_items if depth is None else depth, "depth", 1)
    built = measure_for(measure, max_grade)
    limits = _thresholds(built, n_items, max_grade)  # type: ignore[arg-type]  # hashable
    verdict: Verdict = "trivial"
    if limits.unseen is not None:
        verdict = "hopeless" if n_graded < limits.learnable else "two_thirds" if n_graded < limits.fast else "sqrt"
    return Analysis(
        measure=built,
        n_items=n_items,
        depth=n_graded,
        max_grade=max_grade,
        verdict=verdict,
        source=limits.source,
        margin=None if limits.source == "closed form" else EQUALITY_TOLERANCE,
        learnable_from=limits.learnable,
        fast_from=limits.fast,
        certificate=limits.certificate(min(n_graded, n_items)),
    )


def analyse_depths(measure: Measure | str = "nDCG", n_items: int = 4, max_grade: int = 1) -> list[Analysis]:
    """Return the analysis for every depth from 1 to `n_items`.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      max_grade: Grades are 0, 1, … up to this.
    """
    return [analyse(measure, n_items, depth, max_grade) for depth in range(1, whole_number(n_items, "n_items", 1) + 1)]


@lru_cache(maxsize=256)
def _thresholds(measure: Measure, n_items: int, max_grade: int) -> Thresholds:
    formula = closed_form(measure, n_items, max_grade)
    return formula or thresholds_of(Game(measure=measure, n_items=n_items, max_grade=max_grade))


NO_LOSS = "Nothing is lost from the first round on."
NEVER_LEARNED = "Never: for some users every learner loses the same amount in every round, however long it runs."


class Advice(NamedTuple):
    """Answer for a measure and a depth, in sentences."""

    answer: str  # yes or no, with the reason
    speed: str  # the growth of the loss
    recommendation: str  # the learner to use, or what would make the measure learnable
    learner: str | None  # the spec of that learner; None when no learner fits
    analysis: Analysis

    @property
    def lines(self) -> tuple[str, str, str]:
        """Return the three sentences."""
        return self.answer, self.speed, self.recommendation


def advise(measure: Measure | str = "nDCG", n_items: int = 4, depth: int | None = 1, max_grade: int = 1) -> Advice:
    """Say if a measure can be learned from the grades of the first items, how fast, and with which learner.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      depth: The number of top items whose grades come back; None for all.
      max_grade: Grades are 0, 1, … up to this.
    """
    analysis = analyse(measure, n_items, depth, max_grade)
    name, items = name_of(analysis.measure), f"{n_items} item{'s' if n_items > 1 else ''}"
    grades = f"the grades of the first {analysis.depth} items" if analysis.depth > 1 else "the grade of the first item"
    if analysis.depth >= n_items:
        grades = "the grades of all items"
    if analysis.verdict == "trivial":
        verdict = f"There is nothing to learn: {name} gives every ranking of {items} the same value."
        return Advice(verdict, NO_LOSS, "Show any order, as random_order does.", "random_order", analysis)
    if analysis.verdict == "hopeless":
        no, needed, other = f"No: {name} of {items} cannot be learned", analysis.learnable_from, _alternatives(analysis)
        graded_items = "all items" if needed == n_items else f"the first {needed} items"
        nearest = f"Closest: the grades of {graded_items} would make it learnable"
        nearest += f"; from {grades}, {other}." if other else "."
        return Advice(f"{no} from {grades}.", NEVER_LEARNED, nearest, None, analysis)
    speed = "Fast: the loss per round against the best fixed ranking can fall as 1/√T, as if all grades came back."
    if analysis.verdict == "two_thirds":
        speed = "Slowly: the loss per round against the best fixed ranking falls as 1/T^(1/3), since some rounds must "
        speed += f"explore; from depth {analysis.fast_from} on it can fall as 1/√T."
    learner, guarantee = _learner(analysis)
    recommendation = f"Use {learner}: its total loss against the best ranking grows as {guarantee}."
    if learner is None:
        others = f"generic_forecaster does up to {MAX_ITEMS} items"
        advice = _alternatives(analysis) or "a cutoff may help"
        recommendation = f"No learner of rankloop guarantees this for {name} at this size; {others}, and {advice}."
    return Advice(f"Yes: {name} of {items} can be learned from {grades}.", speed, recommendation, learner, analysis)


def _alternatives(analysis: Analysis) -> str:
    """Return the related measures that can be learned at this depth, as text."""
    cutoff, depth = getattr(analysis.measure, "cutoff", None), analysis.depth
    at, half = f"@{cutoff}" if cutoff else "", f"@{cutoff or max(1, analysis.n_items // 2)}"
    relatives = {
        "nDCG": [f"DCG{at}"],
        "NERU": [f"ERU{at}"],
        "AUC": ["PairwiseLoss", "SumLoss"],
        "AUCLoss": ["PairwiseLoss", "SumLoss"],
        "PairwiseLoss": ["SumLoss"],
        "AP": [f"P{half}", f"DCG{at}"],
        "Recall": [f"P{half}"],
        "RR": [f"RR@{depth}", "DCG"],
        "ERR": [f"ERR@{depth}", "DCG"],
    }.get(entry_of(analysis.measure).kind, ["DCG"])
    learnable = []
    for candidate in relatives:
        with suppress(InvalidInput):
            if analyse(candidate, analysis.n_items, depth, analysis.max_grade).verdict in ("sqrt", "two_thirds"):
                learnable.append(candidate)
    return f"{' or '.join(learnable)} can be learned instead" if learnable else ""


def _learner(analysis: Analysis) -> tuple[str | None, str]:
    """Return the spec of the learner for an analysis, and the growth of its regret; None if there is no learner."""
    measure: Any = analysis.measure
    kind, m, max_grade, linear = entry_of(measure).kind, analysis.n_items, analysis.max_grade, None
    if kind == "P" and measure.cutoff is not None:
        start = "" if measure.relevant_from <= 1.0 else f", relevant_from={measure.relevant_from}"
        return f"precision_bandit(n={measure.cutoff}{start})", "√T, at every depth"
    # A measure that the learners of fixed sets accept and that orders items by the same expected gains.
    if kind in ("DCG", "SumLoss"):
        linear = name_of(measure)
    elif (kind == "PairwiseLoss" and max_grade == 1) or (kind == "ERU" and (measure.neutral == 0.0 or max_grade == 1)):
        linear = "SumLoss"
    if linear is not None and analysis.depth >= m:
        return f"ftpl(measure={linear!r})", "√T"
    growth = "T^(2/3)"
    if analysis.verdict != "two_thirds":
        growth += "; √T is possible, but no learner of rankloop attains it"
    if linear is not None:
        return f"rtopk(measure={linear!r})", growth
    if m <= MAX_ITEMS and (max_grade + 1) ** m <= MAX_RELEVANCES:
        return f"generic_forecaster(measure={name_of(measure)!r})", growth
    return None, ""
