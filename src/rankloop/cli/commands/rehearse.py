"""`rankloop rehearse`: would it help us, with which learner, and what would it cost?"""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import (
    AsJson,
    ColumnRoles,
    EngineChoice,
    EngineName,
    Imports,
    ListsLog,
    Out,
    Quick,
    RankerName,
    WithoutColumns,
    Workers,
    engine_of,
    interruptible,
)


@command(
    "Your data",
    "rankloop rehearse --log clicks.parquet",
    "rankloop rehearse --log shop.csv --schema shop.toml --pages 10000 --seeds 10",
    "rankloop rehearse --log shop.csv --learner click_regression --learner pdgd --json",
)
def rehearse(
    log: ListsLog,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="What the columns are, instead of a guess.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them.")
    ] = "best",
    learner: Annotated[
        list[str] | None,
        typer.Option("--learner", metavar="SPEC", help="Instead of those that advise names; may be repeated."),
    ] = None,
    pages: Annotated[int, typer.Option("--pages", min=20, metavar="N", help="How long each learner is played.")] = 3000,
    seeds: Annotated[int, typer.Option("--seeds", min=2, metavar="N", help="How many worlds, for the intervals.")] = 5,
    column: ColumnRoles = None,
    without: WithoutColumns = None,
    ranker: RankerName = "",
    out: Out = None,
    engine: EngineChoice = EngineName.local,
    workers: Workers = None,
    quick: Quick = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Play learners against the users of a log, and say what they would win beside today's order.

    Click models are fitted to the log, queries, items and fields are taken from it, and the learners that fit (see
    advise) are played with the logged order as the baseline. The answer is which to take, with which parameters, what
    it would win in clicks, and in purchases and money where the log has them, and what exploring would cost; or that
    there is nothing to win, or that the log cannot tell.
    """
    from rankloop.cli.output import print_json
    from rankloop.cli.progress import progress_bar
    from rankloop.experiments.rehearsal.answer import rehearse as rehearsed
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import named_columns

    name = Path(log).name
    with interruptible("nothing was kept"), progress_bar(f"rehearsing {name}", unit="learners") as progress:
        rehearsal = rehearsed(
            log,
            model,
            schema=None if schema is None else Schema.from_toml(schema),
            pages=max(20, pages // 10) if quick else pages,
            seeds=2 if quick else seeds,
            learners=learner or [],
            engine=engine_of(engine, workers),
            progress=progress,
            columns=named_columns(column or []),
            without=without or [],
            ranker=ranker,
        )
    report = rehearsal.write_report(out or Path("results") / f"rehearsal-{Path(name).stem}")
    if as_json:
        print_json(rehearsal.to_json() | {"report": str(report)})
        return
    for note in rehearsal.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{rehearsal}\nreport: {report}")
