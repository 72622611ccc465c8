"""`rankloop train --log`: a ranker from a log of lists and their clicks, a policy from a log of shown ads."""

from pathlib import Path

import typer

from rankloop.bandits.saved_policy import save_policy
from rankloop.bandits.train import train_policy
from rankloop.cli.logs.train_schema import LogTraining, bias_of, guess_schema, train_by_schema
from rankloop.cli.options import log_file
from rankloop.cli.output import print_json, show_table
from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.folder import given_path
from rankloop.data.parts.source import SCHEMA_COPIES, SCHEME, available_memory, check_memory
from rankloop.engine import SummingEngine
from rankloop.evaluation.choice_evaluation import evaluate_policies
from rankloop.experiments.report.model import Table
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.columns import GUESSES, LIST_ROLES, holds_lists, list_columns_of, named_columns
from rankloop.logs.service_export import exported_schemas, is_export
from rankloop.logs.table_source import TableSource
from rankloop.service.log.stores.open import POSTGRES
from rankloop.service.log.stores.sqlite import FILE
from rankloop.training.clicks.parts import LogColumns, train_on_click_parts
from rankloop.training.clicks.reader import read_click_log
from rankloop.training.clicks.train import GAIN, train_on_clicks

TRAINED = "trained policy"


def train_on_log(log: str, how: LogTraining, out: Path, as_json: bool) -> None:
    """A table, an export, or the folder of a service, whose log is exported first."""
    _check_solver(how)
    with log_file(log, how.ranker) as path:
        _train_on_file(path, how, out, as_json)


def is_in_parts(log: str) -> bool:
    """Whether a log is a folder or an address; what only the workers of a cluster see is given as file://…

    The folder or the database of a service is a log of its own.
    """
    if log.startswith(POSTGRES):
        return False
    if SCHEME in log:
        return True
    try:
        path = given_path(log)
        return path.is_dir() and not (path / FILE).exists()
    except NotFound:
        return False


