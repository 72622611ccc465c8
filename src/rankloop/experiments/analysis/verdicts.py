"""Whether a claim holds is computed from the results, with the numbers that decide it."""

import math
from functools import singledispatch
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import Curves, estimate, number
from rankloop.experiments.analysis.significance import paired
from rankloop.experiments.spec.claims import Above, Below, Claim, Exponent, Near

Word = Literal["holds", "partly", "does not hold", "cannot hold"]


class Verdict(NamedTuple):
    """A claim, what the results say of it, and why: our numbers beside the paper's.

    "cannot hold" is for a claim that is refuted by computation, not only missed; `argument` then says why.
    """

    text: str
    word: Word
    because: str  # our numbers
    paper: str = ""  # what the paper prints, and where: "table 3.1: 9.36"
    argument: str = ""  # why a claim cannot hold as printed

    @property
    def own(self) -> bool:
        """Whether the claim is ours: no paper says it."""
        return not self.paper


def judge(claim: Claim, curves: Curves) -> Verdict:
    """The verdict over all streams: it holds where it holds on each, partly where only on some or by chance."""
    found = [(stream, *_on(claim, curves, stream)) for stream in curves.streams]
    words = {word for _, word, _ in found}
    overall: Word = words.pop() if len(words) == 1 else "partly"
    several = len(found) > 1
    reasons = [f"{stream}: {word}, {because}" if several else because for stream, word, because in found]
    return Verdict(claim.text, overall, "; ".join(reasons), claim.paper)


@singledispatch
def _on(claim: Claim, curves: Curves, stream: str) -> tuple[Word, str]:
    raise TypeError(f"nobody judges a {type(claim).__name__}")


@_on.register(Above)
@_on.register(Below)
def _(claim: Above | Below, curves: Curves, stream: str) -> tuple[Word, str]:
    """It holds when the interval of the paired difference is above `by`, partly when only its mean is."""
    left, right = _sides(claim, curves, stream)
    word, because = _compared(left, right, claim.by, 1.0 if isinstance(claim, Above) else -1.0, counted=True)
    beyond = f" of {number(claim.by)}" if claim.by else ""
    return word, f"{because}, not beyond chance{beyond}" if word == "partly" else because


@_on.register
def _(claim: Near, curves: Curves, stream: str) -> tuple[Word, str]:
    left, right = _sides(claim, curves, stream)
    differences = np.asarray(left - right)
    mean, error = estimate(differences)
    allowed = claim.within + claim.standard_errors * (0.0 if math.isnan(error) else error)
    because = f"{_both(left, right)}: difference {number(mean)}, allowed {number(allowed)}"
    return _in_mean_or_seeds(abs(mean) <= allowed, np.abs(differences) <= allowed, because)


@_on.register
def _(claim: Exponent, curves: Curves, stream: str) -> tuple[Word, str]:
    rows = _values(claim, claim.left, curves, stream)
    slopes = np.array([growth(curves.rounds, row, claim.since) for row in rows])
    slopes = slopes[~np.isnan(slopes)]
    if not len(slopes):
        return "does not hold", "there are fewer than three checkpoints with a positive value"
    claimed = f"claimed {number(claim.low)} to {number(claim.high)}"
    because = f"exponent {estimate(slopes)} over {len(slopes)} seeds, {claimed}"
    inside = (claim.low <= slopes) & (slopes <= claim.high)
    return _in_mean_or_seeds(claim.low <= slopes.mean() <= claim.high, inside, because)


def _in_mean_or_seeds(holds: bool, seeds: NDArray[np.bool_], because: str) -> tuple[Word, str]:
    """It holds in the mean, partly in some of the seeds."""
    if holds or not seeds.any():
        return word_of(holds), because
    return "partly", f"{because}; in {int(np.sum(seeds))} of {len(seeds)} seeds"


def _sides(claim: Above | Below | Near, curves: Curves, stream: str) -> tuple[Floats, Floats | float]:
    column = curves.column_of(claim.at)
    left = _values(claim, claim.left, curves, stream)[:, column]
    if claim.right is None:
        return left, math.nan if claim.value is None else claim.value
    return left, _values(claim, claim.right, curves, stream)[:, column]


def _values(claim: Claim, arm: str, curves: Curves, stream: str) -> Floats:
    values = curves.of(stream, arm, claim.measure, claim.quantity)
    if values is None:
        raise InvalidInput(f"the claim {claim.text!r} is about {claim.quantity} of {arm!r}, which is not recorded")
    return values


def _compared(
    left: Floats, right: Floats | float, by: float, sign: float = 1.0, counted: bool = False
) -> tuple[Word, str]:
    """Whether sign · (left − right) > by: beyond chance, in the mean alone, or not."""
    difference = paired(left, right)
    mean, nearest_end = sign * difference.mean, sign * (difference.low if sign > 0 else difference.high)
    because = f"{_both(left, right)}: difference {number(difference.mean)}"
    if difference.n < 2:
        return word_of(mean > by), f"{because}, from one seed"
    because += f", 95 % interval {number(difference.low)} to {number(difference.high)}"
    because += f" over {difference.n} seeds" * counted
    return "holds" if nearest_end > by else "partly" if mean > by else "does not hold", because


def _both(left: Floats, right: Floats | float) -> str:
    """What is compared, before the difference: "0.277 ± 0.004 against 0.501 ± 0.003"."""
    other = number(right) if isinstance(right, float) else str(estimate(right))
    return f"{estimate(left)} against {other}"


def word_of(held: int, of: int = 1) -> Word:
    """The verdict on a claim that held in so many of the cases, partly when only in some."""
    return "holds" if held == of else "partly" if held else "does not hold"


def is_above(text: str, more: Floats, less: Floats | float, by: float = 0.0, paper: str = "") -> Verdict:
    """Whether `more` − `less` > `by`, seed by seed, for claims that the vocabulary of experiments does not have."""
    return Verdict(text, *_compared(more, less, by), paper)


def refutable(text: str, refuted: bool, because: str, *, paper: str, argument: str) -> Verdict:
    """A printed statement that a computed number can refute: it holds, or cannot hold, and then `argument` says why."""
    return Verdict(text, "cannot hold" if refuted else "holds", because, paper, argument if refuted else "")


def growth(rounds: Ints, averages: Floats, since: int = 1) -> float:
    """The a of t^a ∝ t · average(t), by least squares on both logarithms; nan with fewer than three points."""
    used = (rounds >= since) & (averages > 0.0)
    if used.sum() < 3:
        return math.nan
    log_rounds, log_sums = np.log(rounds[used]), np.log(rounds[used] * averages[used])
    centred = log_rounds - log_rounds.mean()
    return float((centred * log_sums).sum() / (centred * centred).sum())
