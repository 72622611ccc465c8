"""`rankloop demo`: the whole loop in half a minute."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, EngineChoice, EngineName, Workers, engine_of, interruptible

NEXT = "next: rankloop serve --demo, or rankloop list learners"


@command("Start here", "rankloop demo", "rankloop demo --seed 7 --rounds 2000")
def demo(
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The first of the seeds: another world, other people.")
    ] = 0,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=20, metavar="N", help="How many rankings are shown; 10,000 as a rule.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for the report.")] = Path(
        "results/demo"
    ),
    engine: EngineChoice = EngineName.local,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Play the whole loop in half a minute.

    Simulated people search, several learners learn from what they reveal, and a report says how well.
    """
    from rankloop.cli.help import as_called
    from rankloop.cli.output import show_claims, show_table
    from rankloop.cli.progress import progress_bar
    from rankloop.experiments.analysis.summary import finding_of, summary_json
    from rankloop.experiments.demo import demo_experiment
    from rankloop.experiments.report.html import write_report
    from rankloop.experiments.run.runner import run_experiment

    experiment = demo_experiment(seed, rounds)
    interruption = interruptible("nothing was written")
    with interruption, TemporaryDirectory() as scratch, progress_bar("playing the loop") as progress:
        runs = run_experiment(experiment, Path(scratch), engine_of(engine, workers), progress)
    finding = finding_of(experiment, runs)
    report = write_report(out, finding.title, [finding])
    if as_json:
        typer.echo(summary_json(experiment, runs, finding, report))
        return
    typer.echo(f"{len(runs)} runs of {experiment.horizon:,} rounds; a query ranked perfectly scores 1.\n")
    show_table(finding.tables[0])
    show_claims(finding.claims)
    typer.echo(f"\nreport: {report.resolve()}\n{as_called(NEXT)}")
