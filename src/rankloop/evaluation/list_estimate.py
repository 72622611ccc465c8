"""What a ranker would earn on a log of lists: numbers per page, what they rest on, and the same in words."""

from pathlib import Path
from typing import Any, NamedTuple

from rankloop.evaluation.report import BLUE, CURRENT, GREY, MAX_TIMES

PER = 1000  # pages
TOLD, SWAPS, MOVED, FEATURES = "told", "swaps", "moved", "features"
KNOWN_BY = {
    TOLD: "as given",
    SWAPS: "from swaps that the log records",
    MOVED: "from items that stood at several positions",
    FEATURES: "from features alone, since no item is known to have moved",
}


class Interval(NamedTuple):
    """A mean per page; each end holds with the level asked for, by itself."""

    value: float
    lower: float
    upper: float

    def per_1000(self) -> dict[str, float]:
        """Return the same by end, per 1,000 pages."""
        return {end: PER * number for end, number in self._asdict().items()}


class Doubts(NamedTuple):
    """What the answer rests on."""

    examined: tuple[float, ...]  # relative probability by position, the first 1
    known_by: str  # told, swaps, moved or features
    likeliest: str  # the estimator whose people foretell the clicks of other sessions best
    rivals: tuple[str, ...]  # those whose people might do so as well: the interval holds for them too
    going_on: float  # how many people are still there after a click, by the model that lets them leave
    repeated: float  # pairs of clicks on a page, by what independent positions would have
    effective_clicks: float  # so many clicks of equal weight carry the estimate
    beyond: float  # share of the ranker's clicks on items that were not shown, of which only the click model tells
    novel: float  # share on items that are like none that was shown
    calibration: float  # clicks by what the click model said of them, weighted as the ranker would show them
    calibration_error: float
    sensitivity: tuple[float, float]  # the gain per page under other models of examination


