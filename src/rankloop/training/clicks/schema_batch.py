"""A ranker with a schema from yesterday's clicks by the bundle method: all lists at once, on the columns that occur."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.cells import Cells
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.sparse_dataset import Collection, SparseDataset, squared_slopes, with_column
from rankloop.features.encoder import Encoder
from rankloop.features.kinds import DAY
from rankloop.features.schema import Schema
from rankloop.learners.click_regression import POSITIONS
from rankloop.learners.wrappers.hashed_columns import with_hashed
from rankloop.logs.list_log import ShownList
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.bundle import Solution
from rankloop.training.clicks.ips_weights import click_weights, exponential_grades
from rankloop.training.clicks.schema_train import LOGGED, Lists, examined_by_position
from rankloop.training.clicks.train import GAIN, HELD_OUT, IN_PAIRS
from rankloop.training.risks.base import Risk, risk_of
from rankloop.training.risks.pairwise import ClickedPairs
from rankloop.training.risks.pointwise import ClickRegressionRisk
from rankloop.training.risks.structured_loss import NDCGLoss
from rankloop.training.solution_path import DEFAULT_PATH, DEFAULT_SOLVER, Fit, SolverSettings, fit_path

OFFSET = 10.0  # what stands in the column of a position: the regularisation should not hold its offset much


class BatchRanker(NamedTuple):
    """A ranker with a schema, and how it was trained."""

    session: Session
    schema: Schema
    loss: str
    tight: bool
    regularisation: float
    gains: dict[float, float]  # by regularisation: the weighted clicks gained on held-out lists; 0: by the logged order
    examined: Floats  # the probability of each position to be examined
    told: bool  # whether that was given or could be estimated from items that moved; else it is the loss's own
    solution: Solution
    n_columns: int  # that occur in the log

    def save(self, path: Path) -> None:
        """As a file that `Ranker.load`, `rankloop evaluate` and the service read, with the names of all fields."""
        how = {"loss": self.loss, "tight": self.tight, "regularisation": self.regularisation}
        save(self.session, path, {"schemas": [self.schema.to_plain()], **how, "looked_at": self.examined.tolist()})


def train_batch_with_schema(
    lists: Lists,
    schema: Schema,
    loss: str = "ordinal",
    learner: str | Spec | AnyLearner | None = None,
    *,
    tight: bool = False,
    path: Sequence[float] = DEFAULT_PATH,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    shown: int | None = None,
    seed: int = 0,
    settings: SolverSettings = DEFAULT_SOLVER,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> BatchRanker:
    """Choose the regularisation of the `path` on held-out lists, and train on all of them.

    Losses: `ordinal`, for clicks the weighted ranking SVM; `clicked_items`, the logistic loss of every position that
    was seen, with an offset for each unless `position_bias` tells them; and those of `RankBundle` (`list_net`,
    `nDCG@10`), for which all lists of a query are merged first. Lists with grades instead of clicks are learned from as
    they are. The weights are handed to `learner`, on hashed columns, which may go on learning from there:
    `click_regression` for the loss `clicked_items` and `fair_pairs` for others, unless given.
    """
    if not any(one.clicked.any() for one in lists):
        raise InvalidInput("the log has no click, so there is nothing to learn from")
    if len(path) == 0 or min(path) <= 0.0:
        raise InvalidInput(f"the regularisation must be above 0, got {list(path)}")
    trainer = _Trainer(lists, schema, loss, learner, position_bias, clip, shown, seed)
    data = trainer.data
    held_out = np.random.default_rng(seed).permutation(data.n_queries) % HELD_OUT == 0
    if held_out.all():
        raise InvalidInput(
            f"the log has {data.n_queries} list(s); there must be at least two to choose the regularisation"
        )
    strong_to_weak, fits = sorted(set(path), reverse=True), partial(fit_path, tight=tight, settings=settings)
    chosen, models = data.subset(np.flatnonzero(~held_out)), []
    for found in fits(chosen, trainer.risk, strong_to_weak, per=trainer.per(chosen)):
        models.append(found.weights)
        progress(len(models), len(strong_to_weak) + 1)
    judges = data._replace(relevance=trainer.worth(models[-1])).subset(np.flatnonzero(held_out))
    gains = {float(LOGGED): _gain(-np.arange(len(judges.relevance), dtype=np.float64), judges)}
    for regularisation, weights in zip(strong_to_weak, models):
        gains[regularisation] = _gain(scores_of(judges.features, trainer.of_items(weights)), judges)
    best = max(strong_to_weak, key=lambda regularisation: gains[regularisation])
    start = models[strong_to_weak.index(best)]
    model = next(fits(data, trainer.risk, [best], per=trainer.per(data), start=start))
    progress(len(strong_to_weak) + 1, len(strong_to_weak) + 1)
    how_found = gains, trainer.examined_by(model.weights), trainer.examined is not None, model.solution
    return BatchRanker(trainer.session(model), schema, loss, tight, best, *how_found, trainer.n_columns)


class _Trainer:
    """What is minimised, and what becomes of its weights."""

    def __init__(
        self,
        lists: Lists,
        schema: Schema,
        loss: str,
        learner: str | Spec | AnyLearner | None,
        position_bias: ArrayLike | None,
        clip: float,
        shown: int | None,
        seed: int,
    ) -> None:
        self.schema, self.clip, self.seed, self.n_lists = schema, clip, seed, len(lists)
        longest = max(len(one.ids) for one in lists)
        self.problem = schema.problem(shown=longest if shown is None else shown)
        lists = [_cut(one, shown) for one in lists]
        self.n_positions = max(int(one.position.max()) for one in lists) + 1
        graded = any(one.feedback == "relevances" for one in lists)
        self.risk = _risk(loss, graded)
        self.by_item = isinstance(self.risk, ClickRegressionRisk)
        self.examined = np.ones(self.n_positions) if graded else self._examined(lists, position_bias)
        self.fixed = self.by_item and position_bias is not None  # offsets of positions are told
        recipe = build(learner or ("click_regression" if self.by_item else "fair_pairs"), "learner")
        if self.fixed and self.examined is not None and from_layers(recipe, "examination") is not None:
            recipe = with_in_layers(recipe, "examination", tuple(self.examined[:POSITIONS].tolist()))
        self.learner = with_hashed(recipe)
        if not (graded or self.by_item):
            lists = [one._replace(clicked=self._weighed(one.clicked, one.position, self.examined)) for one in lists]
            lists = lists if isinstance(self.risk, ClickedPairs) else merged_lists(lists, schema)
        self.position = np.concatenate([one.position for one in lists])
        self.clicked = np.concatenate([one.clicked for one in lists])
        self.first_offsets = self._first_offsets()
        grades = exponential_grades(self.clicked) if isinstance(self.risk, NDCGLoss) and not graded else self.clicked
        self.data = self._with_offsets(collected(lists, schema, grades))

    @property
    def n_columns(self) -> int:
        """That occur, and are not those of positions."""
        return int((self.data.features.columns >= 0).sum()) + self.schema.n_dense

    def per(self, data: SparseDataset) -> int | None:
        """What the sum is divided by, where it is not the number of lists."""
        if isinstance(self.risk, ClickedPairs):
            return max(1, ClickedPairs.n_pairs(data.relevance, data.offsets))
        return len(data.relevance) if self.by_item else None

    def worth(self, weights: Floats) -> Floats:
        """What the clicks weigh where lists are judged; these weights know how much positions matter."""
        return self._weighed(self.clicked, self.position, self.examined_by(weights)) if self.by_item else self.clicked

    def of_items(self, weights: Floats) -> Floats:
        """The weights without the offsets of positions."""
        ours = weights.copy()
        ours[: len(self.data.features.columns)][self.data.features.columns < 0] = 0.0
        return ours

    def examined_by(self, weights: Floats) -> Floats:
        """How likely positions are examined: as told, or by their offsets."""
        if self.examined is not None:
            return self.examined
        offsets = self._offsets(weights, weights)[0][np.minimum(np.arange(self.n_positions), POSITIONS - 1)]
        examined: Floats = np.minimum(1.0, np.exp(offsets - offsets[0]))
        return examined

    def session(self, found: Fit) -> Session:
        """The learner with these weights.

        The second number of a column is Σ over lists of its squared slope, as if the learner had always stood here.
        """
        data, weights = self.data, found.weights
        _, grad = self.risk.of_lists(scores_of(data.features, weights) + data.base, data.relevance, data.offsets)
        squares = squared_slopes(data.features, grad, data.offsets)
        columns = np.concatenate([data.features.columns, self.schema.n_hashed + np.arange(self.schema.n_dense)])
        session = Session(self.learner, self.problem, self.seed)
        state, generator, _, _ = session.snapshot()
        brings_evidence = from_layers(state, "evidence") is not None  # of its own kind, which begins at 0
        cells = np.column_stack([weights, np.zeros(len(weights)) if brings_evidence else squares])[columns >= 0]
        state = with_in_layers(state, "cells", Cells.of(self.problem.n_features, columns[columns >= 0], cells))
        if self.by_item and from_layers(state, "offsets") is not None:
            offsets, evidence = self._offsets(weights, squares)
            state = with_in_layers(with_in_layers(state, "offsets", offsets), "squares", evidence)
        session.restore(state, generator, self.n_lists, 0)
        return session

    def _weighed(self, clicked: Floats, position: Ints, examined: Floats | None) -> Floats:
        return clicked if examined is None else clicked * click_weights(position, examined, self.clip)

    def _examined(self, lists: Lists, position_bias: ArrayLike | None) -> Floats | None:
        if position_bias is None:
            return examined_by_position(lists, self.by_item)
        given = finite_floats(position_bias, 1, "position_bias")
        if len(given) < self.n_positions or not ((given > 0) & (given <= 1)).all():
            raise InvalidInput(
                f"position_bias needs {self.n_positions} probabilities above 0, got {given.tolist()!r:.80}"
            )
        return given

    def _with_offsets(self, data: SparseDataset) -> SparseDataset:
        """For click regression: a column for the offset of each position, or the offsets that are told."""
        if not self.by_item:
            return data
        position = np.minimum(self.position, POSITIONS - 1)
        data = data._replace(base=self.first_offsets[position])
        if self.fixed:
            return data
        return with_column(data, range(-1, -1 - len(self.first_offsets), -1), position, OFFSET)

    def _first_offsets(self) -> Floats:
        """Of the positions that occur: as told, or the log odds of a click there, which are learned from there on."""
        if self.fixed and self.examined is not None:
            return np.log(self.examined[: min(self.n_positions, POSITIONS)])
        position = np.minimum(self.position, POSITIONS - 1)
        shown = np.bincount(position, minlength=min(self.n_positions, POSITIONS)) + 1.0
        clicks = np.bincount(position, self.clicked > 0.0, minlength=len(shown)) + 0.5
        odds: Floats = np.log(clicks / (shown - clicks))
        return odds

    def _offsets(self, weights: Floats, squares: Floats) -> tuple[Floats, Floats]:
        """Of all positions, with their evidence; those that never occurred have the last one's."""
        known, evidence = self.first_offsets, np.zeros(len(self.first_offsets))
        if not self.fixed:
            at = np.flatnonzero(self.data.features.columns < 0)
            known, evidence = known + OFFSET * weights[at], squares[at] / OFFSET**2
        rest = POSITIONS - len(known)
        return np.append(known, np.full(rest, known[-1])), np.append(evidence, np.zeros(rest))


