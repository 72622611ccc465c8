"""`rankloop rehearse`: would it help us, with which learner, and what would it cost?"""

from pathlib import Path
from typing import Annotated

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
    log_file,
)


@command(
    "Your data",
    "rankloop rehearse --log clicks.parquet",
    "rankloop rehearse --log shop.csv --schema shop.toml --pages 10000 --seeds 10",
    "rankloop rehearse --log shop.csv --learner click_regression --learner pdgd --json",
)
def rehearse(
    log: Annotated[
        str,
        typer.Option("--log", metavar="LOG", help="A table of shown lists and their clicks, or a service's log."),
    ],
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
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="ROLE=NAME", help="Which column is what: list=, query=, item=, position= …"),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="COLUMN", help="Do not learn from this column; may be repeated."),
    ] = None,
    out: Out = None,
    engine: EngineChoice = EngineName.local,
    workers: Workers = None,
    quick: Quick = False,
    imports: Imports = None,
    ranker: Annotated[
        str, typer.Option("--ranker", metavar="NAME", help="Which ranker of a service, where it has several.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Play learners against the people of a log, and say what they would win beside today's order.

    Click models are fitted to the log, queries, items and fields are taken from it, and the learners that fit (see
    advise) are played with the logged order as the baseline. The answer is which to take, with which parameters, what
    it would win in clicks, and in purchases and money where the log has them, and what exploring would cost; or that
    there is nothing to win, or that the log cannot tell.
    """
    from rankloop.cli.output import print_json, show_table
    from rankloop.cli.progress import progress_bar
    from rankloop.experiments.rehearsal.answer import rehearse as rehearsed
    from rankloop.experiments.rehearsal.report import plain_answer, tables_of, write_rehearsal
    from rankloop.experiments.rehearsal.shown_log import read_shown_log
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import RAW_GUESSES, named_columns

    name = Path(log).name
    given = None if schema is None else Schema.from_toml(schema)
    with log_file(log, ranker) as path:
        shown = read_shown_log(path, given, named_columns(column or [], tuple(RAW_GUESSES)), without or [])
    if quick:
        pages, seeds = max(20, pages // 10), 2
    with interruptible("nothing was kept"), progress_bar(f"rehearsing {name}", unit="learners") as progress:
        answer = rehearsed(
            shown,
            model,
            pages=pages,
            seeds=seeds,
            learners=learner or [],
            engine=engine_of(engine, workers),
            progress=progress,
        )
    report = write_rehearsal(answer, out or Path("results") / f"rehearsal-{Path(name).stem}", name)
    if as_json:
        print_json(plain_answer(answer) | {"report": str(report)})
        return
    for note in answer.notes:
        typer.echo(f"note: {note}", err=True)
    for table in tables_of(answer):
        show_table(table)
    typer.echo(f"{answer.sentence}\nreport: {report}")
