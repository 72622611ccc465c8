"""`rankloop fit-users`: fit a click model to a log, as the simulated users of an experiment."""

from pathlib import Path
from typing import Annotated, Any

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import engine_of, interruptible, option
from rankloop.cli.output import print_result, progress_bar


@command("Your data")
def fit_users(
    log: options.ListsLog,
    model: options.ClickModelName = "best",
    out: Annotated[Path | None, option("--out FILE", "Write the simulated users as TOML for an experiment.")] = None,
    by_item: Annotated[bool, option("--by-item", "Fit items without the query, where queries seldom repeat.")] = False,
    folds: Annotated[int, option("--folds N", "Number of folds for cross-validation.", min=2)] = 5,
    column: options.ColumnRoles = None,
    skip_bad_rows: options.SkipBadRows = False,
    ranker: options.RankerName = "",
    plot: options.Plot = None,
    seed: options.Seed = 0,
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit click models to a log: which positions users examine, which items attract them, when they stop.

    Each model is evaluated on held-out visits by the log-likelihood of a page and the perplexity by position (1: every
    click predicted, 2: no better than a coin). The result is a table for an experiment:
    feedback = {kind = "fitted_users", …}.
    """
    from rankloop.click_models.fit import fit_users as fit_click_model
    from rankloop.core.files import atomic_write
    from rankloop.logs.columns import named_columns

    reading: dict[str, Any] = {"columns": named_columns(column or []), "ranker": ranker, "skip_bad_rows": skip_bad_rows}
    where = engine_of(engine, workers)
    with interruptible("nothing was saved"), progress_bar("fitting", unit="fits") as progress:
        users = fit_click_model(
            log, model, by_item=by_item, folds=folds, seed=seed, engine=where, progress=progress, **reading
        )
    if out is not None:
        atomic_write(out, users.to_toml())
    if plot is not None:
        users.plot(plot)
    print_result(users, as_json, lines=[f"written: {path}" for path in (out, plot) if path is not None])
