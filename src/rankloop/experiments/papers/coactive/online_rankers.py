"""The online rankers of the field on the same streams, under the same people: one table and one figure."""

from typing import Any

from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.analysis.verdicts import Verdict, is_above
from rankloop.experiments.papers.coactive.click_streams import (
    LETOR,
    MEASURE,
    ClickStream,
    arm,
    at_the_end,
    available_streams,
    click_experiment,
    data_fact,
)
from rankloop.experiments.papers.comparison import finding_with, play_all
from rankloop.experiments.papers.registry import Setting, reproduction
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.spec.model import FLOOR, Thing

OURS, PDGD, TUNED = "fair pairs", "PDGD", "PDGD, tuned"
RANKERS: dict[str, Any] = {
    OURS: {"kind": "fair_pairs"},
    "3PR": {"kind": "3pr"},
    "3PR, dynamic": {"kind": "3pr", "swap": "dynamic"},
    PDGD: {"kind": "pdgd"},
    TUNED: {"kind": "pdgd", "learning_rate": 1.0},
    "PDGD, one place": {"kind": "explore_at_most", "inner": {"kind": "pdgd"}, "places": 1},
    "MGD": {"kind": "mgd"},
    "DBGD": {"kind": "dbgd"},
}
TOP_1, FULL = "first item graded", "all items graded"
CONDITIONS = ("perfect", "navigational", "informational", "a fifth adversarial", "drift")
HORIZON, QUICK_HORIZON, QUICK_SEEDS = 20_000, 2000, 2
SEEDS = tuple(range(100, 120))  # nothing was chosen on them
TITLE = "Online rankers from clicks, side by side"
TEXT = """Eight learners from clicks, one that sees the grade of the first item and one that sees all grades, on the \
same queries and with the same people: the dependent click model with its published behaviours, navigational people of \
whom a fifth means the opposite, and navigational people whose taste changes half-way. Cells: mean quality of the \
rankings that were shown in the last tenth of the rounds. The parameters of fair pairs and the rate of the tuned PDGD \
(1.0, from 0.03, 0.1, 0.3, 1, 2 and 4) were chosen on MQ2007 and MQ2008 with other seeds; all others are as \
published."""


@reproduction("online-rankers", title=TITLE)
def online_rankers(setting: Setting) -> Finding:
    """Every learner, stream and condition; claims: fair pairs against PDGD, and the published order of the others."""
    found, notice = available_streams(LETOR)
    horizon, seeds = (QUICK_HORIZON, SEEDS[:QUICK_SEEDS]) if setting.quick else (HORIZON, SEEDS)
    experiments = [
        click_experiment(
            f"online-rankers-{stream.label}-{position}", *_setup(stream, condition, horizon), horizon, seeds
        )
        for stream in found
        for position, condition in enumerate(CONDITIONS)
    ]
    whole, played = finding_with(TEXT, notice), iter(play_all(experiments, setting))
    for stream in found:
        curves = {condition: next(played) for condition in CONDITIONS}
        whole = whole._replace(
            tables=(*whole.tables, _table(stream, curves)),
            charts=(*whole.charts, *(_figure(stream, name, curves[name]) for name in CONDITIONS)),
            claims=(*whole.claims, *_verdicts(stream, curves)),
        )
    return whole._replace(facts=(("seeds", ", ".join(map(str, seeds))), data_fact(found)))


def _setup(stream: ClickStream, condition: str, horizon: int) -> tuple[Thing, list[dict[str, Any]]]:
    """The stream and the arms of one condition."""
    behaviour = condition if condition in ("perfect", "informational") else "navigational"
    people: dict[str, Any] = {"kind": "dcm", "behaviour": behaviour, "max_grade": stream.max_grade}
    if condition == "a fifth adversarial":
        people = {"kind": "adversarial", "inner": people, "share": 0.2}
    change = "reverse" if stream.file else "redraw"  # a data set has no other weights to draw
    drifting = {"kind": "drift", "inner": stream.stream, "at": horizon // 2, "change": change}
    arms = [arm(name, learner, people) for name, learner in RANKERS.items()]
    arms.append(arm(TOP_1, {"kind": "topk_gradient"}, {"kind": "top_k", "depth": 1}))
    arms.append(arm(FULL, {"kind": "online_gradient"}, "full"))
    return drifting if condition == "drift" else stream.stream, arms


def _table(stream: ClickStream, curves: dict[str, Curves]) -> Table:
    rows = []
    for name in (FULL, *RANKERS, TOP_1, FLOOR):
        rows.append((name, *(str(estimate(at_the_end(curves[condition], name))) for condition in CONDITIONS)))
    n_seeds = len(next(iter(curves.values())).seeds)
    return Table(f"{stream.name}: {MEASURE}", ("", *CONDITIONS), rows, f"Mean ± standard error over {n_seeds} seeds.")


def _figure(stream: ClickStream, condition: str, curves: Curves) -> Chart:
    lines = []
    for colour, who in enumerate(curves.arms):
        rows = curves.of(curves.streams[0], who, MEASURE, "recent")
        if rows is not None:
            lines.append(Line(who, rows, colour, "floor" if who == FLOOR else "arm"))
    name = f"{stream.label}-{condition.replace(' ', '-')}"
    return chart(name, f"{stream.name}, {condition}", curves.rounds, lines, y_label=MEASURE, log_x=True)


def _verdicts(stream: ClickStream, curves: dict[str, Curves]) -> list[Verdict]:
    """Paired by seed: the best safe learner against PDGD everywhere, PDGD > MGD > DBGD under perfect clicks."""
    pairs = [(condition, OURS, other) for other in (PDGD, TUNED) for condition in CONDITIONS]
    pairs += [("perfect", PDGD, "MGD"), ("perfect", "MGD", "DBGD")]
    return [
        is_above(f"{stream.name}, {condition}: {more} is above {less}", at_the_end(one, more), at_the_end(one, less))
        for condition, more, less in pairs
        for one in [curves[condition]]
    ]