def train_on_parts(address: str, how: LogTraining, engine: SummingEngine, out: Path, as_json: bool) -> None:
    """A ranker from a log of lists and clicks in parts, by the batch solver."""
    _check_solver(how)
    if how.schema is not None:
        limit = available_memory() // SCHEMA_COPIES["online"]
        raise InvalidInput(
            f"--schema is for a log in one file, of which all lists are held in memory (here at most {limit:,} bytes "
            f"of text); {address!r} holds parts, which are streamed as numbers"
        )
    if how.solver == "online":
        raise InvalidInput(f"--solver online is for a log in one file with a schema; {address!r} holds parts")
    for name in ("guess", "learner", "passes", "shown", "epsilon", "context", "tight", "ranker"):
        if getattr(how, name):
            option = "guess-schema" if name == "guess" else name
            raise InvalidInput(f"--{option} is for a log in one file; {address!r} holds parts")
    roles = named_columns(how.column, LIST_ROLES)
    columns = LogColumns(tuple(how.without), tuple(roles.items()), tuple(how.features))
    bias = None if how.position_bias is None else bias_of(how.position_bias).tolist()
    where = address if SCHEME in address else str(given_path(address))
    with progress_bar("training", unit="fits") as progress:
        ranker = train_on_click_parts(
            where,
            engine,
            how.loss,
            columns=columns,
            path=how.path,
            position_bias=bias,
            clip=how.clip,
            tolerance=how.settings.tolerance,
            progress=progress,
        )
    out.mkdir(parents=True, exist_ok=True)
    model = out / "model.rankloop"
    ranker.save(model)
    curve = {f"{regularisation:g}": gain for regularisation, gain in ranker.gains.items()}
    if as_json:
        answer = {"model": str(model), "regularisation": ranker.regularisation, "held_out": curve}
        print_json(answer | {"examined": ranker.examined.tolist(), "features": ranker.feature_names})
        return
    typer.echo(f"features: {', '.join(ranker.feature_names)}")
    rows = [(regularisation, f"{gain:.4f}") for regularisation, gain in curve.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    typer.echo(f"chosen: {ranker.regularisation:g}\nmodel: {model}")


def _check_solver(how: LogTraining) -> None:
    if how.solver not in (None, "online", "batch"):
        raise InvalidInput(f"--solver {how.solver!r} must be online or batch")


def _train_on_file(path: Path, how: LogTraining, out: Path, as_json: bool) -> None:
    """Lists and ads are told apart by their columns, or by what is asked."""
    if how.guess is not None:
        guess_schema(path, how, how.guess, as_json)
        return
    if how.schema is not None or (is_export(path) and exported_schemas(path)):
        check_memory(path, how.solver or "online")
        train_by_schema(path, how, out, as_json)
        return
    for name in ("learner", "passes", "shown"):
        if getattr(how, name) is not None:
            raise InvalidInput(f"--{name} is for training with a schema: add --schema FILE (--guess-schema writes one)")
    if how.solver == "online":
        raise InvalidInput("--solver online is for training with a schema: numbers as they are take the batch solver")
    of_ads = how.epsilon is not None or bool(how.context)
    of_ads |= any(part.split("=")[0] in ("action", "reward", "propensity", "target") for part in how.column)
    roles = named_columns(how.column, tuple(GUESSES) if of_ads else LIST_ROLES)
    if not is_export(path) and (of_ads or not holds_lists(TableSource(path).names, roles)):
        _train_policy(path, roles, how, out, as_json)
    else:
        _train_ranker(path, roles, how, out, as_json)


def _train_policy(path: Path, roles: dict[str, str], how: LogTraining, out: Path, as_json: bool) -> None:
    """Half of the rows train, the other half says what the policy would earn."""
    table, epsilon = ChoiceLog(path, **roles), how.epsilon or 0.0
    with progress_bar(f"training on {path.name}", "rows") as progress:
        trained = train_policy(
            table, how.seed, context=how.context or None, without=how.without, asked_for=how.features
        )
        report = evaluate_policies(
            table,
            trained.encoding,
            {TRAINED: trained.policy(epsilon)},
            model=trained.model,
            seed=how.seed,
            watch=lambda rows: progress(rows, rows),
        )
    out.mkdir(parents=True, exist_ok=True)
    model, plot = out / "model.rankloop", out / "estimates.png"
    save_policy(trained, epsilon, model, how.seed)
    report.plot(plot)
    if as_json:
        print_json(report.to_json() | {"model": str(model)})
        return
    typer.echo(report.text(path.name))
    typer.echo(f"The trained policy is in {model}, its ads and columns in {model}.json.")
    if not epsilon:
        typer.echo("It does not explore; --epsilon 0.1 keeps tomorrow's log useful.")
    typer.echo(f"The plot is in {plot}.")


def _train_ranker(path: Path, roles: dict[str, str], how: LogTraining, out: Path, as_json: bool) -> None:
    clicks = read_click_log(path, how.without, roles, how.features)
    bias = None if how.position_bias is None else bias_of(how.position_bias)
    with progress_bar("training", unit="fits") as progress:
        ranker = train_on_clicks(
            clicks,
            how.loss,
            tight=how.tight,
            path=how.path,
            position_bias=bias,
            clip=how.clip,
            seed=how.seed,
            progress=progress,
        )
    if ranker.weights_cancel:
        typer.echo(f"warning: no query came twice, so the weights of single clicks cancel in {how.loss}", err=True)
    out.mkdir(parents=True, exist_ok=True)
    model, best = out / "model.rankloop", ranker.regularisation
    ranker.save(model)
    curve = {f"{regularisation:g}": gain for regularisation, gain in ranker.gains.items()}
    if as_json:
        examined = ranker.examined.tolist()
        answer = {"model": str(model), "regularisation": best, "held_out": curve, "examined": examined}
        columns = {"features": clicks.feature_names, "left_out": (*clicks.left_out, *clicks.set_aside)}
        print_json(answer | columns | ({"outcomes": dict(clicks.outcomes)} if clicks.outcomes else {}))
        return

    if not is_export(path):
        typer.echo(str(list_columns_of(TableSource(path).names, how.without, roles, path.name)))
    typer.echo(clicks.described)
    rows = [(regularisation, f"{gain:.4f}") for regularisation, gain in curve.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    typer.echo(f"examination probability, first positions: {', '.join(f'{one:.2f}' for one in ranker.examined[:10])}")
    typer.echo(f"chosen: {best:g}\nmodel: {model}")
