"""Training on all lists of a log at once by the bundle method, on plain numbers or on the columns of a schema."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import checked_examined, rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, Problem, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.data.dataset import Collection, SparseDataset, offsets_of
from rankloop.features.encoder import Encoder
from rankloop.features.kinds import DAY_SECONDS
from rankloop.features.schema import Schema
from rankloop.learners.click_regression import N_OFFSETS
from rankloop.learners.wrappers.hashed_weights import with_hashed
from rankloop.logs.list_log import ClickArrays, ListLog, ShownList, numbers_of
from rankloop.logs.numeric_features import NumericFeatures
from rankloop.training.clicks import weights as click_weights
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.risks.base import Risk, risk_of
from rankloop.training.risks.pairwise import ClickedPairs
from rankloop.training.risks.pointwise import ClickRegressionRisk
from rankloop.training.risks.structured_loss import NDCGLoss
from rankloop.training.solution_path import BatchSolver, Fit, Progress, fit_path

PAIR_LOSSES = ("ordinal", "preferences")  # of clicks in pairs: the weighted ranking SVM
OFFSET_VALUE = 10.0  # in the column of a position: so large that the regularisation hardly shrinks its offset


def _squared_slopes(features: Rows, grad: Floats, offsets: Ints) -> Floats:
    """Return Σ over queries of the square of the query's slope, by column."""
    n_columns, query = len(features.columns), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    row = np.repeat(np.arange(features.n_items), np.diff(features.starts))  # by entry
    keys, entry = np.unique(query[row] * n_columns + features.positions, return_inverse=True)
    slopes = np.bincount(entry, grad[row] * features.values, len(keys))
    squares = np.bincount(keys % max(n_columns, 1), slopes**2, n_columns)
    dense = np.add.reduceat(grad[:, None] * features.dense, offsets[:-1])
    return np.concatenate([squares, (dense**2).sum(axis=0)])


class EncodedLists(NamedTuple):
    """The lists of a log as features, one row per shown item."""

    features: Rows
    offsets: Ints
    position: Ints
    clicked: Floats  # the weight of the click without position bias, or the grade
    query_ids: Sequence[str]  # by list
    is_graded: bool
    merge_keys: Callable[[], tuple[Sequence[Hashable], Sequence[Hashable]]]  # of lists and rows; equal ones are merged
    log: ClickArrays  # what was shown and clicked


def numeric_rows(log: ListLog, features: NumericFeatures) -> EncodedLists:
    """Return the lists of a log with plain numbers as features.

    Args:
      log: The lists.
      features: The numbers of each row.
    """
    query, names = log.query_numbers()
    query_of_list, pair, nothing = query[log.offsets[:-1]].tolist(), log.pair_numbers(), np.empty(0, np.int64)
    is_graded = log.export is not None and "relevances" in log.export.feedback
    clicked = log.weight if is_graded or log.columns.weight else log.clicked
    query_ids = [names[number] for number in query_of_list]
    return EncodedLists(
        features=Rows(np.zeros(log.n_rows + 1, np.int64), nothing, np.empty(0), nothing, features.values),
        offsets=log.offsets,
        position=log.position,
        clicked=clicked,
        query_ids=query_ids,
        is_graded=is_graded,
        merge_keys=lambda: (query_of_list, [(p, row.tobytes()) for p, row in zip(pair.tolist(), features.values)]),
        log=rows_as_log(pair, log.position, clicked, log.offsets, query_ids, log.propensity, log.visitors),
    )


