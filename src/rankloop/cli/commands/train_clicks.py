"""`rankloop train-clicks`: train a ranker on a log of lists and their clicks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rankloop.cli import options
from rankloop.cli.app import NO_FILE, command
from rankloop.cli.options import argument, batch_solver, engine_of, interruptible, numbers_of, option
from rankloop.cli.output import print_trained, progress_bar, save_trees, show
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.logs.list_log import ListLog
SOLVER_HELP = "With a schema: passes of an online learner (default), or the optimum of --loss (default with --loss)."
GUESS_SCHEMA_HELP = "Write a schema for the log, or print it without a file, then stop."


@command("Your data")
def train_clicks(
    log: Annotated[str, argument("LOG", "A table of lists and clicks, or the folder or export of a service.")],
    schema: Annotated[Path | None, option("--schema FILE", "A schema: the kinds of columns and crosses.")] = None,
    guess_schema: Annotated[Path | None, option("--guess-schema [FILE]", GUESS_SCHEMA_HELP)] = None,
    solver: Annotated[Literal["online", "batch"] | None, option("--solver online|batch", SOLVER_HELP)] = None,
    learner: Annotated[str | None, option("--learner SPEC", "With a schema: click_regression or a spec.")] = None,
    passes: Annotated[int | None, option("--passes N", "Maximum online passes. Default: 5.", min=1)] = None,
    loss: options.Loss = None,
    regularisation: options.Regularisation = "path",
    trees: options.Trees = None,
    position_bias: options.PositionBias = None,
    column: options.ColumnRoles = None,
    skip_bad_rows: options.SkipBadRows = False,
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
    """Train a ranker on clicks, and save it for evaluate and serve.

    A click at a position that is rarely examined counts more. The default loss is the weighted ranking SVM, which is
    unbiased. For the loss of a measure (--loss nDCG@10) all lists of a query are merged, so queries must repeat.

    A log with texts, categories, dates or gaps is read by a schema: that of --schema or of a service, else a guessed
    one. An online learner passes over the logged lists; held-out lists choose the number of passes. With --solver batch
    the loss is minimised over all lists, and held-out lists choose the regularisation. The saved ranker can go on
    learning. --guess-schema FILE writes the schema to be changed; as the last option, without FILE, it prints it.

    With --trees, LightGBM gets categories and gaps as they are, and texts as hashed word counts.

    Columns that are known only after the click, such as a purchase, are no features unless --feature or the schema
    names them. More settings are in Python: `rankloop.train_clicks`.
    """
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import LIST_ROLES, named_columns
    from rankloop.logs.reader import lists_in
    from rankloop.training.clicks.passes import OnlinePasses
    from rankloop.training.clicks.train import check_log_size, schema_for
    from rankloop.training.clicks.train import train_clicks as train_on_clicks

    roles, features = named_columns(column or [], LIST_ROLES), tuple(feature or ())
    bias = None if position_bias is None else numbers_of("--position-bias", position_bias)
    batch = batch_solver(loss, regularisation, engine_of(engine, workers, threads=True))
    kinds = None if schema is None else Schema.from_toml(schema)
    check_log_size(log, kinds, solver or "online")
    ignored = () if kinds else without or ()
    lists = lists_in(log, columns=roles, without=ignored, schema=kinds, ranker=ranker, skip_bad_rows=skip_bad_rows)
    if guess_schema is not None:
        _write_schema(log, lists, column or [], features, guess_schema, as_json)
        return
    if trees is not None:
        from rankloop.training.clicks.train import train_click_trees

        kinds = None if kinds is None else kinds.without(without or ())
        save_trees(train_click_trees(lists, kinds, features=features, position_bias=bias), {}, out, as_json)
        return
    schema_note = ""
    if kinds is None:
        kinds, schema_note = schema_for(lists, features, is_needed=bool(learner or passes or solver == "online"))
    solver = solver or ("batch" if loss else "online")
    if schema_note:
        typer.echo(f"note: {schema_note}", err=True)
        check_log_size(log, kinds, solver)
        lists = lists.typed_by(kinds)
    elif kinds is not None:
        kinds = kinds.without(without or ())
    if passes and solver == "batch":
        raise InvalidInput("--passes is for --solver online: leave it out")
    if loss and solver == "online":
        raise InvalidInput("--loss is for --solver batch: leave one of them out")
    trainer = batch if kinds is None or solver == "batch" else OnlinePasses(max_passes=passes or 5)
    with interruptible("nothing was saved"), progress_bar(f"training on {lists.name}", unit="steps") as progress:
        result = train_on_clicks(
            lists,
            kinds,
            solver=trainer,
            learner=learner,
            features=features,
            position_bias=bias,
            seed=seed,
            progress=progress,
        )
    print_trained(result, out, as_json)


def _write_schema(
    log: str, lists: "ListLog", columns: list[str], features: tuple[str, ...], path: Path, as_json: bool
) -> None:
    """Write the schema that a log suggests, and print the reason for each column."""
    from shlex import quote

    from rankloop.core.files import atomic_write
    from rankloop.logs.schema_guess import guessed_schema
    from rankloop.training.report import text_table

    if lists.export is not None:
        reason = "contains its schema" if lists.schemas else "contains plain numbers"
        raise InvalidInput(f"{lists.name} is the export of a service and {reason}: leave --guess-schema out")
    guess = guessed_schema(lists, features)
    file = None if str(path) == NO_FILE else str(path)
    lines = [guess.schema.to_toml().rstrip("\n")]
    if file is not None:
        atomic_write(path, guess.schema.to_toml())
        roles = "".join(f" --column {quote(column)}" for column in columns)
        next_command = f"rankloop train-clicks {quote(log)} --schema {quote(file)}{roles}"
        lines = [
            text_table(("column", "part", "kind", "reason"), guess.lines()),
            f"crosses: {', '.join(guess.schema.crosses) or 'none'}",
            f"columns: {', '.join(f'{role} is {column}' for role, column in guess.roles.items())}",
            f"written: {path}; check it, then run: {next_command}",
        ]
    answer = {"file": file, "schema": guess.schema.to_plain(), "reasons": guess.reasons, "left_out": guess.left_out}
    show(as_json, answer | {"outcomes": guess.outcomes, "columns": guess.roles}, lines)
