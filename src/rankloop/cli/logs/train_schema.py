"""`rankloop train --log --schema`: a ranker on values as people have them; `--guess-schema`: a schema from a log."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import numpy as np
import typer

from rankloop.cli.options import interruptible
from rankloop.cli.output import print_json, show_table
from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput
from rankloop.core.files import atomic_write
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats
from rankloop.experiments.report.model import Table
from rankloop.features.schema import Schema
from rankloop.logs.columns import LIST_ROLES, named_columns
from rankloop.logs.list_log import ListLog, ShownList
from rankloop.logs.outcomes import outcomes_of, outcomes_said
from rankloop.logs.reader import lists_in
from rankloop.logs.schema_guess import Guess, guessed_schema
from rankloop.training.clicks.schema_batch import BatchRanker, train_batch_with_schema
from rankloop.training.clicks.schema_train import LOGGED, MAX_PASSES, SchemaRanker, train_with_schema
from rankloop.training.clicks.train import GAIN
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import DEFAULT_SOLVER, SolverSettings


class LogTraining(NamedTuple):
    """How a log is learned from."""

    loss: str
    tight: bool
    path: tuple[float, ...]
    position_bias: str | None
    clip: float
    epsilon: float | None
    seed: int
    column: Sequence[str]  # ROLE=NAME, where the names of columns do not tell
    context: Sequence[str]  # of an ad log: only these columns tell of the visitor
    without: Sequence[str]  # columns that are not learned from
    features: Sequence[str]  # columns that are learned from, whatever they look like
    schema: Path | None = None
    guess: Path | None = None  # where to write the schema that the log suggests
    learner: str | None = None  # on the columns of a schema
    passes: int | None = None
    shown: int | None = None
    solver: str | None = None  # "online" passes over the log, or "batch", all of it at once
    settings: SolverSettings = DEFAULT_SOLVER  # of the batch solver
    ranker: str = ""  # which one of a service


def guess_schema(path: Path, how: LogTraining, to: Path, as_json: bool) -> None:
    """Write the schema that a log suggests, and say what each column was taken for."""
    table = lists_in(path, columns=named_columns(how.column, LIST_ROLES), without=how.without)
    if table.export is not None:
        known = "has its schema in it" if table.schemas else "holds plain numbers"
        raise InvalidInput(f"{path.name} is the export of a service and {known}: there is nothing to guess")
    guess = guessed_schema(table, how.features)
    atomic_write(to, guess.schema.to_toml())
    if as_json:
        plain = {"schema": guess.schema.to_plain(), "reasons": guess.reasons, "left_out": guess.left_out}
        print_json({"file": str(to), **plain, "outcomes": guess.outcomes, "columns": guess.roles})
        return
    _print_guess(path.name, guess)
    columns = "".join(f" --column {quote(column)}" for column in how.column)
    then = f"rankloop train --log {quote(str(path))} --schema {quote(str(to))}{columns}"
    typer.echo(f"written: {to}; read it, change what is wrong, then: {then}")


def _print_guess(name: str, guess: Guess) -> None:
    show_table(Table(f"What {name} looks like", ("column", "part", "kind", "why"), guess.lines()))
    typer.echo(f"crosses: {', '.join(guess.schema.crosses) or 'none'}")
    typer.echo(f"columns: {', '.join(f'{role} is {column}' for role, column in guess.roles.items())}")


def train_by_schema(path: Path, how: LogTraining, out: Path, as_json: bool) -> None:
    """A ranker with a schema from lists and their clicks; held-out lists say how often to go over the log."""
    if how.context or how.epsilon is not None:
        raise InvalidInput("--context and --epsilon are for logs of single ads; the context of a list is in its schema")
    if how.solver == "batch":
        _train_at_once(path, how, out, as_json)
        return
    lists, schema, notes = _lists(path, how)
    with progress_bar(f"training on {path.name}", unit="passes") as progress:
        ranker = train_with_schema(
            lists,
            schema,
            how.learner or "click_regression",
            passes=how.passes or MAX_PASSES,
            position_bias=None if how.position_bias is None else bias_of(how.position_bias),
            clip=how.clip,
            shown=how.shown,
            seed=how.seed,
            progress=progress,
        )
    model = _saved(ranker, out)
    if as_json:
        print_json(_answer(ranker, model, len(lists), notes))
        return
    _print_notes(notes)
    _print(ranker, model, len(lists))


def _train_at_once(path: Path, how: LogTraining, out: Path, as_json: bool) -> None:
    """The same by the batch solver: held-out lists choose the regularisation."""
    if how.passes is not None:
        raise InvalidInput("--passes is for --solver online; the batch solver ends when it is near the optimum")
    risk_of(how.loss)  # a wrong name is told before the log is read
    lists, schema, notes = _lists(path, how)
    with interruptible("nothing was saved"), progress_bar(f"training on {path.name}", unit="fits") as progress:
        ranker = train_batch_with_schema(
            lists,
            schema,
            how.loss,
            how.learner,
            tight=how.tight,
            path=how.path,
            position_bias=None if how.position_bias is None else bias_of(how.position_bias),
            clip=how.clip,
            shown=how.shown,
            seed=how.seed,
            settings=how.settings,
            progress=progress,
        )
    model, solution = _saved(ranker, out), ranker.solution
    if not solution.converged:
        notes = [*notes, f"stopped at most {solution.gap:.2g} above the optimum: raise --regularisation"]
    if as_json:
        held_out = {f"{regularisation:g}": gain for regularisation, gain in ranker.gains.items()}
        answer = {"model": str(model), "lists": len(lists), "loss": ranker.loss, "held_out": held_out}
        answer |= {"regularisation": ranker.regularisation, "examined": ranker.examined.tolist(), "notes": notes}
        print_json(answer | {"columns": ranker.n_columns, "gap": solution.gap, "schema": schema.to_plain()})
        return
    _print_notes(notes)
    typer.echo(f"{_described(schema, len(lists))}; {ranker.n_columns:,} columns")
    rows = [("as logged" if value == LOGGED else f"{value:g}", f"{gain:.4f}") for value, gain in ranker.gains.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    typer.echo(_examined_said(ranker.examined, ranker.told))
    typer.echo(f"chosen: {ranker.regularisation:g}\nmodel: {model}")


def _saved(ranker: SchemaRanker | BatchRanker, out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    ranker.save(out / "model.rankloop")
    return out / "model.rankloop"


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _lists(path: Path, how: LogTraining) -> tuple[list[ShownList], Schema, list[str]]:
    """What was shown, the schema to learn it by, and what people should know."""
    given = None if how.schema is None else Schema.from_toml(how.schema)
    reading = None if given is None else _without(given, how.without)
    log = lists_in(path, schema=reading, columns=named_columns(how.column, LIST_ROLES))
    if log.export is not None:
        if not log.schemas:
            raise InvalidInput(f"{path.name} holds plain numbers, not values by name: train it without --schema")
        schema = _without(given or log.schemas[-1], how.without)
        lists = log.lists(schema)
        other = next((one.feedback for one in lists if one.feedback not in ("clicks", "relevances")), None)
        if other is not None:
            raise InvalidInput(
                f"{path.name} holds feedback of the kind {other}; lists are learned from by their clicks"
            )
        return lists, schema, []
    if reading is None:
        raise InvalidInput(f"{path.name} has no schema in it: add --schema FILE (--guess-schema writes one)")
    return log.lists(reading), reading, _notes(log, reading, how.features)


def _notes(table: ListLog, schema: Schema, asked_for: Sequence[str]) -> list[str]:
    """Fields that are known only after the click, and lists that do not begin at the first position."""
    fields = [name for name in (*schema.features, *schema.context) if name in table.values]
    outcomes = outcomes_of({name: table.values[name] for name in fields if name not in asked_for}, table.clicked)
    outcomes.pop(table.columns.item, None)
    if not outcomes:
        return []
    said = "looks like an outcome" if len(outcomes) == 1 else "look like outcomes"
    return [f"{outcomes_said(outcomes)} {said}, which nobody knows when a list is made; the schema asks for it"]


def _without(schema: Schema, names: Sequence[str]) -> Schema:
    """The schema without some fields and their crosses."""
    known = [*schema.features, *schema.context]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise InvalidInput(f"--without {unknown}: the schema has no such field{nearest(unknown, known)}")
    if not names:
        return schema
    features = {name: kind for name, kind in schema.features.items() if name not in names}
    context = {name: kind for name, kind in schema.context.items() if name not in names}
    crosses = tuple(cross for cross in schema.crosses if not set(names).intersection(cross.split("*")))
    return Schema(features, context, crosses, schema.bits)


def _answer(ranker: SchemaRanker, model: Path, n_lists: int, notes: list[str]) -> dict[str, object]:
    held_out = {str(passes): gain for passes, gain in ranker.gains.items()}
    answer: dict[str, object] = {"model": str(model), "lists": n_lists, "passes": ranker.passes, "held_out": held_out}
    answer |= {"examined": ranker.examined.tolist(), "refused": ranker.refused, "notes": notes}
    return answer | {"schema": ranker.schema.to_plain()}


def _print(ranker: SchemaRanker, model: Path, n_lists: int) -> None:
    typer.echo(_described(ranker.schema, n_lists))
    rows = [("as logged" if passes == LOGGED else str(passes), f"{gain:.4f}") for passes, gain in ranker.gains.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("passes", GAIN), rows))
    typer.echo(_examined_said(ranker.examined, ranker.told))
    typer.echo(f"chosen: {ranker.passes} pass{'es' * (ranker.passes > 1)}\nmodel: {model}")


def _described(schema: Schema, n_lists: int) -> str:
    return f"{n_lists:,} lists; features: {', '.join(schema.features)}; context: {', '.join(schema.context) or 'none'}"


def _examined_said(examined: Floats, told: bool) -> str:
    how = "" if told else " (as the learner found out: no item stands at two positions)"
    return f"examination probability, first positions: {', '.join(f'{one:.2f}' for one in examined[:10])}{how}"


def bias_of(text: str) -> Floats:
    """The numbers of --position-bias."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--position-bias {text!r} must be numbers with commas between, one per place") from None
