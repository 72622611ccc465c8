"""Verdicts on claims that the vocabulary of experiments does not have."""

from collections.abc import Iterable

import msgspec

from rankloop.core.types import Floats
from rankloop.experiments.analysis.verdicts import Verdict, Word, compare

MAYBE_A_SLIP = "The text that was read is a scan: this may be its slip."


def is_above(text: str, more: Floats, less: Floats | float, by: float = 0.0, paper: str = "") -> Verdict:
    """Judge that `more` − `less` > `by`, seed by seed."""
    return compare(text, more, less, by=by, paper=paper)


def word_of(held: int, of: int = 1) -> Word:
    """Return the verdict on a claim that holds in `held` of several cases."""
    return "holds" if held == of else "partly" if held else "does not hold"


def about(subject: tuple[str, ...], verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts with what they are about, such as a data set, before what each says itself."""
    return tuple(msgspec.structs.replace(verdict, subject=(*subject, *verdict.subject)) for verdict in verdicts)


def refutable(text: str, refuted: bool, because: str, *, paper: str, argument: str) -> Verdict:
    """Judge a printed statement that a computed number can refute: it holds, or cannot hold, as `argument` explains."""
    return Verdict(text, "cannot hold" if refuted else "holds", because, paper, argument if refuted else "")
