"""Figures 5 and 6 of the paper on stable coactive learning: how often 3PR should swap, and when."""

from typing import Any

import msgspec
import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart, Finding, Table
from research.comparison import label_of
from research.papers.coactive.click_streams import (
    ACCEPTED_OPTIONS,
    PAPER,
    ClickStream,
    Plan,
    arm,
    at_the_end,
    claim,
    compared,
)
from research.papers.coactive.figures import DYNAMIC
from research.registry import Setting, reproduction
from research.verdicts import about, is_above

FIXED_SWAPS = {f"swap {p:g}": p for p in (0.0, 0.25, 0.5, 0.75, 1.0)}
MAX_DISTANCE_TO_BEST = 0.01
NOISY, CLEAN = "noisy users", "clean users"
OPENING, EARLY = 20, 1000  # rounds; chosen on seeds 100 to 109, which the experiment does not use
MANY_SEEDS, TOPIC_SEEDS = 100, 5  # differences are small beside the spread of single runs
SMOOTHING_CHECKPOINTS = 20  # checkpoints: p is nearly always 0 or 1


@reproduction("coactive-5", takes=ACCEPTED_OPTIONS, title="How much perturbation is needed")
def swap_probabilities(setting: Setting) -> Finding:
    """Figure 5: fixed swap probabilities and the dynamic one."""

    def arms(stream: ClickStream) -> list[dict[str, Any]]:
        swaps: dict[str, Any] = FIXED_SWAPS | {DYNAMIC: "dynamic"}
        return [arm(name, {"kind": "3pr", "swap": swap}, stream.users) for name, swap in swaps.items()]

    hurts = "section 8.3: more than 0.5 usually hurts"
    claims = [
        claim("below", "Swapping more than half of the pairs hurts", "swap 0.75", right="swap 0.5", paper=hurts),
        claim("below", "Swapping all pairs hurts", "swap 1", right="swap 0.5", paper=hurts),
        claim("above", "Some swapping is better than none", "swap 0.5", right="swap 0",
              paper="section 8.3: without it learning diverges"),
    ]  # fmt: skip
    text = f"{PAPER}, figure 5: 3PR with fixed swap probabilities and with the dynamic one without budget."
    finding, curves = compared(
        Plan("coactive-5", text, arms, claims, seeds=MANY_SEEDS, topic_seeds=TOPIC_SEEDS), setting
    )
    near = tuple(v for name, stream_curves in curves.items() for v in about((name,), [_near_the_best(stream_curves)]))
    return finding._replace(claims=finding.claims + near)


def _near_the_best(curves: Curves) -> Verdict:
    """The dynamic probability against the fixed one that turned out best there."""
    finals = {name: at_the_end(curves, name) for name in FIXED_SWAPS}
    best = max(FIXED_SWAPS, key=lambda name: float(np.nanmean(finals[name])))
    text = f"the dynamic probability is at most {MAX_DISTANCE_TO_BEST} below the best fixed one"
    printed = "section 8.4: among the best; section 8.3: fixed, 0.25 is best on RCV1"
    verdict = is_above(text, at_the_end(curves, DYNAMIC), finals[best], by=-MAX_DISTANCE_TO_BEST, paper=printed)
    return msgspec.structs.replace(verdict, because=f"the best is {best}; {verdict.because}")


