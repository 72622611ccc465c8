"""Classify a measure by the least regret that any learner can guarantee from the grades of the first items."""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.games.certificate import Certificate, Source, Thresholds, explain
from rankloop.games.closed_forms import closed_form
from rankloop.games.enumeration import thresholds_of
from rankloop.games.game import Game, measure_for, name_of, require_depth, require_items
from rankloop.games.generic_forecaster import MAX_ITEMS, MAX_RELEVANCES

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


NO_LOSS = "Nothing is lost from the first round on."
NEVER_LEARNED = "Never: for some users every learner loses the same amount in every round, however long it runs."


class Advice(NamedTuple):
    """Answer for a measure and a depth, in sentences.

    Attributes:
      answer: Yes or no, with the reason.
      speed: The growth of the loss.
      recommendation: The learner to use, or what would make the measure learnable.
      learner: The spec of that learner; None when no learner fits.
      analysis: The analysis behind the answer.
    """

    answer: str
    speed: str
    recommendation: str
    learner: str | None
    analysis: Analysis

    @property
    def lines(self) -> tuple[str, str, str]:
        """Return the three sentences."""
        return self.answer, self.speed, self.recommendation


class _Choice(NamedTuple):
    learner: str
    guarantee: str  # the growth of its regret
    remark: str = ""


def advise(measure: Measure | str = "nDCG", n_items: int = 4, depth: int | None = 1, max_grade: int = 1) -> Advice:
    """Say if a measure can be learned from the grades of the first items, how fast, and with which learner.

    Args:
      measure: A measure or its name.
      n_items: The number of items in the fixed set.
      depth: The number of top items whose grades come back; None for all.
      max_grade: Grades are 0, 1, … up to this.

    Returns:
      Three sentences, the learner's spec, and the analysis.
    """
    analysis = analyse(measure, n_items, depth, max_grade)
    name, items = name_of(analysis.measure), f"{n_items} item{'s' if n_items > 1 else ''}"
    if analysis.verdict == "trivial":
        verdict = f"There is nothing to learn: {name} gives every ranking of {items} the same value."
        return Advice(verdict, NO_LOSS, "Show any order, as random_order does.", "random_order", analysis)
    if analysis.verdict == "hopeless":
        no = f"No: {name} of {items} cannot be learned from {_feedback_text(analysis)}."
        return Advice(no, NEVER_LEARNED, _nearest(analysis), None, analysis)
    yes, choice = f"Yes: {name} of {items} can be learned from {_feedback_text(analysis)}.", _learner(analysis)
    return Advice(yes, _speed(analysis), _recommendation(analysis, choice), choice and choice.learner, analysis)


def _speed(analysis: Analysis) -> str:
    if analysis.verdict == "sqrt":
        return "Fast: the loss per round against the best fixed ranking can fall as 1/√T, as if all grades came back."
    return (
        "Slowly: the loss per round against the best fixed ranking falls as 1/T^(1/3), since some rounds must explore; "
        f"from depth {analysis.fast_from} on it can fall as 1/√T."
    )


def _recommendation(analysis: Analysis, choice: _Choice | None) -> str:
    if choice is None:
        return (
            f"No learner of rankloop guarantees this for {name_of(analysis.measure)} at this size; generic_forecaster "
            f"does up to {MAX_ITEMS} items, and {_alternatives(analysis) or 'a cutoff may help'}."
        )
    return f"Use {choice.learner}: its total loss against the best ranking grows as {choice.guarantee}{choice.remark}."


def _nearest(analysis: Analysis) -> str:
    needed = analysis.learnable_from
    graded_items = "all items" if needed == analysis.n_items else f"the first {needed} items"
    more = f"the grades of {graded_items} would make it learnable"
    other = _alternatives(analysis)
    return f"Closest: {more}" + (f"; from {_feedback_text(analysis)}, {other}." if other else ".")


def _alternatives(analysis: Analysis) -> str:
    """Return the related measures that can be learned at this depth, as text."""
    learnable = []
    for candidate in _relatives(analysis):
        try:
            verdict = analyse(candidate, analysis.n_items, analysis.depth, analysis.max_grade).verdict
        except InvalidInput:
            continue
        if verdict in ("sqrt", "two_thirds"):
            learnable.append(candidate)
    return f"{' or '.join(learnable)} can be learned instead" if learnable else ""


def _relatives(analysis: Analysis) -> list[str]:
    measure: Any = analysis.measure
    kind, cutoff = entry_of(measure).kind, getattr(measure, "cutoff", None)
    at = f"@{cutoff}" if cutoff else ""
    half = f"@{cutoff or max(1, analysis.n_items // 2)}"
    return {
        "nDCG": [f"DCG{at}"],
        "NERU": [f"ERU{at}"],
        "AUC": ["PairwiseLoss", "SumLoss"],
        "AUCLoss": ["PairwiseLoss", "SumLoss"],
        "PairwiseLoss": ["SumLoss"],
        "AP": [f"P{half}", f"DCG{at}"],
        "Recall": [f"P{half}"],
        "RR": [f"RR@{analysis.depth}", "DCG"],
        "ERR": [f"ERR@{analysis.depth}", "DCG"],
    }.get(kind, ["DCG"])


def _learner(analysis: Analysis) -> _Choice | None:
    measure: Any = analysis.measure
    kind, m = entry_of(measure).kind, analysis.n_items
    if kind == "P" and measure.cutoff is not None:
        start = "" if measure.relevant_from <= 1.0 else f", relevant_from={measure.relevant_from}"
        return _Choice(f"precision_bandit(n={measure.cutoff}{start})", "√T", ", at every depth")
    linear = _linear(measure, analysis.max_grade)
    remark = "" if analysis.verdict == "two_thirds" else "; √T is possible, but no learner of rankloop attains it"
    if linear is not None and analysis.depth >= m:
        return _Choice(f"ftpl(measure={linear!r})", "√T")
    if linear is not None:
        return _Choice(f"rtopk(measure={linear!r})", "T^(2/3)", remark)
    if m <= MAX_ITEMS and (analysis.max_grade + 1) ** m <= MAX_RELEVANCES:
        return _Choice(f"generic_forecaster(measure={name_of(measure)!r})", "T^(2/3)", remark)
    return None


def _linear(measure: Any, max_grade: int) -> str | None:
    """Return a measure that the learners of fixed sets accept and that orders items by the same expected gains."""
    kind = entry_of(measure).kind
    if kind in ("DCG", "SumLoss"):
        return name_of(measure)
    if kind == "PairwiseLoss" and max_grade == 1:
        return "SumLoss"
    if kind == "ERU" and (measure.neutral == 0.0 or max_grade == 1):
        return "SumLoss"
    return None


def _feedback_text(analysis: Analysis) -> str:
    if analysis.depth >= analysis.n_items:
        return "the grades of all items"
    return "the grade of the first item" if analysis.depth == 1 else f"the grades of the first {analysis.depth} items"
