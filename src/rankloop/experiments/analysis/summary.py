"""Summarise the runs of an experiment: charts, tables of arms, comparisons, verdicts."""

import math
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec
import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import Curves, estimate, number
from rankloop.experiments.analysis.verdicts import holm, judge, paired
from rankloop.experiments.report.charts import Line, Role, chart
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.report.result_tables import final_values
from rankloop.experiments.run.tasks import PACKAGE_VERSION, ceiling_note, window_of, without_regret
from rankloop.experiments.spec.model import CEILING, FLOOR, Experiment, Quantity

CHART_TITLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def finding_of(curves: Curves) -> Finding:
    """Return the section of a report about an experiment."""
    experiment = curves.experiment
    missing = without_regret(experiment) if experiment.regret else []
    panels = [(stream, measure) for stream in curves.streams for measure in curves.measures]
    return Finding(
        id=experiment.name,
        title=experiment.title or experiment.name,
        text=experiment.description,
        claims=tuple(judge(claim, curves) for claim in experiment.claims),
        charts=tuple(_charts(curves)),
        tables=(
            *(_first_and_last_table(curves, stream, measure) for stream, measure in panels),
            *(_comparison(curves, stream, measure) for stream, measure in panels),
        ),
        inside=tuple(_reports(curves)),
        facts=(
            *((f"regret of {measure}", "not available (too many items to try all rankings)") for measure in missing),
            *((f"unstable updates of {arm}", f"{count:,} refused") for arm, count in curves.refused().items()),
            ("rounds", f"{experiment.horizon:,}"),
            ("seeds", ", ".join(map(str, curves.seeds))),
            *([("streams", ", ".join(curves.streams))] if len(curves.streams) > 1 else []),
            ("rankloop", PACKAGE_VERSION),
        ),
        spec=msgspec.json.format(msgspec.json.encode(experiment), indent=2).decode(),
    )


def _first_and_last_table(curves: Curves, stream: str, measure: str) -> Table:
    """Compare the first rounds with the last ones, arms from best to worst."""
    experiment, window = curves.experiment, window_of(curves.experiment)
    overall: dict[Quantity, str] = {"average": "all rounds"}
    if experiment.regret and measure not in without_regret(experiment):
        overall["regret"] = "regret"
    rows = []
    for arm in curves.from_best(stream, measure):
        values = curves.of(stream, arm, measure, "recent")
        if values is not None:
            first, last = values[:, curves.column_of(window)], values[:, -1]
            means = [estimate(curves.at(arm, measure, quantity, stream)) for quantity in overall]
            cells = (estimate(first), estimate(last), _with_sign(estimate(last - first).mean), *means)
            rows.append((arm, *map(str, cells)))
    share = f"{100 * window / experiment.horizon:.3g} %"
    header = ("arm", f"first {share}", f"last {share}", "change", *overall.values())
    notes = [f"Mean ± standard error over {_seeds(curves)}.", *([ceiling_note(measure)] * experiment.ceiling)]
    return Table(_title_with_stream(measure, stream, curves), header, rows, " ".join(notes))


def _charts(curves: Curves) -> Iterator[Chart]:
    experiment = curves.experiment
    usual: tuple[Quantity, ...] = ("average", "regret") if experiment.regret else ("average",)
    for stream, measure, quantity in product(curves.streams, curves.measures, experiment.figures.quantities or usual):
        lines = _lines({arm: curves.of(stream, arm, measure, quantity) for arm in curves.arms})
        if lines:
            words = CHART_TITLES["quantities"][quantity].format(window=window_of(experiment))
            yield chart(
                _file_name(stream, measure, quantity),
                f"{_title_with_stream(measure, stream, curves)}: {words}",
                curves.rounds,
                lines,
                caption=_caption(curves),
                y_label=f"{measure} regret" if quantity == "regret" else measure,
                log_x=_log_x(experiment),
                log_y=experiment.figures.log_y,
            )


def _reports(curves: Curves) -> Iterator[Chart]:
    """Draw the values that learners report, unless they only count rounds or never change."""
    for stream, path in product(curves.streams, curves.reported()):
        lines = _lines({arm: curves.report(stream, arm, path) for arm in curves.arms})
        if not all(np.all(line.rows == curves.rounds) or np.ptp(line.rows) == 0.0 for line in lines):
            name = _file_name(stream, "report", path)
            title = _title_with_stream(CHART_TITLES["reports"].get(path, path), stream, curves)
            log_x, caption = _log_x(curves.experiment), _caption(curves)
            yield chart(name, title, curves.rounds, lines, caption=caption, log_x=log_x)


def _lines(values: dict[str, Floats | None]) -> list[Line]:
    """Return the curves of the arms that have values; an arm has the same colour in every chart."""
    roles: dict[str, Role] = {FLOOR: "floor", CEILING: "ceiling"}
    coloured = enumerate(values.items())
    return [Line(arm, rows, n, roles.get(arm, "arm")) for n, (arm, rows) in coloured if rows is not None]


def _log_x(experiment: Experiment) -> bool:
    return experiment.spacing == "log" if experiment.figures.log_x is None else experiment.figures.log_x


def _comparison(curves: Curves, stream: str, measure: str) -> Table:
    """Compare every arm with the best one, paired by seed, over all rounds."""
    title = f"{_title_with_stream(measure, stream, curves)}: every arm against the best, all rounds"
    header = ("arm", "against", "difference", "95 % interval", "p-value")
    if len(curves.seeds) < 2:
        return Table(title, header, [], "Tests of significance need at least two seeds.")
    best, *others = [arm for arm in curves.from_best(stream, measure) if arm != CEILING]
    best_values = curves.at(best, measure, "average", stream)
    differences = [paired(curves.at(arm, measure, "average", stream), best_values) for arm in others]
    p_values = holm([difference.t_test for difference in differences])
    p_texts = ["–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}" for p in p_values]
    rows = [
        (arm, best, _with_sign(d.mean), f"{number(d.low)} to {number(d.high)}", p)
        for arm, d, p in zip(others, differences, p_texts)
    ]
    return Table(title, header, rows, f"Paired t-tests over {_seeds(curves)}, with Holm's correction.")


def _title_with_stream(name: str, stream: str, curves: Curves) -> str:
    return f"{name}, {stream}" if len(curves.streams) > 1 else name


def _caption(curves: Curves) -> str:
    return f"Mean over {_seeds(curves)}" + ("; the band is ± 1 standard error." if len(curves.seeds) > 1 else ".")


def _seeds(curves: Curves) -> str:
    return "1 seed" if len(curves.seeds) == 1 else f"{len(curves.seeds)} seeds"


def _with_sign(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)


def _file_name(*parts: str) -> str:
    return "-".join("".join(c if c.isalnum() else "_" for c in part).strip("_") for part in parts if part)


def summary_json(curves: Curves, finding: Finding, report: Path) -> str:
    """Return the last values of every arm, as mean and standard error over seeds, and the verdicts, as JSON.

    Args:
      curves: The values of the experiment.
      finding: The section of the report about it.
      report: The path of the report.
    """
    summary = {
        "experiment": curves.experiment.name,
        "version": PACKAGE_VERSION,
        "rounds": curves.experiment.horizon,
        "report": str(report),
        "results": final_values(curves),
        "claims": [msgspec.structs.asdict(verdict) for verdict in finding.claims],
    }
    return msgspec.json.encode(summary).decode()
