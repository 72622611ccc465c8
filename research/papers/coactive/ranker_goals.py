"""What newton pairs has to reach beside the other online rankers, and whether it does, from the runs of all cells."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import Curves, SeedMean, estimate, number
from rankloop.experiments.analysis.verdicts import Verdict, paired
from rankloop.experiments.report.model import Table
from research.papers.coactive.click_streams import MEASURE
from research.verdicts import about, is_above, word_of

OURS, FAIR, EITHER, TUNED, PAIRRANK = "newton pairs", "fair pairs", "fair pairs, either", "PDGD, tuned", "PairRank"
SHORT_MEMORY, DRIFT = "fair pairs, memory 300", "drift"
COMPARED_RANKERS = (FAIR, EITHER, TUNED, PAIRRANK)  # those that it is compared with cell by cell
GOAL_MARGINS = {"shown in the last tenth": 0.015, "shown in all rounds": 0.02}
BEHIND, BELOW = 0.1, 0.005
IN_DRIFT = {"MQ2007": 0.86, "MSLR sample": 0.82, "web search, simulated": 0.69}
Cells = dict[tuple[str, str], Curves]  # by stream and condition


class Quantity(NamedTuple):
    """Something that is told of every run: which series, and at which round of so many."""

    words: str
    series: str
    round_of: Callable[[int], int]
    in_drift: bool = True


LAST_TENTH = Quantity("shown in the last tenth", "recent", lambda horizon: horizon)
ALL_ROUNDS = Quantity("shown in all rounds", "average", lambda horizon: horizon)
FIRST_TWENTIETH = Quantity("shown in the first twentieth", "average", lambda horizon: horizon // 20)
NEW_SOON = Quantity("new queries after a twentieth", "new_queries", lambda horizon: horizon // 20, in_drift=False)
NEW_AT_END = Quantity("new queries at the end", "new_queries", lambda horizon: horizon, in_drift=False)
AFTER_CHANGE = Quantity(
    "shown in the tenth after the change", "recent", lambda horizon: horizon // 2 + max(1, round(0.1 * horizon))
)
QUANTITIES = (LAST_TENTH, ALL_ROUNDS, FIRST_TWENTIETH, NEW_SOON, NEW_AT_END, AFTER_CHANGE)


def value_of(curves: Curves, name: str, quantity: Quantity) -> Floats:
    """One value per seed; nan of an arm that does not take part."""
    if name not in curves.arms:
        return np.full(len(curves.seeds), np.nan)
    column = curves.column_of(quantity.round_of(curves.experiment.horizon))
    return curves.at(name, MEASURE, quantity.series, column=column)


def steady(cells: Cells) -> Cells:
    """The cells in which nothing changes."""
    return {key: curves for key, curves in cells.items() if key[1] != DRIFT}


def pooled(cells: Cells, name: str, quantity: Quantity) -> Floats:
    """The values of all cells in which nothing changes, one after another."""
    return np.concatenate([value_of(curves, name, quantity) for curves in steady(cells).values()])


def pooled_table(cells: Cells) -> Table:
    """Compare newton pairs with each other learner, over all streams and all users whose taste does not change."""
    shown_quantities = [quantity for quantity in QUANTITIES if quantity is not AFTER_CHANGE]
    rows = []
    for name in next(iter(steady(cells).values())).arms:
        if name != OURS:
            differences = [
                pooled(cells, OURS, quantity_shown) - pooled(cells, name, quantity_shown)
                for quantity_shown in shown_quantities
            ]
            rows.append((name, *(_signed(estimate(values)) for values in differences)))
    note = f"Paired by run; mean ± standard error over {len(pooled(cells, OURS, LAST_TENTH))} runs."
    return Table(
        f"{OURS} less each other, pooled: {MEASURE}",
        ("", *(quantity_shown.words for quantity_shown in shown_quantities)),
        rows,
        note,
    )


def verdicts(cells: Cells) -> Iterator[Verdict]:
    """The goals, then newton pairs beside the best others cell by cell."""
    yield from about(("goal",), _goals(cells))
    for (stream, condition), curves in cells.items():
        ours = value_of(curves, OURS, LAST_TENTH)
        beside = (
            is_above(f"{OURS} is above {other}", ours, value_of(curves, other, LAST_TENTH))
            for other in COMPARED_RANKERS
        )
        yield from about((stream, condition), beside)


def _goals(cells: Cells) -> Iterator[Verdict]:
    for quantity in (LAST_TENTH, ALL_ROUNDS):
        yield _above_the_best(cells, quantity)
    yield _nowhere_below(cells)
    yield _never_far_behind(cells)
    yield from _new_queries(cells)
    yield from _drift(cells)


def best_other(cells: Cells, quantity: Quantity) -> str:
    """The other learner with the highest mean over the cells in which nothing changes."""
    others = [name for name in next(iter(steady(cells).values())).arms if name != OURS]
    return max(others, key=lambda name: float(np.nanmean(pooled(cells, name, quantity))))


def _above_the_best(cells: Cells, quantity: Quantity) -> Verdict:
    margin, other = GOAL_MARGINS[quantity.words], best_other(cells, quantity)
    text = f"{quantity.words}, pooled: {OURS} is at least {margin} above the best other, {other}"
    return is_above(text, pooled(cells, OURS, quantity), pooled(cells, other, quantity), by=margin)


def _nowhere_below(cells: Cells) -> Verdict:
    """Judged by the upper end of the interval of the paired difference."""
    below = []
    for (stream, condition), curves in cells.items():
        ours = value_of(curves, OURS, LAST_TENTH)
        for name in curves.arms:
            difference = paired(ours, value_of(curves, name, LAST_TENTH)) if name != OURS else None
            if difference is not None and difference.high < 0:
                below.append(f"{stream}, {condition}: {number(difference.mean)} to {name}")
    text = f"{LAST_TENTH.words}: {OURS} is below another beyond chance in no cell"
    return Verdict(text, word_of(not below), f"in {len(below)}: {'; '.join(below)}" if below else "in none")


def behind(cells: Cells, name: str) -> int:
    """In how many runs a learner begins more than .1 behind the one that begins best."""
    count = 0
    for curves in steady(cells).values():
        best = np.max([value_of(curves, arm, FIRST_TWENTIETH) for arm in curves.arms], axis=0)
        count += int(np.sum(value_of(curves, name, FIRST_TWENTIETH) < best - BEHIND))
    return count


def _never_far_behind(cells: Cells) -> Verdict:
    names = next(iter(steady(cells).values())).arms
    counts = {name: behind(cells, name) for name in names}
    because = ", ".join(f"{name} {count}" for name, count in counts.items())
    text = f"{FIRST_TWENTIETH.words}: {OURS} is more than {BEHIND} behind the best in no run"
    return Verdict(text, word_of(not counts[OURS]), f"of {len(pooled(cells, OURS, FIRST_TWENTIETH))} runs: {because}")


def _new_queries(cells: Cells) -> Iterator[Verdict]:
    other = best_other(cells, NEW_AT_END)
    text = f"{NEW_AT_END.words}, pooled: {OURS} is above the best other, {other}"
    yield is_above(text, pooled(cells, OURS, NEW_AT_END), pooled(cells, other, NEW_AT_END))
    sentences, held = [], True
    for stream in dict.fromkeys(stream for stream, _ in cells):
        stream_cells = {key: curves for key, curves in cells.items() if key[0] == stream}
        best = best_other(stream_cells, NEW_AT_END)
        difference = float(
            np.nanmean(pooled(stream_cells, OURS, NEW_AT_END)) - np.nanmean(pooled(stream_cells, best, NEW_AT_END))
        )
        sentences.append(f"{stream}: {number(difference)} to {best}")
        held = held and difference >= -BELOW
    text = f"{NEW_AT_END.words}: {OURS} is on no set more than {BELOW} below another"
    yield Verdict(text, word_of(held), "; ".join(sentences))


def _drift(cells: Cells) -> Iterator[Verdict]:
    drifting = {stream: curves for (stream, condition), curves in cells.items() if condition == DRIFT}
    for stream, curves in drifting.items():
        if stream in IN_DRIFT:
            ours, goal = estimate(value_of(curves, OURS, LAST_TENTH)), IN_DRIFT[stream]
            text = f"drift, {LAST_TENTH.words}, {stream}: {OURS} reaches {goal}"
            yield Verdict(text, word_of(ours.mean >= goal), str(ours))
    for stream, curves in drifting.items():
        text = f"drift, {AFTER_CHANGE.words}, {stream}: {OURS} is above {SHORT_MEMORY}"
        yield is_above(text, value_of(curves, OURS, AFTER_CHANGE), value_of(curves, SHORT_MEMORY, AFTER_CHANGE))
    false, noticed = (
        _alarms(steady(cells)),
        _alarms({(stream, DRIFT): stream_curves for stream, stream_curves in drifting.items()}),
    )
    because = (
        f"alarms in {false[0]} of {false[1]} runs in which nothing changes, in {noticed[0]} of {noticed[1]} others"
    )
    yield Verdict("where nothing changes there is no alarm, so that it costs nothing", word_of(not false[0]), because)


def _alarms(cells: Cells) -> tuple[int, int]:
    """In how many runs newton pairs has noticed a change, of how many."""
    counts = [curves.report(curves.streams[0], OURS, "alarms") for curves in cells.values()]
    last = np.concatenate([rows[:, -1] for rows in counts if rows is not None])
    return int(np.sum(last > 0)), len(last)


def _signed(difference: SeedMean) -> str:
    return f"{'+' if difference.mean > 0 else ''}{difference}"
