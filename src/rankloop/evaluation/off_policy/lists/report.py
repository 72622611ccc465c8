"""What a log of lists says of a ranker, in plain words and a picture."""

from pathlib import Path

from rankloop.evaluation.off_policy.lists.answer import ListEstimate
from rankloop.evaluation.report import BLUE, GREY, MAX_TIMES

PER = 1000  # pages


def list_verdicts(name: str, found: ListEstimate) -> list[str]:
    """Better, worse, not to be told from chance, or that the log cannot tell and why; then further doubts."""
    lines = [f"This log cannot tell how good the {name} is: {reason}." for reason in found.cannot_tell]
    lines = lines or [_verdict(name, found, outcome) for outcome in found.ranker]
    return lines + [f"Beware: {warning}." for warning in found.warnings]


def _verdict(name: str, found: ListEstimate, outcome: str) -> str:
    value, gain = found.ranker[outcome].value, found.gain[outcome]
    earned = f"{PER * value:,.1f} {outcome} per {PER:,} pages instead of {PER * found.log[outcome].value:,.1f}"
    sure = f"{found.level:.0%} sure"
    if gain.lower > 0:
        return f"The {name} earns {earned}: at least {PER * gain.lower:,.1f} more ({sure})."
    if gain.upper < 0:
        less = f"at least {-PER * gain.upper:,.1f} less ({sure})"
        return f"The {name} is worse than what was shown: it earns {earned}, {less}."
    longer = ((gain.value - gain.lower) / gain.value) ** 2 if gain.value > 0 else float("inf")
    might = f" A log {max(1.1, longer):.1f} times as long might do." if longer < MAX_TIMES else ""
    return (
        f"The gain of the {name} cannot be told from chance: it earns {earned}, between {PER * gain.lower:,.1f} and "
        f"{PER * gain.upper:,.1f} more (each end {sure}).{might}"
    )


def plot_lists(name: str, found: ListEstimate, path: Path) -> None:
    """For each outcome a dot and its interval, of the ranker and of what was shown; hollow where it cannot be told."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    outcomes = list(found.ranker)
    figure = Figure(figsize=(7.2, 1.5 * len(outcomes) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, outcome in zip(figure.subplots(len(outcomes), squeeze=False)[:, 0], outcomes):
        for row, interval in enumerate((found.log[outcome], found.ranker[outcome])):
            value, low, high = (PER * number for number in interval)
            if row and found.cannot_tell:
                axes.plot([value], [row], marker="o", markerfacecolor="none", color=GREY)
                continue
            axes.plot([low, high], [row, row], color=BLUE if row else GREY, linewidth=2.5)
            axes.plot([value], [row], marker="o", color=BLUE if row else GREY)
        axes.set_yticks([0, 1], ["current", name])
        axes.set_ylim(1.5, -0.5)
        axes.set_xlabel(f"{outcome} per {PER:,} pages; each end holds with {found.level:.0%}")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, facecolor="white")