class ListEstimate(NamedTuple):
    """What a ranker would earn per page, beside what the log brought, by outcome."""

    name: str  # of the ranker
    method: str
    why: str
    n_pages: int
    n_sessions: int
    n_clicks: int
    level: float
    ranker: dict[str, Interval]
    log: dict[str, Interval]
    gain: dict[str, Interval]
    ndcg: tuple[float, float]  # by the click model: the ranker's, and that of what was shown
    doubts: Doubts
    cannot_tell: tuple[str, ...]  # why the log does not answer; empty: it does
    warnings: tuple[str, ...]

    @property
    def verdicts(self) -> list[str]:
        """Better, worse, not to be told from chance, or that the log cannot tell and why; then further doubts."""
        lines = [f"This log cannot tell how good the {self.name} is: {reason}." for reason in self.cannot_tell]
        lines = lines or [self._verdict(outcome) for outcome in self.ranker]
        return lines + [f"Beware: {warning}." for warning in self.warnings]

    def _verdict(self, outcome: str) -> str:
        name, value, gain = self.name, self.ranker[outcome].value, self.gain[outcome]
        earned = f"{PER * value:,.1f} {outcome} per {PER:,} pages instead of {PER * self.log[outcome].value:,.1f}"
        sure = f"{self.level:.0%} sure"
        if gain.lower > 0:
            return f"The {name} earns {earned}: at least {PER * gain.lower:,.1f} more ({sure})."
        if gain.upper < 0:
            less = f"at least {-PER * gain.upper:,.1f} less ({sure})"
            return f"The {name} is worse than what was shown: it earns {earned}, {less}."
        longer = ((gain.value - gain.lower) / gain.value) ** 2 if gain.value > 0 else float("inf")
        might = f" A log {max(1.1, longer):.1f} times as long might do." if longer < MAX_TIMES else ""
        return (
            f"The gain of the {name} is not significant: it earns {earned}, between {PER * gain.lower:,.1f} "
            f"and {PER * gain.upper:,.1f} more (each end {sure}).{might}"
        )

    def text(self, log: str) -> str:
        """Return a table per outcome, what the estimate rests on, and the verdicts."""
        sessions = f" of {self.n_sessions:,} sessions" if self.n_sessions < self.n_pages else ""
        doubts, width = self.doubts, max(len(self.name), len(CURRENT)) + 2
        examined = " ".join(f"{value:.2f}" for value in doubts.examined)
        lines = [
            f"{log}: {self.n_pages:,} pages{sessions}, {self.n_clicks:,} clicks",
            f"estimator: {self.method}; {self.why}",
            f"examined, by position: {examined} ({KNOWN_BY[doubts.known_by]})",
            "",
        ]
        for outcome in self.ranker:
            lines.append(f"{f'{outcome} per {PER:,} pages':<{width + 22}}{f'from ({self.level:.0%})':>14}{'to':>12}")
            for who, interval in ((CURRENT, self.log[outcome]), (self.name, self.ranker[outcome])):
                value, low, high = (f"{PER * number:,.1f}" for number in interval)
                ends = ("unknown", "unknown") if self.cannot_tell and who == self.name else (low, high)
                lines.append(f"{who:<{width}}{value:>22}{ends[0]:>14}{ends[1]:>12}")
            lines.append("")
        new, old = self.ndcg
        shares = (
            f"{doubts.beyond:.0%} of the clicks it would get are on items that were not on the logged page, "
            f"{doubts.novel:.0%} on items that the log never shows"
        )
        lines += [
            f"nDCG by the click model: {old:.3f} as shown, {new:.3f} by the ranker",
            f"based on about {doubts.effective_clicks:,.0f} equally weighted clicks; {shares}; "
            f"the click model is off by a factor of {doubts.calibration:.2f} ± {doubts.calibration_error:.2f}",
            "",
        ]
        return "\n".join([*lines, *self.verdicts])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs, with every outcome and all doubts."""
        ranker = self._plain(self.ranker, self.gain) | {
            "method": self.method,
            "why": self.why,
            "ndcg": self.ndcg[0],
            "diagnostics": self.doubts._asdict(),
            "cannot_tell": self.cannot_tell,
            "warnings": self.warnings,
        }
        return {
            "n_rows": self.n_pages,
            "n_sessions": self.n_sessions,
            "n_rewarded": self.n_clicks,
            "unit": "per page",
            "estimates": {CURRENT: self._plain(self.log, None) | {"ndcg": self.ndcg[1]}, self.name: ranker},
            "verdicts": self.verdicts,
        }

    def _plain(self, values: dict[str, Interval], gains: dict[str, Interval] | None) -> dict[str, Any]:
        clicks = next(iter(self.ranker))
        gain = None if gains is None else gains[clicks]
        return values[clicks]._asdict() | {
            "n": self.n_pages,
            "current": self.log[clicks].value,
            "gain": None if gain is None else gain.value,
            "gain_lower": None if gain is None else gain.lower,
            "level": self.level,
            "per_1000_pages": {name: interval.per_1000() for name, interval in values.items()},
            "gain_per_1000_pages": None
            if gains is None
            else {name: interval.per_1000() for name, interval in gains.items()},
        }

    def plot(self, path: Path) -> None:
        """Draw for each outcome a dot and its interval, of the ranker and of what was shown; hollow if not told."""
        from matplotlib.figure import Figure

        outcomes = list(self.ranker)
        figure = Figure(figsize=(7.2, 1.5 * len(outcomes) + 0.6), layout="constrained")
        for axes, outcome in zip(figure.subplots(len(outcomes), squeeze=False)[:, 0], outcomes):
            for row, interval in enumerate((self.log[outcome], self.ranker[outcome])):
                value, low, high = (PER * number for number in interval)
                if row and self.cannot_tell:
                    axes.plot([value], [row], marker="o", markerfacecolor="none", color=GREY)
                    continue
                axes.plot([low, high], [row, row], color=BLUE if row else GREY, linewidth=2.5)
                axes.plot([value], [row], marker="o", color=BLUE if row else GREY)
            axes.set_yticks([0, 1], [CURRENT, self.name])
            axes.set_ylim(1.5, -0.5)
            axes.set_xlabel(f"{outcome} per {PER:,} pages; each end holds with {self.level:.0%}")
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=160, facecolor="white")
