"""A verdict on two rows of numbers, seed by seed, for claims that the vocabulary of experiments does not have."""

from __future__ import annotations

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.analysis.significance import paired
from rankloop.experiments.analysis.verdicts import Verdict, Word


def is_above(text: str, more: Floats, less: Floats | float, by: float = 0.0, paper: str = "") -> Verdict:
    """Whether `more` − `less` > `by`: it holds beyond chance, partly in the mean alone, or not."""
    difference = paired(more, less)
    significant = difference.n < 2 or difference.low > by
    word: Word = "does not hold" if not difference.mean > by else "holds" if significant else "partly"
    other = number(less) if isinstance(less, float) else str(estimate(less))
    told = f"{estimate(more)} against {other}: difference {number(difference.mean)}"
    if difference.n < 2:
        return Verdict(text, word, f"{told}, from one seed", paper)
    return Verdict(text, word, f"{told}, 95 % interval {number(difference.low)} to {number(difference.high)}", paper)