def schema_rows(lists: Sequence[ShownList], schema: Schema, shown: int | None = None) -> EncodedLists:
    """Return shown lists as the columns of a schema.

    Args:
      lists: The lists.
      schema: By which values become columns.
      shown: The number of first items of each list that count; None: all.
    """
    if shown is not None:
        lists = [
            page._replace(**{name: getattr(page, name)[:shown] for name in ("ids", "rows", "position", "clicked")})
            for page in lists
        ]
    encoder, collection = Encoder(schema), Collection(schema.n_hashed)
    for page in lists:
        collection.add(page.query_id, page.query(encoder).features)
    data = collection.dataset(np.concatenate([page.clicked for page in lists]))

    def merge_keys() -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        stamped = any(kind.stamped for kind in (*schema.features.values(), *schema.context.values()))
        list_keys: list[Hashable] = [
            (page.query_id, _text(page.context), page.at // DAY_SECONDS * stamped) if page.query_id else number
            for number, page in enumerate(lists)
        ]
        return list_keys, [f"{id!r} {_text(row)}" for page in lists for id, row in zip(page.ids, page.rows)]

    return EncodedLists(
        features=data.features,
        offsets=data.offsets,
        position=np.concatenate([page.position for page in lists]),
        clicked=data.relevance,
        query_ids=data.query_ids,
        is_graded=any(page.feedback == "relevances" for page in lists),
        merge_keys=merge_keys,
        log=click_weights.pages_as_log(lists),
    )


def _text(values: Mapping[str, Any]) -> str:
    return repr(sorted(values.items(), key=lambda pair: pair[0]))


def _merged(rows: EncodedLists, weights: Floats) -> EncodedLists:
    """Merge all lists of a query and context into one, in which an item has its mean weight: an estimate of relevance.

    A measure that is normalised inside a list needs this. A list with one click has the same nDCG loss whatever that
    click weighs, so over single impressions the weights would cancel. An item whose features change is another item.
    """
    list_keys, item_keys = rows.merge_keys()
    lists = numbers_of(list_keys)
    owner = np.repeat(lists, np.diff(rows.offsets))
    items = numbers_of(list(zip(owner.tolist(), item_keys)))
    order = np.lexsort((items, owner))  # rows of an item keep their order
    starts = np.flatnonzero(np.diff(items[order], prepend=-1))
    chosen = order[starts]
    return rows._replace(
        features=rows.features.take(chosen),
        offsets=offsets_of(np.bincount(owner[chosen])),
        position=rows.position[chosen],
        clicked=np.array([np.mean(weights[same]) for same in np.split(order, starts[1:])]),
        query_ids=[rows.query_ids[number] for number in np.unique(lists, return_index=True)[1].tolist()],
    )


def train_batch(
    rows: EncodedLists,
    solver: BatchSolver,
    new_session: "Callable[[BatchTask, Fit], Session]",
    *,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> ClickTraining:
    """Choose the regularisation on held-out lists, and train on all of them.

    Args:
      rows: The lists.
      solver: The loss, the regularisations and the settings.
      new_session: Makes a ranker of the last fit.
      position_bias: The probability of each position to be examined; estimated unless given.
      clip: No click weighs more than this.
      seed: Draws the held-out lists.
      progress: Called with the number of fits that are done, and of all.
    """
    if not rows.clicked.any():
        raise InvalidInput(click_weights.NO_CLICK)
    path, task = solver.checked_path(), BatchTask(rows, solver.loss, position_bias, clip)
    data, fits = task.data, partial(fit_path, tight=solver.tight, settings=solver.settings)
    held_out = click_weights.held_out_lists(data.n_queries, seed)
    training, models = data.subset(np.flatnonzero(~held_out)), []
    for model in fits(training, task.risk, path, per=task.per(training)):
        models.append(model.weights)
        progress(len(models), len(path) + 1)
    judges = data._replace(relevance=task.worth(models[-1])).subset(np.flatnonzero(held_out))
    logged = -task.position[np.repeat(held_out, np.diff(data.offsets))].astype(np.float64)
    gains, is_offset = {}, np.arange(data.n_features) < len(data.features.columns)
    is_offset[is_offset] = data.features.columns < 0
    for regularisation, weights in zip(path, models):
        scores = scores_of(judges.features, np.where(is_offset, 0.0, weights))
        gains[regularisation] = click_weights.mean_gain(scores, judges.relevance, judges.offsets)
    best = max(path, key=lambda regularisation: gains[regularisation])
    best_weights = models[path.index(best)]
    fit = next(fits(data, task.risk, [best], per=task.per(data), start=best_weights))
    progress(len(path) + 1, len(path) + 1)
    judgement = None
    if not rows.is_graded:
        scores, is_judge = scores_of(rows.features, best_weights[~is_offset]), held_out[task.list_number]
        judgement = click_weights.HeldOutJudgement.of(rows.log, scores, is_judge, position_bias)
    notes = fit.warnings(solver.loss, solver.tight)
    if task.weights_cancel:
        notes.append(f"no query came twice, so the weights of single clicks cancel in {solver.loss}")
    return ClickTraining(
        session=new_session(task, fit),
        choice="regularisation",
        chosen=best,
        gains=gains,
        logged_gain=click_weights.mean_gain(logged, judges.relevance, judges.offsets),
        judgement=judgement,
        examined=task.examined_by(fit.weights),
        examined_is_known=task.examined is not None,
        n_lists=task.n_lists,
        loss=solver.loss,
        tight=solver.tight,
        solution=fit.solution,
        notes=tuple(notes),
    )


class BatchTask:
    """The objective over the lists of a log, and the meaning of its weights."""

    def __init__(self, rows: EncodedLists, loss: str, position_bias: ArrayLike | None, clip: float) -> None:
        if rows.is_graded and loss == "clicked_items":
            raise InvalidInput("clicked_items is a loss of clicks, and this log holds grades: use --loss ordinal")
        self.risk: Risk = ClickedPairs() if loss in PAIR_LOSSES and not rows.is_graded else risk_of(loss)
        self.by_item = isinstance(self.risk, ClickRegressionRisk)
        self.clip, self.n_lists, self.n_positions = clip, len(rows.offsets) - 1, int(rows.position.max()) + 1
        self.examined: Floats | None  # None: the loss learns offsets of positions instead
        if rows.is_graded:
            self.examined = np.ones(self.n_positions)
        elif position_bias is not None:
            self.examined = checked_examined(position_bias, self.n_positions)
        else:
            self.examined = click_weights.estimate_examined(rows.log)
        self.list_number = np.arange(self.n_lists)  # of the objective, by list of the log
        is_merged = not (rows.is_graded or self.by_item or isinstance(self.risk, ClickedPairs))
        if not (rows.is_graded or self.by_item):
            self.examined = click_weights.required_bias(self.examined)
            weights = click_weights.weighted_clicks(rows.clicked, rows.position, self.examined, clip)
            self.list_number = numbers_of(rows.merge_keys()[0]) if is_merged else self.list_number
            rows = _merged(rows, weights) if is_merged else rows._replace(clicked=weights)
        self.position, self.clicked = rows.position, rows.clicked
        is_exponential = isinstance(self.risk, NDCGLoss) and not rows.is_graded
        grades = np.log2(1.0 + self.clicked) if is_exponential else self.clicked  # the gain is the weight
        features, base = rows.features, np.zeros(len(grades))
        self.has_fixed_offsets = self.by_item and position_bias is not None
        if self.by_item:
            self.first_offsets = self._first_offsets()
            position = np.minimum(self.position, N_OFFSETS - 1)
            base = self.first_offsets[position]
            features = features if self.has_fixed_offsets else _with_offsets(features, position)
        self.data = SparseDataset(features, grades, rows.offsets, base, tuple(rows.query_ids))
        self.weights_cancel = is_merged and self.data.n_queries == self.n_lists

    def per(self, data: SparseDataset) -> int | None:
        """Return the divisor of the sum; None: the number of lists."""
        if isinstance(self.risk, ClickedPairs):
            return max(1, ClickedPairs.n_pairs(data.relevance, data.offsets))
        return len(data.relevance) if self.by_item else None

    def worth(self, weights: Floats) -> Floats:
        """Return the weights of the clicks for evaluation; the offsets of positions are those of the weights."""
        if not self.by_item:
            return self.clicked
        return click_weights.weighted_clicks(self.clicked, self.position, self.examined_by(weights), self.clip)

    def examined_by(self, weights: Floats) -> Floats:
        """Return the probability of each position to be examined: estimated, or by the learned offsets."""
        if self.examined is not None:
            return self.examined
        return click_weights.bias_of_offsets(self._offsets(weights, weights)[0], self.n_positions)

    def new_session(
        self, fit: Fit, schema: Schema, problem: Problem, learner: str | Spec | AnyLearner | None, seed: int
    ) -> Session:
        """Return a learner on hashed columns with these weights, which can continue to learn.

        The second number of a column is Σ over lists of its squared slope at these weights.
        """
        recipe = build(learner or ("click_regression" if self.by_item else "fair_pairs"), "learner")
        if self.has_fixed_offsets and self.examined is not None and from_layers(recipe, "examination") is not None:
            recipe = with_in_layers(recipe, "examination", tuple(self.examined[:N_OFFSETS].tolist()))
            recipe = with_in_layers(recipe, "offset", 0.0)  # as in the loss that was minimised
        data, weights = self.data, fit.weights
        _, grad = self.risk.of_lists(scores_of(data.features, weights) + data.base, data.relevance, data.offsets)
        squares = _squared_slopes(data.features, grad, data.offsets)
        columns = np.concatenate([data.features.columns, schema.n_hashed + np.arange(schema.n_dense)])
        session = Session(with_hashed(recipe), problem, seed)
        state, generator, _, _ = session.snapshot()
        has_evidence = from_layers(state, "evidence") is not None  # another kind of evidence, which begins at 0
        entries = np.column_stack([weights, np.zeros(len(weights)) if has_evidence else squares])[columns >= 0]
        state = with_in_layers(state, "table", WeightTable.of(problem.n_features, columns[columns >= 0], entries))
        if self.by_item and not self.has_fixed_offsets and from_layers(state, "offsets") is not None:
            offsets, evidence = self._offsets(weights, squares)
            state = with_in_layers(with_in_layers(state, "offsets", offsets), "squares", evidence)
        session.restore(state, generator, self.n_lists, 0)
        return session

    def _first_offsets(self) -> Floats:
        """Return the offsets of positions: known ones, or the log odds of a click there, where learning begins."""
        if self.has_fixed_offsets and self.examined is not None:
            return np.log(self.examined[: min(self.n_positions, N_OFFSETS)])
        position = np.minimum(self.position, N_OFFSETS - 1)
        shown = np.bincount(position, minlength=min(self.n_positions, N_OFFSETS)) + 1.0
        clicks = np.bincount(position, self.clicked > 0.0, minlength=len(shown)) + 0.5
        return np.log(clicks / (shown - clicks))

    def _offsets(self, weights: Floats, squares: Floats) -> tuple[Floats, Floats]:
        """Return the offsets of all positions and their evidence; positions without data have the last offset."""
        at = np.flatnonzero(self.data.features.columns < 0)
        offsets, evidence = self.first_offsets + OFFSET_VALUE * weights[at], squares[at] / OFFSET_VALUE**2
        n_missing = N_OFFSETS - len(offsets)
        return np.append(offsets, np.full(n_missing, offsets[-1])), np.append(evidence, np.zeros(n_missing))


def _with_offsets(features: Rows, position: Ints) -> Rows:
    """Return rows with an entry in the column of their position, whose weight becomes its offset."""
    n_columns, at = len(features.columns), features.starts[1:]
    positions = np.insert(features.positions, at, n_columns + position)
    values = np.insert(features.values, at, OFFSET_VALUE)
    marks = np.arange(-1, -2 - int(position.max()), -1)
    starts = features.starts + np.arange(features.n_items + 1)
    return Rows(starts, positions, values, np.concatenate([features.columns, marks]), features.dense)
