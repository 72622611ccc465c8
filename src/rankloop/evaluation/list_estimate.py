"""The answer of `evaluate` on a log of lists: an estimate, two controls, and a verdict with its reasons."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

from rankloop.click_models.examination import Examination
from rankloop.evaluation.report import BLUE, CURRENT, GREY, MAX_TIMES

PER_PAGES = 1000  # pages, in every number that is printed
MIN_CLICKS = 20  # and rows of any other outcome, for a verdict by it
RANDOM_ORDER = "random order"
Verdict = Literal["better", "worse", "unclear", "cannot tell"]


class Interval(NamedTuple):
    """A mean per page with its interval."""

    value: float
    lower: float
    upper: float

    def per_1000(self) -> dict[str, float]:
        """Return the same by end, per 1,000 pages."""
        return {end: PER_PAGES * number for end, number in self._asdict().items()}

    def __str__(self) -> str:
        value, lower, upper = (PER_PAGES * number for number in self)
        return f"{value:+,.1f} ({lower:+,.1f} to {upper:+,.1f})"


class OrderEstimate(NamedTuple):
    """The value of an order per page, and its gain over the log, by outcome."""

    earned: dict[str, Interval]
    gain: dict[str, Interval]


class Diagnostics(NamedTuple):
    """The evidence behind an answer."""

    examination: Examination
    after_click: tuple[float, ...]  # factors of examination 1, 2 to 3, and more rows below a click
    trusts: bool  # the interval allows for users who trust high positions whatever stands there
    effective_clicks: float  # so many clicks of equal weight would carry the estimate as well
    modelled_share: float  # of the ranker's clicks, from items that were not shown: only the model of attraction knows
    unlike_share: float  # from items that are like none that was shown
    calibration: float  # clicks by what the model of attraction expects, weighted as the ranker shows the items
    calibration_error: float  # the standard error of that
    halves_z: float  # the difference of the gain between the halves of the log in time, in standard errors
    outcome_rows: dict[str, int]  # by outcome beside clicks, the rows that brought some of it


class ListEstimate(NamedTuple):
    """The value of a ranker per page, beside the log and a random order."""

    name: str  # of the ranker
    n_pages: int
    n_clicks: int
    level: float  # the probability with which intervals hold
    log: dict[str, Interval]  # by outcome
    ranker: OrderEstimate
    random: OrderEstimate  # a random order of the shown items: a control
    diagnostics: Diagnostics
    reasons: tuple[str, ...]  # why the log does not answer; empty: it does
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The answer in a word, by clicks."""
        return "cannot tell" if self.reasons else side_of(self.ranker.gain["clicks"])

    @property
    def verdicts(self) -> list[str]:
        """The answer in sentences: better, worse, unclear, or that the log cannot tell and why; then warnings."""
        lines = [f"This log cannot tell how good the {self.name} is: {reason}." for reason in self.reasons]
        lines = lines or [self._sentence(outcome) for outcome in self.ranker.gain]
        return lines + [f"Note: {warning}." for warning in self.warnings]

    def _is_unknown(self, outcome: str) -> bool:
        """Return true where the log does not answer, by this outcome or by any."""
        return bool(self.reasons) or self.diagnostics.outcome_rows.get(outcome, MIN_CLICKS) < MIN_CLICKS

    def _sentence(self, outcome: str) -> str:
        name, gain = self.name, self.ranker.gain[outcome]
        if self._is_unknown(outcome):
            count = f"{self.diagnostics.outcome_rows[outcome]} rows have any, and {MIN_CLICKS} or more are needed"
            return f"This log cannot tell the {outcome} of the {name}: {count}."
        earned, logged = self.ranker.earned[outcome].value, self.log[outcome].value
        numbers = f"{PER_PAGES * earned:,.1f} {outcome} per {PER_PAGES:,} pages instead of {PER_PAGES * logged:,.1f}"
        confidence = f"{self.level:.0%} confidence"
        side = side_of(gain)
        if side == "better":
            return f"The {name} earns {numbers}: at least {PER_PAGES * gain.lower:,.1f} more ({confidence})."
        if side == "worse":
            less = f"at least {-PER_PAGES * gain.upper:,.1f} less ({confidence})"
            return f"The {name} is worse than what was shown: it earns {numbers}, {less}."
        ends = f"between {PER_PAGES * gain.lower:+,.1f} and {PER_PAGES * gain.upper:+,.1f}"
        head = f"No clear difference for the {name}:"
        if gain.upper - gain.lower > 2.0 * logged:
            return f"{head} the change is {ends} {outcome} per {PER_PAGES:,} pages ({confidence}), which says little."
        longer = (max(gain.upper - gain.value, gain.value - gain.lower) / max(abs(gain.value), 1e-12)) ** 2
        might = f" A log {max(1.1, longer):.1f} times as long might tell." if longer < MAX_TIMES else ""
        return f"{head} it earns {numbers}; the change is {ends} ({confidence}).{might}"

    def text(self, log: str) -> str:
        """Return a table per outcome, what the estimate rests on, and the verdicts; `log` is the name of the log."""
        diagnostics, width = self.diagnostics, max(len(self.name), len(RANDOM_ORDER)) + 2
        lines = [f"{log}: {self.n_pages:,} pages, {self.n_clicks:,} clicks", str(diagnostics.examination)]
        if diagnostics.after_click != (1.0, 1.0, 1.0):
            factors = ", ".join(f"{factor:.2f}" for factor in diagnostics.after_click)
            lines.append(f"a click 1, 2 to 3, and 4 or more rows above changes examination by the factors {factors}")
        if diagnostics.trusts:
            lines.append("intervals also cover users who click high positions whatever stands there")
        lines.append("")
        for outcome in self.ranker.gain:
            head = f"{outcome} per {PER_PAGES:,} pages"
            lines.append(
                f"{head:<{width + 10}}{f'from ({self.level:.0%})':>14}{'to':>12}{'change':>12}{'from':>12}{'to':>12}"
            )
            lines.append(f"{CURRENT:<{width}}{PER_PAGES * self.log[outcome].value:>10,.1f}")
            for name, order in ((RANDOM_ORDER, self.random), (self.name, self.ranker)):
                earned, gain = order.earned[outcome], order.gain[outcome]
                cells = [f"{PER_PAGES * number:,.1f}" for number in earned]
                cells += [f"{PER_PAGES * number:+,.1f}" for number in gain]
                if name == self.name and self._is_unknown(outcome):
                    cells = [cells[0], "unknown", "unknown", cells[3], "unknown", "unknown"]
                row = f"{name:<{width}}{cells[0]:>10}{cells[1]:>14}"
                lines.append(row + "".join(f"{cell:>12}" for cell in cells[2:]))
            lines.append("")
        if diagnostics.modelled_share > 0.0:
            share = f"{diagnostics.modelled_share:.0%} of the clicks of the {self.name} are predicted, not counted"
            lines += [f"{share}: the log did not show these items on these pages", ""]
        return "\n".join([*lines, *self.verdicts])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs, with every outcome and all diagnostics."""
        return {
            "n_rows": self.n_pages,
            "n_rewarded": self.n_clicks,
            "unit": "per page",
            "level": self.level,
            "verdict": self.verdict,
            "estimates": {
                CURRENT: self._plain(OrderEstimate(self.log, {})),
                RANDOM_ORDER: self._plain(self.random),
                self.name: self._plain(self.ranker),
            },
            "diagnostics": self.diagnostics._asdict() | {"examination": self.diagnostics.examination.to_json()},
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "verdicts": self.verdicts,
        }

    def _plain(self, order: OrderEstimate) -> dict[str, Any]:
        gain, gain_lower, gain_upper = order.gain.get("clicks", (None, None, None))
        return order.earned["clicks"]._asdict() | {
            "current": self.log["clicks"].value,
            "gain": gain,
            "gain_lower": gain_lower,
            "gain_upper": gain_upper,
            "per_1000_pages": {name: interval.per_1000() for name, interval in order.earned.items()},
            "gain_per_1000_pages": {name: interval.per_1000() for name, interval in order.gain.items()} or None,
        }

    def plot(self, path: Path) -> None:
        """Draw for each outcome a dot and its interval, of log, random order and ranker; hollow if not answered."""
        from matplotlib.figure import Figure

        outcomes = list(self.ranker.gain)
        figure = Figure(figsize=(7.2, 1.7 * len(outcomes) + 0.6), layout="constrained")
        for axes, outcome in zip(figure.subplots(len(outcomes), squeeze=False)[:, 0], outcomes):
            orders = (self.log[outcome], self.random.earned[outcome], self.ranker.earned[outcome])
            for row, interval in enumerate(orders):
                value, low, high = (PER_PAGES * number for number in interval)
                color = BLUE if row == 2 else GREY
                if row == 2 and self._is_unknown(outcome):
                    axes.plot([value], [row], marker="o", markerfacecolor="none", color=GREY)
                    continue
                axes.plot([low, high], [row, row], color=color, linewidth=2.5)
                axes.plot([value], [row], marker="o", color=color)
            axes.set_yticks([0, 1, 2], [CURRENT, RANDOM_ORDER, self.name])
            axes.set_ylim(2.5, -0.5)
            axes.set_xlabel(f"{outcome} per {PER_PAGES:,} pages; intervals of {self.level:.0%}")
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=160, facecolor="white")


def side_of(gain: Interval) -> Verdict:
    """Return on which side of no change an interval lies."""
    if gain.lower > 0.0:
        return "better"
    return "worse" if gain.upper < 0.0 else "unclear"
