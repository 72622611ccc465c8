"""`rankloop train-clicks`: a ranker from a log of lists and their clicks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, batch_solver, engine_of, interruptible, numbers_of, option
from rankloop.cli.output import print_json, print_trained, progress_bar, save_trees
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.logs.list_log import ListLog


@command(
    "Your data",
    "rankloop train-clicks clicks.csv --out results/from-clicks",
    "rankloop train-clicks shop.csv --guess-schema shop.toml",
    "rankloop train-clicks shop.csv --schema shop.toml --out results/shop",
    "rankloop train-clicks shop-data --solver batch --loss clicked_items --out results/shop",
    "rankloop train-clicks clicks.csv --trees lightgbm --out results/trees",
    name="train-clicks",
)
def train_clicks(
    log: Annotated[
        str,
        argument(
            "LOG",
            "A table of lists and clicks, the folder or export of a service, or parts in a folder or under an "
            "address (s3://…).",
        ),
    ],
    schema: Annotated[
        Path | None, option("--schema", "FILE", "Learn from texts, categories, ids … by the kinds and crosses in it.")
    ] = None,
    guess_schema: Annotated[
        Path | None, option("--guess-schema", "FILE", "Write the schema that the log suggests, and stop.")
    ] = None,
    solver: Annotated[
        str | None,
        option(
            "--solver",
            "online|batch",
            "With a schema: passes of an online learner (the default), or all lists at once, to the optimum of --loss.",
        ),
    ] = None,
    learner: Annotated[
        str | None,
        option("--learner", "SPEC", "What learns with a schema: click_regression, online_gradient or a spec."),
    ] = None,
    passes: Annotated[
        int | None, option("--passes", "N", "At most so many passes of the online solver; else 5.", min=1)
    ] = None,
    shown: Annotated[
        int | None, option("--shown", "N", "How many positions users see; else all of the longest list.", min=1)
    ] = None,
    clip: Annotated[float, option("--clip", "NUMBER", "No click counts more than this.")] = 10.0,
    loss: options.Loss = None,
    tight: options.Tight = False,
    regularisation: options.Regularisation = "path",
    tolerance: options.Tolerance = 1e-4,
    trees: options.Trees = None,
    position_bias: options.PositionBias = None,
    column: options.ColumnRoles = None,
    without: options.WithoutColumns = None,
    feature: options.FeatureColumns = None,
    ranker: options.RankerName = "",
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    out: options.TrainOut = Path("results/train"),
    seed: options.Seed = 0,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a ranker from clicks, and save it for evaluate and serve.

    Each click counts by how unlikely its position was to be examined. The default loss is the weighted ranking SVM,
    which is unbiased. For the loss of a measure (--loss nDCG@10) all lists of a query are merged into one first, so it
    needs queries that come again.

    With --schema, columns are numbers, categories, texts, ids, flags and dates, crossed as the file says; a learner
    goes over the logged lists, and held-out lists say how often. With --solver batch the loss (ordinal, list_net,
    clicked_items …) is minimised over all lists at once instead, and held-out lists choose the regularisation; the
    saved ranker goes on learning from there. --guess-schema writes a schema. The log of a service has its schema in it.

    Columns that are known only after the click, such as a purchase or a second name of the click, are never features
    unless --feature or the schema asks for them.
    """
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import LIST_ROLES, named_columns
    from rankloop.logs.reader import lists_in
    from rankloop.training.clicks.parts import LogColumns, train_click_parts
    from rankloop.training.clicks.passes import OnlinePasses
    from rankloop.training.clicks.train import check_log_size, is_in_parts, schema_without
    from rankloop.training.clicks.train import train_clicks as train_on_clicks

    if solver not in (None, "online", "batch"):
        raise InvalidInput(f"--solver {solver!r} must be online or batch")
    roles, features = named_columns(column or [], LIST_ROLES), tuple(feature or ())
    bias = None if position_bias is None else numbers_of("--position-bias", position_bias)
    batch = batch_solver(loss, tight, regularisation, tolerance, engine_of(engine, workers, threads=True))
    with_schema: dict[str, object] = {"learner": learner, "passes": passes, "shown": shown}
    if is_in_parts(log):
        one_file: dict[str, object] = {"schema": schema, "guess-schema": guess_schema, "ranker": ranker, "trees": trees}
        one_file["solver online"] = solver == "online"
        _refuse(one_file | with_schema, f"is for a log in one file; {log!r} holds parts, streamed as numbers")
        columns = LogColumns(tuple(without or ()), tuple(roles.items()), features)
        with interruptible("nothing was saved"), progress_bar("training", unit="fits") as progress:
            result = train_click_parts(log, batch, columns, position_bias=bias, clip=clip, progress=progress)
        print_trained(result, out, as_json)
        return
    kinds = None if schema is None else Schema.from_toml(schema)
    check_log_size(log, kinds, solver or "online")
    lists = lists_in(log, columns=roles, without=() if kinds else without or (), schema=kinds, ranker=ranker)
    if guess_schema is not None:
        _write_schema(log, lists, column or [], features, guess_schema, as_json)
        return
    if trees is not None:
        from rankloop.training.clicks.trees import train_click_trees
        from rankloop.training.trees import TreeSettings

        settings = TreeSettings(kind=trees)
        boosters = train_click_trees(lists, features=features, position_bias=bias, clip=clip, settings=settings)
        save_trees(boosters, {}, out, as_json)
        return
    kinds = kinds or (lists.schemas[-1] if lists.schemas else None)
    if kinds is None:
        _refuse(with_schema, "is for training with a schema: add --schema FILE (--guess-schema writes one)")
        if solver == "online":
            raise InvalidInput("--solver online is for training with a schema: plain numbers take the batch solver")
    elif solver != "batch" and (loss is not None or tight):
        raise InvalidInput("--loss and --tight are for --solver batch")
    elif solver == "batch" and passes is not None:
        raise InvalidInput("--passes is for --solver online; the batch solver ends when it is near the optimum")
    kinds = None if kinds is None else schema_without(kinds, without or ())
    chosen = batch if kinds is None or solver == "batch" else OnlinePasses(max_passes=passes or 5)
    with interruptible("nothing was saved"), progress_bar(f"training on {lists.name}", unit="steps") as progress:
        result = train_on_clicks(
            lists,
            kinds,
            solver=chosen,
            learner=learner,
            features=features,
            position_bias=bias,
            clip=clip,
            shown=shown,
            seed=seed,
            progress=progress,
        )
    print_trained(result, out, as_json)


