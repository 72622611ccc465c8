"""Training on clicks: one call for a log of lists, with plain numbers or with a schema."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec
from rankloop.core.registry.specs import nearest
from rankloop.core.session import Session
from rankloop.core.types import finite_floats
from rankloop.data.dataset import Dataset, offsets_of
from rankloop.data.parts.source import check_memory
from rankloop.features.schema import Schema
from rankloop.logs.list_log import LOGGED_SCORE, ListLog, ShownList, with_logged_score
from rankloop.logs.numeric_features import numeric_features, other_than_numbers
from rankloop.logs.outcome_columns import outcomes_of, outcomes_said
from rankloop.logs.reader import lists_in
from rankloop.logs.schema_guess import guessed_schema
from rankloop.logs.service_export import exported_schemas, is_export
from rankloop.training.clicks import weights as click_weights
from rankloop.training.clicks.batch import BatchTask, numeric_rows, schema_rows, train_batch
from rankloop.training.clicks.passes import OnlinePasses, train_in_passes
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.rank_bundle import session_of
from rankloop.training.solution_path import BatchSolver, Fit, Progress
from rankloop.training.trees import N_FOLDS, TreeRanker, TreeSettings, fit_trees, fold_of
from rankloop.training.trees.tree_columns import TreeColumn, encode_columns, tree_columns

DEFAULT_BATCH, DEFAULT_PASSES, DEFAULT_TREES = BatchSolver(), OnlinePasses(), TreeSettings()


def train_clicks(
    log: Any,
    schema: Schema | None = None,
    *,
    solver: BatchSolver | OnlinePasses | None = None,
    learner: str | Spec | AnyLearner | None = None,
    features: Sequence[str] = (),
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    shown: int | None = None,
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ClickTraining:
    """Train a ranker on the clicks of a log of lists.

    Clicks take the place of grades: each counts by how unlikely its position was to be examined. Where all columns hold
    numbers without gaps, they are the features of a linear ranker. Texts, categories, dates and gaps need a schema,
    which is guessed from the log unless given; the result continues to learn.

    Args:
      log: A `ListLog`, or what `read_log` reads.
      schema: By which values become features; that of the log itself unless given, or a guessed one.
      solver: `BatchSolver` (a loss over all lists at once) or, with a schema, `OnlinePasses`, which is its default.
      learner: The learner that continues after `BatchSolver` with a schema; by default `click_regression` for the loss
        `clicked_items`, else `fair_pairs`.
      features: Columns that are features even if they look like outcomes, such as a purchase.
      position_bias: The probability of each position to be examined; estimated from items that moved unless given.
      clip: No click weighs more than this.
      shown: How many positions users see, with a schema; those of the longest list unless given.
      seed: Draws the held-out lists.
      progress: Called with the number of fits or passes that are done, and of all.

    Returns:
      The ranker: it prints as a table, and `save` writes it.

    Raises:
      InvalidInput: If there is no click, or if the position bias cannot be estimated.
    """
    solver_kind = "batch" if isinstance(solver, BatchSolver) else "online"
    check_log_size(log, schema, solver_kind)
    lists = lists_in(log, schema=schema)
    notes = lists.notes
    if schema is None:
        is_needed = isinstance(solver, OnlinePasses) or learner is not None or shown is not None
        schema, schema_note = schema_for(lists, features, is_needed=is_needed)
        if schema_note:
            check_log_size(log, schema, solver_kind)
            lists, notes = lists.typed_by(schema), (*notes, schema_note)
    common: dict[str, Any] = {"position_bias": position_bias, "clip": clip, "seed": seed, "progress": progress}
    if schema is not None:
        kinds = [] if lists.export is None else lists.export.feedback
        other = next((kind for kind in kinds if kind not in ("clicks", "relevances", "")), None)
        if other is not None:
            raise InvalidInput(f"{lists.name} holds feedback of the kind {other}; training on lists needs clicks")
        solver = solver or DEFAULT_PASSES
        if isinstance(solver, OnlinePasses) and solver.base == LOGGED_SCORE and not lists.has_engine_order:
            solver = solver._replace(base="")
        trained = _train_on_lists(lists.lists(schema), schema, solver, learner=learner, shown=shown, **common)
        return replace(trained, notes=notes + _outcome_notes(lists, schema, features) + trained.notes)
    numbers = numeric_features(lists, features)
    columns = numbers.described if lists.export is not None else f"{lists.columns}; {numbers.described}"

    def new_session(task: BatchTask, fit: Fit) -> Session:
        return session_of(fit.weights[len(task.data.features.columns) :], feature_names=numbers.names)

    batch = solver if isinstance(solver, BatchSolver) else DEFAULT_BATCH
    trained = train_batch(numeric_rows(lists, numbers), batch, new_session, **common)
    return replace(trained, feature_names=numbers.names, columns=columns, notes=notes + trained.notes)


def schema_for(lists: ListLog, features: Sequence[str] = (), *, is_needed: bool = False) -> tuple[Schema | None, str]:
    """Return the schema of a log, None for plain numbers, and a sentence where it was guessed for texts, dates or gaps.

    Args:
      lists: The log.
      features: Columns that are features even if they look like outcomes.
      is_needed: Guess one for plain numbers, too.
    """
    if lists.schemas:
        return lists.schemas[-1], ""
    if lists.export is not None and is_needed:
        raise InvalidInput(f"{lists.name} has no schema, which passes, learner and shown need: leave them out")
    if not is_needed and not other_than_numbers(lists, features):
        return None, ""
    guess = guessed_schema(lists, features)
    fields = [(name, kind) for name, part, kind, _ in guess.lines() if part != "left out"]
    outcomes = f"; outcomes, so not features: {', '.join(guess.outcomes)}" if guess.outcomes else ""
    listed = ", ".join(f"{name} ({kind})" for name, kind in fields)
    return guess.schema, f"the schema was guessed: {listed}{outcomes}; --guess-schema FILE writes it"


def _train_on_lists(
    pages: Sequence[ShownList],
    schema: Schema,
    solver: BatchSolver | OnlinePasses,
    *,
    learner: str | Spec | AnyLearner | None = None,
    shown: int | None = None,
    seed: int = 0,
    **common: Any,
) -> ClickTraining:
    """Train a ranker with a schema on shown lists."""
    problem = schema.problem(shown=max(len(page.ids) for page in pages) if shown is None else shown)
    columns = f"features: {', '.join(schema.features)}; context: {', '.join(schema.context) or 'none'}"
    if isinstance(solver, OnlinePasses):
        passes = solver._replace(learner=learner or solver.learner)
        if passes.base == LOGGED_SCORE and LOGGED_SCORE not in schema.features:
            schema, pages = with_logged_score(schema), [page.with_logged_score() for page in pages]
            problem = schema.problem(shown=problem.shown)
            columns += f"; base: {LOGGED_SCORE}, minus the position in the log"
        return replace(train_in_passes(pages, schema, passes, problem, seed=seed, **common), columns=columns)
    rows = schema_rows(pages, schema, shown)
    columns += f"; {len(rows.features.columns) + schema.n_dense:,} columns"

    def new_session(task: BatchTask, fit: Fit) -> Session:
        return task.new_session(fit, schema, problem, learner, seed)

    return replace(train_batch(rows, solver, new_session, seed=seed, **common), schema=schema, columns=columns)


def check_log_size(log: Any, schema: Schema | None, solver: str) -> None:
    """Raise if a file is too large for training with a schema, before it is read.

    Args:
      log: A path, or anything else that is not checked.
      schema: By which values become features; an export may have its own.
      solver: "batch" or "online".
    """
    if isinstance(log, str | Path) and Path(log).is_file():
        path = Path(log)
        if schema is not None or (is_export(path) and exported_schemas(path)):
            check_memory(path, solver)


def _outcome_notes(lists: ListLog, schema: Schema, features: Sequence[str]) -> tuple[str, ...]:
    """Return a warning about fields that are known only after the click."""
    if lists.export is not None:
        return ()
    fields = [name for name in (*schema.features, *schema.context) if name in lists.values and name not in features]
    outcomes = outcomes_of({name: lists.values[name] for name in fields}, lists.clicked)
    outcomes.pop(lists.columns.item, None)
    if not outcomes:
        return ()
    look = "looks like an outcome" if len(outcomes) == 1 else "look like outcomes"
    return (f"{outcomes_said(outcomes)} {look}, which is not known when a list is shown; the schema uses it",)


def train_click_trees(
    log: Any,
    schema: Schema | None = None,
    *,
    features: Sequence[str] = (),
    without: Sequence[str] = (),
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    n_folds: int = N_FOLDS,
    settings: TreeSettings = DEFAULT_TREES,
) -> TreeRanker:
    """Cross-fit trees to the clicks of a log, each click weighted by its position bias.

    Every click puts its item above all others of its list, at its weight. All lists of a query are in one fold. Numbers
    may have gaps. LightGBM splits categories by sets of values; texts are hashed counts.

    Args:
      log: A `ListLog`, or what `read_log` reads.
      schema: The kinds of the item fields; that of the log, or a guessed one where it holds more than numbers.
      features: Columns that are features even if they look like outcomes.
      without: Features that the trees do not get, above all a base score that was shown: it knows the clicks.
      position_bias: The probability of each position to be examined; estimated from the log unless given.
      clip: No click weighs more than this.
      n_folds: The number of boosters, each grown without the queries of its fold; fewer where queries are few.
      settings: The settings of the boosters.

    Raises:
      InvalidInput: If there is no click, or if the position bias cannot be estimated.
    """
    lists = lists_in(log, schema=schema)
    schema = schema or schema_for(lists, features)[0]
    if schema is None:
        numbers = numeric_features(lists, features)
        columns, values = [TreeColumn(name) for name in numbers.names], numbers.values
    else:
        columns = tree_columns(schema, lists.values)
        values = encode_columns(columns, lists.values)
    if position_bias is None:
        queries = [lists.query[start] for start in lists.offsets[:-1].tolist()]
        pairs, propensity, visitors = lists.pair_numbers(), lists.propensity, lists.visitors
        shown = rows_as_log(pairs, lists.position, lists.clicked, lists.offsets, queries, propensity, visitors)
        examined = click_weights.required_bias(click_weights.estimate_examined(shown))
    else:
        examined = finite_floats(position_bias, 1, "position_bias")
    logged_weights = lists.weight if lists.columns.weight else lists.clicked
    weights = click_weights.weighted_clicks(logged_weights, lists.position, examined, clip)
    clicked = np.flatnonzero(weights)
    if not len(clicked):
        raise InvalidInput(click_weights.NO_CLICK)
    owner = np.searchsorted(lists.offsets, clicked, "right") - 1
    sizes = np.diff(lists.offsets)[owner]
    offsets = offsets_of(sizes)
    rows = np.arange(offsets[-1]) + np.repeat(lists.offsets[owner] - offsets[:-1], sizes)
    query, query_ids = lists.query_numbers()
    names = [column.field for column in columns]
    unknown = next((name for name in without if name not in names), None)
    if unknown is not None:
        raise InvalidInput(f"the log has no feature {unknown!r}{nearest(unknown, names)}")
    is_kept = np.repeat(np.array([name not in without for name in names], bool), [column.width for column in columns])
    copies = Dataset(
        features=values[rows][:, is_kept],
        relevance=(rows == np.repeat(clicked, sizes)).astype(np.float64),
        offsets=offsets,
        query_ids=tuple(query_ids[number] for number in query[clicked].tolist()),
    )
    query_names, row_weights = set(copies.query_ids), np.repeat(weights[clicked], sizes)
    fillable = (n for n in range(n_folds, 1, -1) if len({fold_of(id, n) for id in query_names}) == n)
    n_folds, columns = next(fillable, n_folds), [column for column in columns if column.field not in without]
    return fit_trees(copies, weights=row_weights, n_folds=n_folds, settings=settings, columns=columns)
