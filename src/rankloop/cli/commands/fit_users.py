"""`rankloop fit-users`: a click model from a log, as users for any experiment."""

from pathlib import Path
from typing import Annotated

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import engine_of, flag, interruptible, option
from rankloop.cli.output import print_result, progress_bar


@command(
    "Your data",
    "rankloop fit-users --log clicks.parquet",
    "rankloop fit-users --log shop.csv --model dbn --out users.toml --plot users.png",
    "rankloop fit-users --log shop.csv --column item=article --json",
    name="fit-users",
)
def fit_users(
    log: options.ListsLog,
    model: options.ClickModelName = "best",
    out: Annotated[Path | None, option("--out", "FILE", "Write the users as TOML, for an experiment.")] = None,
    by_item: Annotated[
        bool, flag("--by-item", "An item attracts alike whatever was asked: where queries seldom repeat.")
    ] = False,
    folds: Annotated[int, option("--folds", "N", "Parts of the visits, each held out once.", min=2)] = 5,
    column: options.ColumnRoles = None,
    ranker: options.RankerName = "",
    plot: options.Plot = None,
    seed: options.Seed = 0,
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit click models to a log: how positions are examined, what attracts, when users stop.

    Each model is judged by visits that it was not fitted to: log-likelihood of a page and perplexity by position (1:
    every click foreseen, 2: as by tossing a coin). The answer is a table that an experiment takes as its users:
    feedback = {kind = "fitted_users", …}.
    """
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
    print_result(users, as_json, {}, *(f"written: {path}" for path in (out, plot) if path is not None))
