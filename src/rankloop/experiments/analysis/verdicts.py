"""Verdicts on claims, computed from the results, and tests of significance."""

import math
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rankloop.core.errors import InvalidInput
from rankloop.core.statistics import student_cdf, student_quantile
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import Curves, estimate, number
from rankloop.experiments.spec.model import Above, Claim, Exponent, Near

CONFIDENCE_LEVEL = 0.95


class Difference(Struct, frozen=True):
    """Paired difference: mean over seeds, confidence interval, p-value; nan with fewer than 2 seeds."""

    n: int
    mean: float
    low: float
    high: float
    t_test: float


def paired(left: Floats, right: Floats | float) -> Difference:
    """Return left − right seed by seed, with the interval and the p-value of Student's t test.

    Args:
      left: One value per seed.
      right: One value per seed, or a number.
    """
    differences = np.asarray(left - right)
    differences = differences[~np.isnan(differences)]
    mean, error = estimate(differences)
    n = len(differences)
    if n < 2:
        return Difference(n, mean, math.nan, math.nan, math.nan)
    reach = student_quantile((1.0 + CONFIDENCE_LEVEL) / 2.0, n - 1) * error
    t_test = 2.0 * student_cdf(-abs(mean) / error, n - 1) if error else float(mean == 0.0)
    return Difference(n, mean, mean - reach, mean + reach, t_test)


