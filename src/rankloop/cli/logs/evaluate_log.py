"""`rankloop evaluate --log`: what a policy would earn, from a log that another one made."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

from rankloop.bandits.policy_evaluation import evaluate_policies
from rankloop.bandits.saved_policy import evaluate_saved_policy, save_policy
from rankloop.bandits.train import TRAINED_POLICY, train_policy
from rankloop.cli.logs.evaluate_lists import by_examination, evaluate_lists
from rankloop.cli.output import print_json
from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.data.folder import given_path
from rankloop.engine import Engine
from rankloop.evaluation import (
    LogTable,
    Options,
    evaluate_on_impressions,
    evaluate_on_lists,
    evaluate_on_rankings,
    evaluate_target,
)
from rankloop.evaluation.off_policy.judge import HERE
from rankloop.evaluation.off_policy.ranking_log import BY_NUMBERS, BY_POSITION, BY_SCHEMA
from rankloop.evaluation.off_policy.sums import NeverShown
from rankloop.evaluation.ranking.saved_model import load_with_schema
from rankloop.evaluation.report import Report, plot_report
from rankloop.features.schema import Schema
from rankloop.logs.columns import GUESSES, RAW_GUESSES, named_columns
from rankloop.logs.impressions import (
    exported_names,
    exported_schemas,
    holds_impressions,
    n_impressions,
    read_impressions,
    read_shown_lists,
)
from rankloop.logs.shown_lists import lists_of, read_raw_table
from rankloop.logs.typed_columns import fields_of
from rankloop.service.application.rankings import feature_names_in, is_service_log, logged_rankings, schemas_in

PICTURES = (".png", ".svg", ".pdf")
LEARNED_AGAIN = "a service's log is learned again in its order"


class LogOptions(NamedTuple):
    """What was asked of a log."""

    model: Path | None
    method: str  # empty: what suits the log
    options: Options
    ranker: str
    positions: int
    column: Sequence[str]  # ROLE=NAME, where the names of columns do not tell
    context: Sequence[str]  # the columns that tell of the visitor; empty: all that are not something else
    without: Sequence[str]  # columns that do not
    epsilon: float
    save: Path | None
    position_bias: str | None = None
    engine: Engine = HERE  # where lists are judged


Progress = Callable[[int, int], None]  # finished, of how many


def evaluate_log(log: str, asked: LogOptions, plot: Path | None, as_json: bool) -> None:
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {plot}: the name must end with .png, .svg or .pdf")
    name = Path(log).name
    if by_examination(log, asked):
        if is_service_log(log):
            _note_engine(asked, LEARNED_AGAIN)
        evaluate_lists(log, asked, plot, as_json)
        return
    asked = asked._replace(method=asked.method or "snips")
    with progress_bar(f"judging {name}", "rows") as progress:
        if is_service_log(log):
            _note_engine(asked, LEARNED_AGAIN)
            report = _on_service(log, asked)
        elif holds_impressions(path := given_path(log)):
            report = _on_export(path, asked, progress)
        else:
            report = _on_table(path, asked, progress)
    written = saved_lines(asked.save, asked.epsilon) if asked.save is not None and report.n_training else []
    if plot is not None:
        plot_report(report, plot)
        written.append(f"The plot is in {plot}.")
    print_report(name, report, written, as_json)


def _note_engine(asked: LogOptions, why: str) -> None:
    """Say that one process does it, where it does."""
    if asked.engine != HERE:
        typer.echo(f"note: {why}, which one process does: --engine changes nothing here", err=True)


def _on_table(path: Path, asked: LogOptions, progress: Progress) -> Report:
    """A saved policy, the policy of a column, or one that is trained on half of the rows, as 0.1 did it."""
    if asked.model is not None:
        session, schema = load_with_schema(asked.model)
        if schema is not None:
            return _on_lists(path, session, schema, asked, progress)
    _note_engine(asked, "the rows of an ad log are judged as they are read")
    table = LogTable(path, **named_columns(asked.column, tuple(GUESSES)))
    seed = asked.options.seed
    rest: dict[str, Any] = {"method": asked.method, "options": asked.options, "seed": seed}
    rest["watch"] = lambda rows: progress(rows, rows)
    if asked.model is not None:
        return evaluate_saved_policy(table, asked.model, **rest)
    if table.columns.target:
        return evaluate_target(table, asked.method, asked.options)
    typer.echo(f"no policy is named, so one is trained first, as `rankloop train --log {path.name}` does", err=True)
    trained = train_policy(
        table, epsilon=asked.epsilon, context=asked.context or None, without=asked.without, seed=seed
    )
    if asked.save is not None:
        save_policy(trained, asked.save)
    policies = {TRAINED_POLICY: trained.policy}
    return evaluate_policies(table, trained.encoding, policies, model=trained.model, **rest)


def _on_lists(path: Path, session: Session, schema: Schema, asked: LogOptions, progress: Progress) -> Report:
    """A saved ranker with a schema on a table of lists, each with the probability with which it was shown."""
    table = read_raw_table(path, schema, named_columns(asked.column, tuple(RAW_GUESSES)))
    if not table.roles.propensity:
        raise InvalidInput(
            f"{path.name} has no column with the probability of each list (such as propensity), without which it "
            "cannot tell what another ranker would earn: add --column propensity=NAME"
        )
    _refuse_by_position(path.name, asked)
    rest = f"ranker of {asked.model.name if asked.model else ''}", asked.method, asked.options
    lists = lists_of(table, schema)
    with _way_on(""):
        return evaluate_on_lists(
            session, schema, lists, *rest, engine=asked.engine, watch=lambda done: progress(done, len(lists))
        )


def _on_export(path: Path, asked: LogOptions, progress: Progress) -> Report:
    """A saved ranker on an export of impressions, by the probabilities of whole rankings."""
    _refuse_by_position(path.name, asked)
    model = _named_model(asked, path.name)
    (session, schema), known = load_with_schema(model), exported_schemas(path)
    rest, n_rows = (f"ranker of {model.name}", asked.method, asked.options), n_impressions(path)
    where: dict[str, Any] = {"engine": asked.engine, "watch": lambda done: progress(done, max(done, n_rows))}
    with _way_on("try --method position_wise, with the folder of the service instead of its export"):
        if schema is not None and known:
            check_fields(schema, known, model.name, path.name)
            return evaluate_on_lists(session, schema, read_shown_lists(path), *rest, **where)
        if schema is not None or known:
            learned, given = (BY_SCHEMA, BY_NUMBERS) if schema is not None else (BY_NUMBERS, BY_SCHEMA)
            raise InvalidInput(f"{model.name} learned from {learned}; {path.name} has {given}")
        names = exported_names(path)
        return evaluate_on_impressions(session, read_impressions(path), *rest, feature_names=names, **where)


def _refuse_by_position(log: str, asked: LogOptions) -> None:
    if asked.method in BY_POSITION:
        raise InvalidInput(
            f"{log} tells the probabilities of whole rankings only, and {asked.method} needs those of places: "
            "give the folder of the service instead, in which the states are that drew the rankings"
        )


def check_fields(schema: Schema, logged: Sequence[Schema], model: str, log: str) -> None:
    """Refuse a ranker that learned from fields which a log never had; those that an item is known by are there."""
    features, context = fields_of(logged)
    own = [name for name, kind in schema.features.items() if not kind.memory]
    missing = next((name for name in own if name not in features), None)
    missing = missing or next((name for name in schema.context if name not in context), None)
    if missing is not None:
        known = ", ".join([*features, *context])
        raise InvalidInput(f"{model} learned from {missing}, which {log} does not have; it has {known}")


def _on_service(log: str, asked: LogOptions) -> Report:
    """A saved ranker on the log of a service, by the probabilities of positions or of whole rankings."""
    model = _named_model(asked, log)
    session, schema = load_with_schema(model)
    known = [] if schema is None else schemas_in(log, asked.ranker)
    if schema is not None and known:
        check_fields(schema, known, model.name, log)
    by_position = asked.method in BY_POSITION
    with _way_on("" if by_position else "try --method position_wise, which weighs places instead of whole rankings"):
        return evaluate_on_rankings(
            session,
            logged_rankings(log, asked.ranker),
            f"ranker of {model.name}",
            asked.method,
            asked.options,
            positions=asked.positions,
            feature_names=lambda: feature_names_in(log, asked.ranker),
            schema=schema,
        )


@contextmanager
def _way_on(advice: str) -> Iterator[None]:
    """Say what to try where a ranker would never have shown what the log shows."""
    try:
        yield
    except NeverShown as error:
        raise InvalidInput(f"{error}; {advice}" if advice else str(error)) from None


def _named_model(asked: LogOptions, log: str) -> Path:
    if asked.model is None:
        raise InvalidInput(f"{log} holds rankings: name the saved ranker to judge, before --log")
    return asked.model


def saved_lines(path: Path, epsilon: float) -> list[str]:
    """Where a trained policy was saved."""
    lines = [f"The trained policy is in {path}, its ads and columns in {path}.json."]
    return lines if epsilon > 0 else [*lines, "It does not explore; --epsilon 0.1 keeps tomorrow's log useful."]


def print_report(name: str, report: Report, written: list[str], as_json: bool, **more: object) -> None:
    """What a log says of policies, and which files were written; as JSON with `more`."""
    if as_json:
        print_json(report.to_plain() | more)
    else:
        typer.echo("\n".join([f"{name}: {report}", *written]))
