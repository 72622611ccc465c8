"""`rankloop fit-users`: a click model from a log, as users for any experiment."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import (
    AsJson,
    ColumnRoles,
    EngineChoice,
    EngineName,
    ListsLog,
    Plot,
    RankerName,
    Seed,
    Workers,
    engine_of,
    interruptible,
)


@command(
    "Your data",
    "rankloop fit-users --log clicks.parquet",
    "rankloop fit-users --log shop.csv --model dbn --out users.toml --plot users.png",
    "rankloop fit-users --log shop.csv --column item=article --json",
    name="fit-users",
)
def fit_users(
    log: ListsLog,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them.")
    ] = "best",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the users as TOML, for an experiment.")
    ] = None,
    by_item: Annotated[
        bool, typer.Option("--by-item", help="An item attracts alike whatever was asked: where queries seldom repeat.")
    ] = False,
    folds: Annotated[
        int, typer.Option("--folds", min=2, metavar="N", help="Parts of the visits, each held out once.")
    ] = 5,
    column: ColumnRoles = None,
    ranker: RankerName = "",
    plot: Plot = None,
    seed: Seed = 0,
    engine: EngineChoice = EngineName.here,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Fit click models to a log: how positions are examined, what attracts, when users stop.

    Each model is judged by visits that it was not fitted to: log-likelihood of a page and perplexity by position (1:
    every click foreseen, 2: as by tossing a coin). The answer is a table that an experiment takes as its users:
    feedback = {kind = "fitted_users", …}.
    """
    from rankloop.cli.output import print_json
    from rankloop.cli.progress import progress_bar
    from rankloop.click_models.fit import fit_users as fitted_users
    from rankloop.core.files import atomic_write, check_picture
    from rankloop.logs.columns import named_columns

    if plot is not None:
        check_picture(plot)
    with interruptible("nothing was saved"), progress_bar("fitting", unit="fits") as progress:
        users = fitted_users(
            log,
            model,
            by_item=by_item,
            folds=folds,
            seed=seed,
            engine=engine_of(engine, workers),
            progress=progress,
            columns=named_columns(column or []),
            ranker=ranker,
        )
    if out is not None:
        atomic_write(out, users.to_toml())
    if plot is not None:
        users.plot(plot)
    if as_json:
        print_json(users.to_json())
        return
    for note in users.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(users)
    for path in filter(None, (out, plot)):
        typer.echo(f"written: {path}")
