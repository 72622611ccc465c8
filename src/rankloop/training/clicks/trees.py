"""Trees from the clicks of a log, as a base score for an online learner."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import finite_floats
from rankloop.data.dataset import Dataset
from rankloop.features.schema import Schema
from rankloop.logs.numeric_features import numeric_features
from rankloop.logs.reader import lists_in
from rankloop.training.clicks import weights as click_weights
from rankloop.training.clicks.train import schema_for
from rankloop.training.trees import N_FOLDS, TreeRanker, TreeSettings, fit_trees, fold_of
from rankloop.training.trees.tree_columns import TreeColumn, encode_columns, tree_columns
from rankloop.training.trees.tree_ranker import LIGHTGBM

DEFAULT_TREES = TreeSettings()


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
    may have gaps. LightGBM splits categories by sets of values; texts, and categories of XGBoost, are hashed counts.

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
        columns = tree_columns(schema, lists.values, with_codes=settings.kind == LIGHTGBM)
        values = encode_columns(columns, lists.values)
    if position_bias is None:
        queries = [lists.query[start] for start in lists.offsets[:-1].tolist()]
        rows = rows_as_log(
            lists.pair_numbers(), lists.position, lists.clicked, lists.offsets, queries, lists.propensity
        )
        examined = click_weights.required_bias(click_weights.estimate_examined(rows))
    else:
        examined = finite_floats(position_bias, 1, "position_bias")
    logged_weights = lists.weight if lists.columns.weight else lists.clicked
    weights = click_weights.weighted_clicks(logged_weights, lists.position, examined, clip)
    clicked = np.flatnonzero(weights)
    if not len(clicked):
        raise InvalidInput(click_weights.NO_CLICK)
    owner = np.searchsorted(lists.offsets, clicked, "right") - 1
    sizes = np.diff(lists.offsets)[owner]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
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
    different = set(copies.query_ids)
    fillable = (n for n in range(n_folds, 1, -1) if len({fold_of(id, n) for id in different}) == n)
    n_folds = next(fillable, n_folds)
    return fit_trees(
        copies,
        weights=np.repeat(weights[clicked], sizes),
        n_folds=n_folds,
        settings=settings,
        columns=[column for column in columns if column.field not in without],
    )