@reproduction("coactive-6", takes=ACCEPTED_OPTIONS, title="The dynamic swap probability over time")
def swap_over_time(setting: Setting) -> Finding:
    """Figure 6: p_t with little and with much noise."""

    def arms(stream: ClickStream) -> list[dict[str, Any]]:
        learner = {"kind": "3pr", "swap": "dynamic"}
        return [arm(NOISY, learner, stream.users), arm(CLEAN, learner, stream.clean)]

    text = f"""{PAPER}, figure 6: the swap probability that the dynamic rule chooses, with and without noise. "Rises" \
compares the first {OPENING} rounds with the next ones up to round {EARLY:,}, "falls" these with the last third."""
    plan = Plan("coactive-6", text, arms, [], seeds=MANY_SEEDS, topic_seeds=TOPIC_SEEDS, more=_told_often)
    finding, curves = compared(plan, setting)
    swaps = {
        (stream, who): _swaps(stream_curves, who) for stream, stream_curves in curves.items() for who in (NOISY, CLEAN)
    }
    rounds = {stream: stream_curves.rounds for stream, stream_curves in curves.items()}
    rows = [(", ".join(key), *map(str, map(estimate, windows(rounds[key[0]], rows)))) for key, rows in swaps.items()]
    table = Table("Mean swap probability", ("", "first rounds", f"to round {EARLY:,}", "last third"), rows)
    return finding._replace(
        claims=tuple(v for stream in curves for v in about((stream,), _about_swaps(stream, rounds[stream], swaps))),
        charts=tuple(_chart(stream, rounds[stream], swaps) for stream in curves),
        tables=(table,),
        inside=(),
    )


def _told_often(horizon: int) -> dict[str, Any]:
    return {"checkpoints": checkpoints_for(horizon), "floor": False}


def checkpoints_for(horizon: int) -> tuple[int, ...]:
    """Every round of the opening, a hundred in the early part, and every 400th part of the horizon."""
    opening, early = _parts(horizon)
    rounds = {*range(1, opening + 1), *range(opening, early, max(1, early // 100))}
    return tuple(sorted(rounds | {*range(early, horizon + 1, max(1, horizon // 400)), horizon}))


def windows(rounds: Ints, rows: Floats) -> list[Floats]:
    """The mean of each seed in the opening, in the early part and in the last third."""
    opening, early = _parts(int(rounds[-1]))
    inside = rounds <= opening, (opening < rounds) & (rounds <= early), rounds > 2 * rounds[-1] / 3
    return [rows[:, window].mean(axis=1) for window in inside]


def _parts(horizon: int) -> tuple[int, int]:
    return min(OPENING, max(1, horizon // 10)), min(EARLY, horizon // 3)


def _swaps(curves: Curves, users: str) -> Floats:
    rows = curves.report(curves.streams[0], users, "swap")
    return np.full((len(curves.seeds), len(curves.rounds)), np.nan) if rows is None else rows


def _about_swaps(stream: str, rounds: Ints, swaps: dict[tuple[str, str], Floats]) -> list[Verdict]:
    rises, later = [], rounds > _parts(int(rounds[-1]))[1]
    for who in (NOISY, CLEAN):
        opening, early, last = windows(rounds, swaps[stream, who])
        for text, more, less in (("first rises", early, opening), ("then falls", early, last)):
            printed = "section 8.4: first increases, then eventually decreases"
            rises.append(is_above(f"with {who} the swap probability {text}", more, less, paper=printed))
    noisy, clean = (swaps[stream, who][:, later].mean(axis=1) for who in (NOISY, CLEAN))
    text = "with noise the swap probability is higher"
    return [*rises, is_above(text, noisy, clean, paper="section 8.4: larger noise increases it")]


def _chart(stream: str, rounds: Ints, swaps: dict[tuple[str, str], Floats]) -> Chart:
    """Means of consecutive checkpoints, since a single p says little."""
    starts = (
        np.arange(0, len(rounds) - SMOOTHING_CHECKPOINTS + 1, SMOOTHING_CHECKPOINTS)
        if len(rounds) >= SMOOTHING_CHECKPOINTS
        else np.array([0])
    )
    lengths = np.diff([*starts, len(rounds)])
    ends = rounds[np.append(starts[1:], len(rounds)) - 1]
    lines = [
        Line(who, np.add.reduceat(swaps[stream, who], starts, axis=1) / lengths, colour)
        for colour, who in enumerate((NOISY, CLEAN))
    ]
    caption = f"Mean of {SMOOTHING_CHECKPOINTS} checkpoints each."
    return chart(
        f"swap-{label_of(stream)}", f"{stream}: swap probability", ends, lines, caption=caption, y_label="p", log_x=True
    )
