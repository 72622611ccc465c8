"""A verdict on two rows of numbers, seed by seed, for claims that the vocabulary of experiments does not have."""

from __future__ import annotations

from rankloop.core.types import Floats
from rankloop.experiments.claims import Verdict, Word
from rankloop.experiments.comparisons import paired
from rankloop.experiments.curves import number


def is_above(text: str, more: Floats, less: Floats | float) -> Verdict:
    """Whether `more` is above `less`: it holds beyond chance, partly in the mean alone, or not."""
    difference = paired(more, less)
    beyond_chance = difference.n < 2 or difference.low > 0
    word: Word = "does not hold" if not difference.mean > 0 else "holds" if beyond_chance else "partly"
    told = f"difference {number(difference.mean)}"
    if difference.n < 2:
        return Verdict(text, word, f"{told}, from one seed")
    return Verdict(text, word, f"{told}, 95 % interval {number(difference.low)} to {number(difference.high)}")
