"""Answer in three sentences: can this be learned from this feedback, how fast, and with which learner."""

from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import Measure
from rankloop.core.registry import entry_of
from rankloop.games.analysis import Analysis, analyse
from rankloop.games.game import name_of
from rankloop.games.generic_forecaster import MAX_ITEMS, MAX_RELEVANCES

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

    Raises:
      InvalidInput: If the measure is unknown or the game is too large.
    """
    analysis = analyse(measure, n_items, depth, max_grade)
    name, items = name_of(analysis.measure), f"{n_items} item{'s' if n_items > 1 else ''}"
    if analysis.verdict == "trivial":
        nothing = f"There is nothing to learn: {name} gives every ranking of {items} the same value."
        return Advice(nothing, NO_LOSS, "Show any order, as random_order does.", "random_order", analysis)
    if analysis.verdict == "hopeless":
        no = f"No: {name} of {items} cannot be learned from {_revealed(analysis)}."
        return Advice(no, NEVER_LEARNED, _nearest(analysis), None, analysis)
    yes, choice = f"Yes: {name} of {items} can be learned from {_revealed(analysis)}.", _learner(analysis)
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
    return f"Closest: {more}" + (f"; from {_revealed(analysis)}, {other}." if other else ".")


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


def _revealed(analysis: Analysis) -> str:
    if analysis.depth >= analysis.n_items:
        return "the grades of all items"
    return "the grade of the first item" if analysis.depth == 1 else f"the grades of the first {analysis.depth} items"
