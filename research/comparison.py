"""Learners compared on several streams: an experiment for each, under one finding."""

from typing import Any

from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.runner import run_experiment
from rankloop.experiments.spec.load import parse_spec
from rankloop.experiments.spec.model import Experiment, Thing
from research.registry import Setting
from research.verdicts import about


def label_of(name: str) -> str:
    """The name of a stream as part of a file name."""
    return name.lower().replace(",", "").replace(" ", "-")


def experiment_of(
    name: str,
    stream: Thing | None,
    arms: list[dict[str, Any]],
    measure: str,
    horizon: int,
    seeds: int | tuple[int, ...],
    **more: Any,
) -> Experiment:
    """An experiment on one stream and one measure, without the ceiling; `more` are further fields, as `streams`."""
    table: dict[str, Any] = {"stream": stream, "arms": arms, "measures": [measure], "horizon": horizon, "seeds": seeds}
    return parse_spec(table | {"ceiling": False} | more, name, name)


def play_all(experiments: list[Experiment], setting: Setting) -> list[Curves]:
    """The curves of each, played one after the other into a folder of its own."""
    folders = [(experiment, setting.folder / experiment.name) for experiment in experiments]
    played = [run_experiment(experiment, folder, setting.engine, setting.progress) for experiment, folder in folders]
    return [Curves(experiment, runs) for experiment, runs in zip(experiments, played)]


def with_part(finding: Finding, name: str, part: Finding) -> Finding:
    """Return a finding with the claims, charts and tables of a part, each under its name, and the part's facts."""
    return finding._replace(
        claims=finding.claims + about((name,), part.claims),
        charts=finding.charts + tuple(chart._replace(title=f"{name}: {chart.title}") for chart in part.charts),
        tables=finding.tables + tuple(table._replace(title=f"{name}: {table.title}") for table in part.tables),
        inside=finding.inside + tuple(chart._replace(title=f"{name}: {chart.title}") for chart in part.inside),
        facts=part.facts,
    )


def finding_with(text: str, notice: str) -> Finding:
    """A finding to be filled, with a notice about the data that this machine lacks."""
    return Finding(text=notice + text, missing=(notice.strip(),) if notice else ())
