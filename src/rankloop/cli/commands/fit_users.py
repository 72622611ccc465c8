"""`rankloop fit-users`: a click model from a log, as people for any experiment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, EngineChoice, EngineName, Workers, engine_of, interruptible, log_file

if TYPE_CHECKING:
    from rankloop.click_models.fit import UserFit
    from rankloop.click_models.page_log import ClickArrays

COLUMN = "Which column is what: list=NAME, query=, item=, position=, click=. May be repeated."


@command(
    "Your data",
    "rankloop fit-users --log clicks.parquet",
    "rankloop fit-users --log shop.csv --model dbn --out users.toml --plot users.png",
    "rankloop fit-users --log shop.csv --column item=article --json",
    name="fit-users",
)
def fit_users(
    log: Annotated[
        str,
        typer.Option("--log", metavar="LOG", help="A table of shown lists and their clicks, or a service's log."),
    ],
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them.")
    ] = "best",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the people as TOML, for an experiment.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw what was found (PNG, SVG, PDF).")
    ] = None,
    column: Annotated[list[str] | None, typer.Option("--column", metavar="ROLE=NAME", help=COLUMN)] = None,
    by_item: Annotated[
        bool, typer.Option("--by-item", help="An item attracts alike whatever was asked: where queries seldom repeat.")
    ] = False,
    folds: Annotated[
        int, typer.Option("--folds", min=2, metavar="N", help="Parts of the visits, each held out once.")
    ] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Which visits are in which part.")] = 0,
    ranker: Annotated[
        str, typer.Option("--ranker", metavar="NAME", help="Which ranker of a service, where it has several.")
    ] = "",
    engine: EngineChoice = EngineName.here,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Fit click models to a log: how positions are examined, what attracts, when people stop.

    Each model is judged by visits that it was not fitted to: log-likelihood of a page and perplexity by position (1:
    every click foreseen, 2: as by tossing a coin). The answer is a table that an experiment takes as its people:
    feedback = {kind = "fitted_users", …}.
    """
    from rankloop.cli.progress import progress_bar
    from rankloop.click_models.chart import check_picture, plot_fit
    from rankloop.click_models.fit import fit_users as fitted_users
    from rankloop.click_models.page_log import read_page_log
    from rankloop.core.files import atomic_write
    from rankloop.logs.columns import RAW_GUESSES, named_columns

    if plot is not None:
        check_picture(plot)
    with log_file(log, ranker) as path:
        pages = read_page_log(path, named_columns(column or [], tuple(RAW_GUESSES)))
    pages = pages.by_item() if by_item else pages
    with interruptible("nothing was saved"), progress_bar("fitting", unit="fits") as progress:
        found = fitted_users(pages, model, folds=folds, seed=seed, engine=engine_of(engine, workers), progress=progress)
    text = users_toml(found.fitted.spec())
    if out is not None:
        atomic_write(out, text)
    if plot is not None:
        plot_fit(found, plot)
    if as_json:
        from rankloop.cli.output import print_json

        print_json(_answer(pages, found))
        return
    _print(pages, found, text)
    for path in filter(None, (out, plot)):
        typer.echo(f"written: {path}")


def users_toml(spec: dict[str, Any]) -> str:
    """The people as the value of `feedback` in an experiment."""
    import json

    parts = (f"{name} = {json.dumps(value)}" for name, value in spec.items())
    return "feedback = { " + ", ".join(parts) + " }\n"


def _answer(pages: "ClickArrays", found: "UserFit") -> dict[str, object]:
    from rankloop.click_models.fit import examined_by_position

    held_out = {
        name: {
            "log_likelihood": one.log_likelihood,
            "perplexity": one.perplexity,
            "perplexity_by_position": one.by_position.tolist(),
        }
        for name, one in found.held_out.items()
    }
    size = {"pages": pages.n_pages, "pairs": pages.n_pairs, "clicks": int(pages.clicked.sum())}
    examined = examined_by_position(found.fitted).tolist()
    answer = {"model": found.fitted.name, "held_out": held_out, "examined": examined, "notes": found.notes}
    return size | answer | {"users": found.fitted.spec(), "columns": pages.columns}


def _print(pages: "ClickArrays", found: "UserFit", text: str) -> None:
    from rankloop.cli.output import show_table
    from rankloop.click_models.fit import examined_by_position
    from rankloop.experiments.report.model import Table

    if pages.columns:
        typer.echo(pages.columns)
    typer.echo(f"{pages.n_pages:,} pages, {pages.n_pairs:,} items of queries, {int(pages.clicked.sum()):,} clicks")
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    rows = [
        (name + " *" * (name == found.fitted.name), f"{one.log_likelihood:.4f}", f"{one.perplexity:.4f}")
        for name, one in found.held_out.items()
    ]
    show_table(Table("On visits that were held out", ("model", "log-likelihood of a page", "perplexity"), rows))
    first = ", ".join(f"{one:.2f}" for one in examined_by_position(found.fitted)[:10])
    typer.echo(f"examined, first positions: {first}\n\n{text}")
