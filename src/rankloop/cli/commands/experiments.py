"""`rankloop demo` and `rankloop run`: run the built-in experiment or that of a TOML file, and write its report."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, engine_of, interruptible, option
from rankloop.cli.output import progress_bar, show_claims, show_table


@command("Start here")
def demo(
    seed: Annotated[int, option("--seed N", "First seed of the simulations.", min=0)] = 0,
    rounds: Annotated[int | None, option("--rounds N", "Number of rounds per run. Default: 10,000.", min=20)] = None,
    out: Annotated[Path, option("--out FOLDER", "Folder for the report.")] = Path("results/demo"),
    engine: options.EngineChoice = "local",
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a demonstration in half a minute.

    Several learners rank for simulated users and learn from their clicks; a report compares them.
    """
    from rankloop.experiments.analysis.curves import Curves
    from rankloop.experiments.analysis.summary import finding_of, summary_json
    from rankloop.experiments.report.html import write_report
    from rankloop.experiments.run.runner import run_experiment
    from rankloop.experiments.spec.load import demo_experiment

    experiment = demo_experiment(seed, rounds)
    with interruptible("nothing was written"), TemporaryDirectory() as scratch, progress_bar("simulating") as progress:
        curves = Curves(experiment, run_experiment(experiment, Path(scratch), engine_of(engine, workers), progress))
    finding = finding_of(curves)
    report = write_report(out, finding.title, [finding])
    if as_json:
        typer.echo(summary_json(curves, finding, report))
        return
    typer.echo(f"{len(curves.runs)} runs of {experiment.horizon:,} rounds; a perfect ranking scores 1.\n")
    show_table(finding.tables[0])
    show_claims(finding.claims)
    typer.echo(f"\nreport: {report.resolve()}\nnext: rankloop serve --demo, or rankloop list learners")


@command("Experiments")
def run(
    spec: Annotated[Path, argument("SPEC", "The experiment: a TOML file.")],
    out: options.Out = None,
    engine: options.EngineChoice = "local",
    workers: options.Workers = None,
    seeds: Annotated[int | None, option("--seeds N", "Number of seeds, instead of the file's.", min=1)] = None,
    quick: options.Quick = False,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Run an experiment, or continue an interrupted one, and write its report.

    Every finished run is saved in the results folder (default: results/NAME). An experiment can import and run Python
    code: read a file of another author before you run it.
    """
    import msgspec

    from rankloop.core.files import atomic_write
    from rankloop.experiments.analysis.curves import Curves
    from rankloop.experiments.analysis.summary import finding_of, summary_json
    from rankloop.experiments.report.html import write_report
    from rankloop.experiments.report.result_tables import csv_table, latex_table
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
        curves = Curves(experiment, run_experiment(experiment, folder, engine_of(engine, workers), progress))
    finding = finding_of(curves)
    report = write_report(folder, finding.title, [finding])
    atomic_write(folder / "results.csv", csv_table(curves))
    atomic_write(folder / "results.tex", latex_table(curves))
    if as_json:
        typer.echo(summary_json(curves, finding, report))
        return
    for table in finding.tables:
        if table.header[0:2] != ("arm", "against"):  # comparisons are in the report
            show_table(table)
    show_claims(finding.claims)
    typer.echo(f"report: {report}; tables for a paper: {folder / 'results.csv'}, {folder / 'results.tex'}")
