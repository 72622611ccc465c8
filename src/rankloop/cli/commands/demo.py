"""`rankloop demo`: the whole loop in half a minute."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, EngineChoice, EngineName, Workers, engine_of, interruptible

NEXT = "next: rankloop reproduce top1-1 --quick, or rankloop list learners"


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

    A shop: clicks per page beside random order, the most clicked products and, where it is installed, VowpalWabbit.
    And simulated people who search: several learners learn from what they reveal. A report says how well.
    """
    from rankloop.cli.progress import progress_bar
    from rankloop.experiments.analysis.summary import finding_of
    from rankloop.experiments.demo import demo_experiment
    from rankloop.experiments.report.export import summary_json
    from rankloop.experiments.report.html import write_report
    from rankloop.experiments.run.runner import run_experiment
    from research.shop.demo import VISITS, shop_finding

    experiment = demo_experiment(seed, rounds)
    nothing = "nothing was written"
    with interruptible(nothing), TemporaryDirectory() as scratch, progress_bar("playing the loop") as progress:
        runs = run_experiment(experiment, Path(scratch), engine_of(engine, workers), progress)
    n_visits = VISITS if rounds is None else min(VISITS, rounds)
    with interruptible(nothing), progress_bar("playing the shop", "pages") as progress:
        shop = shop_finding(seed, n_visits, progress)
    finding = finding_of(experiment, runs)
    finding = finding._replace(charts=shop.charts + finding.charts, tables=shop.tables + finding.tables)
    report = write_report(out, finding.title, [finding])
    if as_json:
        from rankloop.cli.output import print_json

        header, *rows = shop.tables[0].header, *shop.tables[0].rows
        clicks = {row[0]: dict(zip(header[1:3], map(float, row[1:3]))) for row in rows}
        print_json(json.loads(summary_json(experiment, runs, finding, report)) | {"shop": clicks})
        return
    from rankloop.cli.help import as_called
    from rankloop.cli.output import show_claims, show_table

    show_table(shop.tables[0])
    for lack in shop.missing:
        typer.echo(lack)
    typer.echo(f"\n{len(runs)} runs of {experiment.horizon:,} rounds; a query ranked perfectly scores 1.\n")
    show_table(finding.tables[1])
    show_claims(finding.claims)
    typer.echo(f"\nreport: {report.resolve()}\n{as_called(NEXT)}")