def collected(lists: Lists, schema: Schema, relevance: Floats) -> SparseDataset:
    """Lists as a data set, encoded by the schema."""
    encoder, collection = Encoder(schema), Collection(schema.n_hashed)
    for one in lists:
        collection.add(one.query_id, one.query(encoder).features)
    return collection.dataset(relevance)


def merged_lists(lists: Lists, schema: Schema) -> list[ShownList]:
    """All lists of one query and context as one, in which an item has the mean of its weights; see `reader.merged`.

    Lists without a query stay as they are. An item whose values change is another item.
    """
    stamped = any(kind.stamped for kind in (*schema.features.values(), *schema.context.values()))
    groups: dict[object, dict[str, _Item]] = {}
    first: dict[object, ShownList] = {}
    for number, one in enumerate(lists):
        asked: object = number if not one.query_id else (one.query_id, _text(one.context), one.at // DAY * stamped)
        items, first[asked] = groups.setdefault(asked, {}), first.get(asked, one)
        for id, row, weight, position in zip(one.ids, one.rows, one.clicked.tolist(), one.position.tolist()):
            item = items.setdefault(f"{id!r} {_text(row)}", _Item(id, row, position))
            item.weights.append(weight)
    return [first[asked]._replace(**_columns(list(items.values()))) for asked, items in groups.items()]


class _Item:
    """An item of a query, with what its clicks weighed each time that it was shown."""

    def __init__(self, id: Any, row: Mapping[str, Any], position: int) -> None:
        self.id, self.row, self.position = id, row, position
        self.weights: list[float] = []


def _columns(items: list[_Item]) -> dict[str, Any]:
    return {
        "ids": [item.id for item in items],
        "rows": [item.row for item in items],
        "position": np.array([item.position for item in items], np.int64),
        "clicked": np.array([np.mean(item.weights) for item in items]),
    }


def _text(values: Mapping[str, Any]) -> str:
    return repr(sorted(values.items(), key=lambda pair: pair[0]))


def _cut(one: ShownList, shown: int | None) -> ShownList:
    """The positions that people see; at least one."""
    if shown is None or len(one.ids) <= shown:
        return one
    return one._replace(
        ids=one.ids[:shown], rows=one.rows[:shown], position=one.position[:shown], clicked=one.clicked[:shown]
    )


def _risk(loss: str, graded: bool) -> Risk:
    """What is minimised: of clicks in pairs the weighted ranking SVM."""
    if graded and loss == "clicked_items":
        raise InvalidInput("clicked_items is a loss of clicks, and this log holds grades: take --loss ordinal")
    return ClickedPairs() if loss in IN_PAIRS and not graded else risk_of(loss)


def _gain(scores: Floats, lists: SparseDataset) -> float:
    return mean_of(parse_measure(GAIN).of_scores(scores, lists.relevance, lists.offsets))