def holm(p_values: list[float]) -> list[float]:
    """Adjust the p-values of several comparisons for their number (Holm, 1979)."""
    computed = [position for position, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, floor = list(p_values), 0.0
    for rank, position in enumerate(sorted(computed, key=lambda position: p_values[position])):
        floor = max(floor, min(1.0, p_values[position] * (len(computed) - rank)))
        adjusted[position] = floor
    return adjusted


Word = Literal["holds", "partly", "does not hold", "cannot hold"]


class Verdict(Struct, frozen=True, omit_defaults=True):
    """Claim with its verdict and the numbers that decide it, beside those of the paper.

    "cannot hold" is for a claim that is refuted by computation, not only missed; `argument` then says why.
    """

    text: str
    word: Word
    because: str  # our numbers
    paper: str = ""  # what the paper prints, and where: "table 3.1: 9.36"; "" for a claim that no paper makes
    argument: str = ""  # why a claim cannot hold as printed
    difference: Difference | None = None  # with at least two seeds
    subject: tuple[str, ...] = ()  # the data set and more, in findings with several

    @property
    def statement(self) -> str:
        """Return the claim, with its data set if there are several."""
        return f"{', '.join(self.subject)}: {self.text}" if self.subject else self.text


def judge(claim: Claim, curves: Curves) -> Verdict:
    """Decide a claim: it holds if it holds on all streams, partly if only on some or within chance.

    Args:
      claim: The claim.
      curves: The values of the experiment.
    """
    verdicts = {stream: _on(claim, curves, stream) for stream in curves.streams}
    if len(verdicts) == 1:
        return verdicts[curves.streams[0]]
    words = {verdict.word for verdict in verdicts.values()}
    reasons = (f"{stream}: {verdict.word}, {verdict.because}" for stream, verdict in verdicts.items())
    return Verdict(claim.text, words.pop() if len(words) == 1 else "partly", "; ".join(reasons), claim.paper)


def _on(claim: Claim, curves: Curves, stream: str) -> Verdict:
    """Decide a claim on one stream."""

    def values_of(arm: str) -> Floats:
        values = curves.of(stream, arm, claim.measure, claim.quantity)
        if values is None:
            needs = f"the claim {claim.text!r} needs the {claim.quantity} of {arm!r}"
            raise InvalidInput(f"{needs}, which is not recorded: change the claim")
        return values

    left = values_of(claim.left)
    if isinstance(claim, Exponent):
        slopes = np.array([growth(curves.rounds, row, claim.since) for row in left])
        slopes = slopes[~np.isnan(slopes)]
        if not len(slopes):
            because = "fewer than three checkpoints have a positive value"
            return Verdict(claim.text, "does not hold", because, claim.paper)
        claimed = f"claimed {number(claim.low)} to {number(claim.high)}"
        because = f"exponent {estimate(slopes)} over {len(slopes)} seeds, {claimed}"
        inside = (claim.low <= slopes) & (slopes <= claim.high)
        return _in_mean_or_seeds(claim, claim.low <= slopes.mean() <= claim.high, inside, because)
    column = curves.column_of(claim.at)
    left = left[:, column]
    right: Floats | float = math.nan if claim.value is None else claim.value
    if claim.right is not None:
        right = values_of(claim.right)[:, column]
    if isinstance(claim, Near):
        differences = np.asarray(left - right)
        mean, error = estimate(differences)
        allowed = claim.within + claim.standard_errors * (0.0 if math.isnan(error) else error)
        because = f"{_both(left, right)}: difference {number(mean)}, allowed {number(allowed)}"
        return _in_mean_or_seeds(claim, abs(mean) <= allowed, np.abs(differences) <= allowed, because)
    verdict = compare(claim.text, left, right, by=claim.by, above=isinstance(claim, Above), paper=claim.paper)
    because = verdict.because
    if verdict.difference is not None:
        because += f" over {verdict.difference.n} seeds"
    if verdict.word == "partly":
        because += f", not significant{f' beyond {number(claim.by)}' if claim.by else ''}"
    return msgspec.structs.replace(verdict, because=because)


def _in_mean_or_seeds(claim: Claim, holds: bool, seeds: NDArray[np.bool_], because: str) -> Verdict:
    """Return "holds" if the mean satisfies the claim, "partly" if only some seeds do."""
    word: Word = "holds" if holds else "partly" if seeds.any() else "does not hold"
    if word == "partly":
        because += f"; in {int(np.sum(seeds))} of {len(seeds)} seeds"
    return Verdict(claim.text, word, because, claim.paper)


def compare(
    text: str, left: Floats, right: Floats | float, *, by: float = 0.0, above: bool = True, paper: str = ""
) -> Verdict:
    """Judge that one side is above or below the other, seed by seed.

    Args:
      text: The claim.
      left: One value per seed.
      right: The same for the other side, or a number.
      by: The distance that is claimed.
      above: Claim that left − right > by; else that right − left > by.
      paper: What a paper prints, and where.

    Returns:
      "holds" when the interval of the paired difference is beyond `by`, "partly" when only its mean is.
    """
    difference, sign = paired(left, right), 1.0 if above else -1.0
    mean, nearest_end = sign * difference.mean, sign * (difference.low if above else difference.high)
    because = f"{_both(left, right)}: difference {number(difference.mean)}"
    if difference.n < 2:
        return Verdict(text, "holds" if mean > by else "does not hold", f"{because}, from one seed", paper)
    because += f", 95 % interval {number(difference.low)} to {number(difference.high)}"
    word: Word = "holds" if nearest_end > by else "partly" if mean > by else "does not hold"
    return Verdict(text, word, because, paper, difference=difference)


def _both(left: Floats, right: Floats | float) -> str:
    """Return both sides as text: "0.277 ± 0.004 against 0.501 ± 0.003"."""
    other = number(right) if isinstance(right, float) else str(estimate(right))
    return f"{estimate(left)} against {other}"


def growth(rounds: Ints, averages: Floats, since: int = 1) -> float:
    """Fit the exponent a of t^a ∝ t · average(t) by least squares on logarithms; nan with fewer than three points.

    Args:
      rounds: The rounds t.
      averages: The averages up to each round.
      since: The first round to use.
    """
    used = (rounds >= since) & (averages > 0.0)
    if used.sum() < 3:
        return math.nan
    slope, _ = np.polyfit(np.log(rounds[used]), np.log(rounds[used] * averages[used]), deg=1)
    return float(slope)
