"""`rankloop run`: an experiment from its TOML file to a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import (
    AsJson,
    EngineChoice,
    EngineName,
    Imports,
    Out,
    Quick,
    Workers,
    engine_of,
    interruptible,
)

if TYPE_CHECKING:
    from rankloop.experiments.report.model import Finding


@command(
    "Experiments",
    "rankloop run examples/web_search.toml --quick",
    "rankloop run mine.toml --import my_learner.py --out results/second-try",
)
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")],
    out: Out = None,
    engine: EngineChoice = EngineName.local,
    workers: Workers = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, metavar="N", help="How many seeds, instead of the file's.")
    ] = None,
    quick: Quick = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, or go on with it where it was interrupted, and write its report.

    Every finished run is kept in the results folder (by default results/NAME) before the next one starts. What the
    experiment imports is code that runs: read an experiment of somebody else before you run it.
    """
    import msgspec

    from rankloop.cli.progress import progress_bar
    from rankloop.experiments.analysis.summary import finding_of
    from rankloop.experiments.report.html import write_report
    from rankloop.experiments.run.runner import run_experiment
    from rankloop.experiments.run.tasks import quick_version
    from rankloop.experiments.spec.load import read_spec

    experiment = read_spec(spec)
    if imports:
        experiment = msgspec.structs.replace(experiment, imports=(*experiment.imports, *imports))
    if quick:
        experiment = quick_version(experiment)
    if seeds is not None:
        experiment = msgspec.structs.replace(experiment, seeds=seeds)
    folder = out or Path("results") / experiment.name
    with interruptible(), progress_bar(experiment.name) as progress:
        runs = run_experiment(experiment, folder, engine_of(engine, workers), progress)
    finding = finding_of(experiment, runs)
    report = write_report(folder, finding.title, [finding])
    if as_json:
        from rankloop.experiments.analysis.summary import summary_json

        typer.echo(summary_json(experiment, runs, finding, report))
        return
    _print(finding, report)


def _print(finding: "Finding", report: Path) -> None:
    from rankloop.cli.output import show_claims, show_table

    for table in finding.tables:
        if table.header[0:2] != ("arm", "against"):  # comparisons are in the report
            show_table(table)
    show_claims(finding.claims)
    typer.echo(f"report: {report}")
