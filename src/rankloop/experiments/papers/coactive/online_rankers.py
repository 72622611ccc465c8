"""The online rankers of the field on the same streams, under the same people: one table and one figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.papers.coactive.click_streams import LETOR, MEASURE, ClickWorld, click_worlds, curves_of
from rankloop.experiments.papers.registry import Setting, reproduction
from rankloop.experiments.papers.verdict import is_above
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.spec.model import FLOOR

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
    """Every learner, world and condition; claims: fair pairs against PDGD, and the published order of the others."""
    found, notice = click_worlds(LETOR)
    horizon, seeds = (QUICK_HORIZON, SEEDS[:QUICK_SEEDS]) if setting.quick else (HORIZON, SEEDS)
    missing = (notice.strip(),) if notice else ()
    facts = (("seeds", ", ".join(map(str, seeds))), ("data", "; ".join(world.name for world in found)))
    whole = Finding(id="online-rankers", title=TITLE, text=notice + TEXT, missing=missing, facts=facts)
    setups = {
        f"online-rankers-{world.label}-{position}": _setup(world, condition, horizon)
        for world in found
        for position, condition in enumerate(CONDITIONS)
    }
    played = iter(curves_of(setups, horizon, seeds, setting))
    for world in found:
        curves = {condition: next(played) for condition in CONDITIONS}
        whole = whole._replace(
            tables=(*whole.tables, _table(world, curves)),
            charts=(*whole.charts, *(_figure(world, name, curves[name]) for name in CONDITIONS)),
            claims=(*whole.claims, *_verdicts(world, curves)),
        )
    return whole


def _setup(world: ClickWorld, condition: str, horizon: int) -> tuple[Any, list[dict[str, Any]]]:
    """The stream and the arms of one condition."""
    behaviour = condition if condition in ("perfect", "informational") else "navigational"
    people: dict[str, Any] = {"kind": "dcm", "behaviour": behaviour, "max_grade": world.max_grade}
    if condition == "a fifth adversarial":
        people = {"kind": "adversarial", "inner": people, "share": 0.2}
    change = "reverse" if world.file else "redraw"  # a data set has no other weights to draw
    drifting = {"kind": "drift", "inner": world.stream, "at": horizon // 2, "change": change}
    stream = drifting if condition == "drift" else world.stream
    arms = [{"name": name, "learner": learner, "feedback": people} for name, learner in RANKERS.items()]
    graded = {"kind": "topk_gradient"}, {"kind": "top_k", "depth": 1}
    arms.append({"name": TOP_1, "learner": graded[0], "feedback": graded[1]})
    arms.append({"name": FULL, "learner": {"kind": "online_gradient"}, "feedback": "full"})
    return stream, arms


def _table(world: ClickWorld, curves: dict[str, Curves]) -> Table:
    rows = []
    for arm in (FULL, *RANKERS, TOP_1, FLOOR):
        rows.append((arm, *(str(estimate(_final(curves[condition], arm))) for condition in CONDITIONS)))
    n_seeds = len(next(iter(curves.values())).seeds)
    return Table(f"{world.name}: {MEASURE}", ("", *CONDITIONS), rows, f"Mean ± standard error over {n_seeds} seeds.")


def _figure(world: ClickWorld, condition: str, curves: Curves) -> Chart:
    lines = []
    for colour, arm in enumerate(curves.arms):
        rows = curves.of(curves.streams[0], arm, MEASURE, "recent")
        if rows is not None:
            lines.append(Line(arm, rows, colour, "floor" if arm == FLOOR else "arm"))
    name = f"{world.label}-{condition.replace(' ', '-')}"
    return chart(name, f"{world.name}, {condition}", curves.rounds, lines, y_label=MEASURE, log_x=True)


def _verdicts(world: ClickWorld, curves: dict[str, Curves]) -> list[Verdict]:
    """Paired by seed: the best safe learner against PDGD everywhere, PDGD > MGD > DBGD under perfect clicks."""
    pairs = [(condition, OURS, other) for other in (PDGD, TUNED) for condition in CONDITIONS]
    pairs += [("perfect", PDGD, "MGD"), ("perfect", "MGD", "DBGD")]
    return [
        is_above(f"{world.name}, {condition}: {more} is above {less}", _final(one, more), _final(one, less))
        for condition, more, less in pairs
        for one in [curves[condition]]
    ]


def _final(curves: Curves, arm: str) -> Floats:
    rows = curves.of(curves.streams[0], arm, MEASURE, "recent")
    return np.full(len(curves.seeds), np.nan) if rows is None else rows[:, -1]