def _refuse(options: dict[str, object], reason: str) -> None:
    for name, value in options.items():
        if value:
            raise InvalidInput(f"--{name} {reason}")


def _write_schema(
    log: str, lists: "ListLog", columns: list[str], features: tuple[str, ...], path: Path, as_json: bool
) -> None:
    """Write the schema that a log suggests, and say what each column was taken for."""
    from shlex import quote

    from rankloop.core.files import atomic_write
    from rankloop.logs.schema_guess import guessed_schema
    from rankloop.training.report import text_table

    if lists.export is not None:
        reason = "has its schema in it" if lists.schemas else "holds plain numbers"
        raise InvalidInput(f"{lists.name} is the export of a service and {reason}: there is nothing to guess")
    guess = guessed_schema(lists, features)
    atomic_write(path, guess.schema.to_toml())
    if as_json:
        plain = {"schema": guess.schema.to_plain(), "reasons": guess.reasons, "left_out": guess.left_out}
        print_json({"file": str(path), **plain, "outcomes": guess.outcomes, "columns": guess.roles})
        return
    typer.echo(text_table(("column", "part", "kind", "why"), guess.lines()))
    typer.echo(f"crosses: {', '.join(guess.schema.crosses) or 'none'}")
    typer.echo(f"columns: {', '.join(f'{role} is {column}' for role, column in guess.roles.items())}")
    roles = "".join(f" --column {quote(column)}" for column in columns)
    then = f"rankloop train-clicks {quote(log)} --schema {quote(str(path))}{roles}"
    typer.echo(f"written: {path}; read it, change what is wrong, then: {then}")
