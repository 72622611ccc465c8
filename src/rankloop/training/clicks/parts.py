"""Training on logs in several parts, which stay on disk and are read by the workers of an engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.click_models.examination import rows_as_log
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats
from rankloop.data.folder import given_path
from rankloop.data.parts.catalogue import END_OF_NAME, HASH_END, Hashes, PartOptions, PartRows, hash_of
from rankloop.data.parts.source import URL_SCHEME_MARK, PartSource
from rankloop.engine import kept
from rankloop.logs.columns import ListColumns
from rankloop.logs.list_log import ListLog
from rankloop.logs.numeric_features import NumericFeatures, numeric_features
from rankloop.logs.reader import lists_in
from rankloop.logs.table_reader import TableReader
from rankloop.training.clicks import weights as click_weights
from rankloop.training.clicks.batch import PAIR_LOSSES
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.folds import catalogue_of, list_parts
from rankloop.training.rank_bundle import session_of
from rankloop.training.risks.pairwise import ClickedPairs
from rankloop.training.solution_path import BatchSolver, Progress, fit, fit_path, mean_measures

MAX_IMPRESSIONS = 2_000_000  # from which the driver estimates the position bias


class LogColumns(NamedTuple):
    """The roles of the columns, as the user says, or as in the first part."""

    without: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # role and name
    features: tuple[str, ...] = ()  # features even if they look like outcomes, or all features

    def read(self, path: Path) -> tuple[ListLog, NumericFeatures]:
        """Read a part."""
        log = lists_in(path, without=self.without, columns=dict(self.columns))
        return log, numeric_features(log, self.features)


AS_NAMED = LogColumns()


@dataclass(frozen=True)
class ClickReader:
    """A reader of the rows of a part: lists with the weights of their clicks as grades."""

    columns: LogColumns
    examined: tuple[float, ...]
    clip: float

    def __call__(self, path: Path) -> Iterator[PartRows]:
        """Yield the rows of a part."""
        names, roles = TableReader(path).names, {name for _, name in self.columns.columns}
        unused = tuple(name for name in self.columns.without if name in names and name not in roles)
        log, features = self.columns._replace(without=unused).read(path)
        order = [features.names.index(name) for name in self.columns.features]
        numbers, query_ids = log.query_numbers()
        queries = [query_ids[number] for number in numbers[log.offsets[:-1]].tolist()]
        clicked = log.weight if log.columns.weight else log.clicked
        yield PartRows(
            features=np.ascontiguousarray(features.values[:, order]),
            grades=click_weights.weighted_clicks(clicked, log.position, self.examined, self.clip),
            starts=log.offsets[:-1],
            names=[f"{query}{END_OF_NAME}{path.name}:{number}" for number, query in enumerate(queries)],
            lowest=0,
            width=len(order),
        )


class PartClicks(NamedTuple):
    """The impressions of some pairs of query and item in one part, and the roles of its columns."""

    pairs: Hashes  # of query and item, all of them below `end`
    positions: Ints
    clicked: Floats
    end: int
    n_lists: int
    n_pairs: int  # a clicked item and another of its list
    feature_names: tuple[str, ...]
    unused: tuple[str, ...]


def _clicks_in(task: tuple[PartSource, LogColumns, int]) -> PartClicks:
    """Read a part of the log and return the facts that the driver needs: a task for a worker."""
    source, columns, limit = task
    with source.local() as path:
        (log, features), names = columns.read(path), TableReader(path).names
        if log.item is None:
            texts = [f"{path.name} {row}" for row in range(log.n_rows)]
        else:  # equal in all parts
            queries = log.query if log.columns.query else [""] * log.n_rows
            texts = [f"{len(query)} {query} {item}" for query, item in zip(queries, log.item)]
    pairs = np.array([hash_of(text) for text in texts], np.uint64)
    end = HASH_END if len(pairs) <= limit else HASH_END * limit // len(pairs)
    some = pairs <= np.uint64(end - 1)
    return PartClicks(
        pairs=pairs[some],
        positions=log.position[some],
        clicked=log.clicked[some],
        end=end,
        n_lists=log.n_pages,
        n_pairs=ClickedPairs.n_pairs(log.clicked, log.offsets),
        feature_names=features.names,
        unused=tuple(name for name in names if name not in features.names),
    )


def train_click_parts(
    address: str,
    solver: BatchSolver,
    columns: LogColumns = AS_NAMED,
    *,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    progress: Progress = lambda done, of: None,
) -> ClickTraining:
    """Train on the clicks of a log whose parts the workers of an engine read.

    The first part sets which columns are features. A fifth of the queries, by their hash, chooses the regularisation.

    Args:
      address: A folder or an address of CSV or Parquet tables.
      solver: The regularisations, and the engine whose workers read the parts; the loss is `ordinal`.
      columns: The roles of the columns.
      position_bias: The probability of each position to be examined; estimated from about MAX_IMPRESSIONS rows.
      clip: No click weighs more than this.
      progress: Called with the number of fits that are done, and of all.
    """
    if solver.loss not in PAIR_LOSSES or solver.tight:
        raise InvalidInput(f"a log in parts is trained with the loss {PAIR_LOSSES[0]}; {solver.loss} needs one file")
    where = address if URL_SCHEME_MARK in address else str(given_path(address))
    with kept(solver.settings.engine) as engine:
        settings = solver.settings._replace(engine=engine)
        sources = list_parts(where, engine).sources
        if not sources[0].is_table:
            raise InvalidInput(
                f"{address!r} should hold parts of a log, as CSV or Parquet tables; {sources[0].name} is another file"
            )
        limit = max(1, MAX_IMPRESSIONS // len(sources))
        first = engine.map([(sources[0], columns, limit)], _clicks_in)[0]
        names = [*first.feature_names, *first.unused]
        roles = ListColumns.of(names, columns.without, dict(columns.columns), "the log")
        used = {roles.list, roles.query, roles.item, roles.position, roles.click}
        without = dict.fromkeys([*columns.without, *(name for name in first.unused if name not in used)])
        understood = columns._replace(without=tuple(without), features=first.feature_names)
        parts = [first, *engine.map([(source, understood, limit) for source in sources[1:]], _clicks_in)]
        n_lists, n_pairs = sum(part.n_lists for part in parts), sum(part.n_pairs for part in parts)
        if n_pairs == 0:
            raise InvalidInput(click_weights.NO_CLICK)
        examined = _examined(parts) if position_bias is None else finite_floats(position_bias, 1, "position_bias")
        reader = ClickReader(understood, tuple(examined.tolist()), clip)
        catalogue = catalogue_of(sources, PartOptions(reader), engine)
        cut, path = HASH_END // click_weights.HELD_OUT_SHARE, solver.checked_path()
        training, held_out = catalogue.within([(cut, HASH_END)]), catalogue.within([(0, cut)])
        if 0 in (training.n_queries, held_out.n_queries):
            raise InvalidInput(f"the log has {n_lists} list(s); there must be more to choose the regularisation")

        models, per = [], n_pairs * training.n_queries / n_lists
        for model in fit_path(training, ClickedPairs(), path, settings=settings, per=per):
            models.append(model.weights)
            progress(len(models), len(path))
        gains = dict(
            zip(path, mean_measures([(weights, click_weights.GAIN_MEASURE) for weights in models], held_out, engine))
        )
        best = max(gains, key=lambda regularisation: gains[regularisation])
        per = n_pairs * catalogue.n_queries / n_lists
        final = fit(catalogue, ClickedPairs(), best, settings=settings, per=per)
    return ClickTraining(
        session=session_of(final.weights, feature_names=first.feature_names),
        choice="regularisation",
        chosen=best,
        gains=gains,
        logged_gain=None,
        examined=examined,
        examined_is_known=True,
        n_lists=n_lists,
        loss=solver.loss,
        solution=final.solution,
        feature_names=first.feature_names,
        columns=f"features: {', '.join(first.feature_names)}",
    )


def _examined(parts: Sequence[PartClicks]) -> Floats:
    """Estimate the position bias from the pairs of which every part reported all impressions."""
    end = np.uint64(min(part.end for part in parts) - 1)
    some = [part.pairs <= end for part in parts]
    pairs, positions, clicked = (
        np.concatenate([getattr(part, name)[chosen] for part, chosen in zip(parts, some)])
        for name in ("pairs", "positions", "clicked")
    )
    numbers = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return click_weights.required_bias(click_weights.estimate_examined(rows_as_log(numbers, positions, clicked)))
