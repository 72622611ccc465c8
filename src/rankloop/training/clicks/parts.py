"""Clicks in logs of several parts, which stay on disks: read, weighed and learned from by the workers of an engine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.data.parts.catalogue import END
from rankloop.data.parts.columns import END_OF_NAME, Hashes, PartOptions, hash_of
from rankloop.data.parts.rows import PartRows
from rankloop.data.parts.source import PartSource
from rankloop.engine import SummingEngine
from rankloop.logs.columns import list_columns_of
from rankloop.logs.list_table import read_raw_columns
from rankloop.logs.table_source import TableSource
from rankloop.training.clicks.position_bias import Impressions, any_moved, bias_by_em
from rankloop.training.clicks.reader import UNTOLD_BIAS, ClickLog, read_click_log
from rankloop.training.clicks.train import GAIN, HELD_OUT, IN_PAIRS, ClickRanker
from rankloop.training.solution_path import DEFAULT_SOLVER, SolverSettings, fit, fit_path
from rankloop.training.stored_folds import catalogue_of, listed
from rankloop.training.validation import mean_measures

MAX_IMPRESSIONS = 2_000_000  # from which the driver estimates the position bias


class LogColumns(NamedTuple):
    """Which columns of the log are what, as a person says it, or as the first part was understood."""

    without: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # role and name
    features: tuple[str, ...] = ()  # asked for, or all that are learned from

    def read(self, path: Path) -> ClickLog:
        return read_click_log(path, self.without, dict(self.columns), self.features)


AS_NAMED = LogColumns()


@dataclass(frozen=True)
class ClickReader:
    """The rows of a part: lists with the weights of their clicks as grades; folds go by the query."""

    columns: LogColumns
    examined: tuple[float, ...]
    clip: float

    def __call__(self, path: Path) -> Iterator[PartRows]:
        features = self.columns.features
        roles = {name for _, name in self.columns.columns}
        unused = [name for name in TableSource(path).names if name not in features and name in self.columns.without]
        log = self.columns._replace(without=tuple(name for name in unused if name not in roles)).read(path)
        order = [log.feature_names.index(name) for name in features]
        queries = [log.query_ids[number] for number in log.query[log.offsets[:-1]].tolist()]
        names = [f"{query}{END_OF_NAME}{path.name}:{number}" for number, query in enumerate(queries)]
        weights = log.relevance(np.array(self.examined), self.clip)
        yield PartRows(np.ascontiguousarray(log.features[:, order]), weights, log.offsets[:-1], names, 0, len(order))


class ClickedPairs(NamedTuple):
    """Counterfactual RankSVM as a risk: Σ over clicks i of weight_i · Σ_j max(0, 1 + score_j − score_i), times `scale`.

    With scale = lists / pairs the mean over the lists is the mean over the pairs, as in `RankBundle.fit_pairs`.
    """

    scale: float

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        return clicked_pairs_loss(scores, relevance, offsets, self.scale)


@kernel
def clicked_pairs_loss(scores: Floats, weights: Floats, offsets: Ints, scale: float) -> tuple[float, Floats]:
    """The loss over all lists, and its slope in the scores."""
    value, grad = 0.0, np.zeros(len(scores))
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            if weights[i] > 0.0:
                for j in range(offsets[q], offsets[q + 1]):
                    gap = 1.0 + scores[j] - scores[i]
                    if j != i and gap > 0.0:
                        value += weights[i] * gap
                        grad[j] += weights[i]
                        grad[i] -= weights[i]
    return value * scale, grad * scale


class Seen(NamedTuple):
    """Of one part: the impressions of some pairs of query and item, and how the columns were understood."""

    pairs: Hashes  # of query and item, all of them below `end`
    positions: Ints
    clicked: Floats
    end: int
    n_lists: int
    n_pairs: int  # a clicked item and another of its list
    feature_names: tuple[str, ...]
    unused: tuple[str, ...]


def seen_in(task: tuple[PartSource, LogColumns, int]) -> Seen:
    """A task for a worker: read a part of the log, and say what the driver has to know of it."""
    source, columns, limit = task
    with source.local() as path:
        log, names = columns.read(path), TableSource(path).names
        pairs = _pair_hashes(path, log, columns)
    sizes = np.diff(log.offsets)
    clicks = np.add.reduceat(log.clicked > 0, log.offsets[:-1])
    end = END if len(pairs) <= limit else END * limit // len(pairs)
    some = pairs <= np.uint64(end - 1)
    unused = tuple(name for name in names if name not in log.feature_names)
    n_pairs = int(np.sum(clicks * (sizes - 1)))
    shown = pairs[some], log.position[some], log.clicked[some]
    return Seen(*shown, end, len(sizes), n_pairs, log.feature_names, unused)


def _pair_hashes(path: Path, log: ClickLog, columns: LogColumns) -> Hashes:
    """Of each row the hash of its query and item, by which the pair is known in other parts."""
    roles = list_columns_of(TableSource(path).names, columns.without, dict(columns.columns), path.name)
    if not roles.item:
        return np.array([hash_of(f"{path.name} {number}") for number in log.pair.tolist()], np.uint64)
    items = [str(item) for item in read_raw_columns(path)[roles.item]]
    queries = [log.query_ids[number] for number in log.query.tolist()] if roles.query else [""] * len(items)
    return np.array([hash_of(f"{len(query)} {query} {item}") for query, item in zip(queries, items)], np.uint64)


def train_on_click_parts(
    address: str,
    engine: SummingEngine,
    loss: str = "ordinal",
    *,
    columns: LogColumns = AS_NAMED,
    path: Sequence[float],
    position_bias: Sequence[float] | None = None,
    clip: float = 10.0,
    tolerance: float = DEFAULT_SOLVER.tolerance,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> ClickRanker:
    """What `train_on_clicks` does, where the log is a folder or an address of parts that the workers read.

    The first part says which columns are features. A fifth of the queries, by their hash, chooses the regularisation.
    The position bias is estimated from the impressions of some pairs of query and item, by their hash, unless it is
    given: of all pairs where the log has fewer than MAX_IMPRESSIONS rows.
    """
    if loss not in IN_PAIRS:
        raise InvalidInput(f"a log in parts is trained with the loss {IN_PAIRS[0]}; {loss} needs one file")
    sources = listed(address, engine).sources
    if not sources[0].is_table:
        raise InvalidInput(
            f"{address!r} should hold parts of a log, as CSV or Parquet tables; {sources[0].name} is none"
        )
    limit = max(1, MAX_IMPRESSIONS // len(sources))
    first = engine.map([(sources[0], columns, limit)], seen_in)[0]
    understood = columns._replace(
        without=tuple(dict.fromkeys([*columns.without, *_not_roles(first, columns)])), features=first.feature_names
    )
    seen = [first, *engine.map([(source, understood, limit) for source in sources[1:]], seen_in)]
    examined = _bias(seen) if position_bias is None else tuple(position_bias)
    n_lists, n_pairs = sum(each.n_lists for each in seen), sum(each.n_pairs for each in seen)
    if n_pairs == 0:
        raise InvalidInput("the log has no click, so there is nothing to learn from")
    options = PartOptions(ClickReader(understood, examined, clip))
    catalogue = catalogue_of(sources, options, engine)
    settings, risk = SolverSettings(tolerance=tolerance, engine=engine), ClickedPairs(n_lists / n_pairs)
    train, held_out = catalogue.within([(END // HELD_OUT, END)]), catalogue.within([(0, END // HELD_OUT)])
    if 0 in (train.n_queries, held_out.n_queries):
        raise InvalidInput(f"the log has {n_lists} list(s); there must be more to choose the regularisation")
    found = []
    for done, one in enumerate(fit_path(train, risk, path, settings=settings), start=1):
        found.append(one.weights)
        progress(done, len(path))
    gains = dict(zip(path, mean_measures([(weights, GAIN) for weights in found], held_out, engine)))
    best = max(gains, key=lambda regularisation: gains[regularisation])
    weights = fit(catalogue.within([(0, END)]), risk, best, settings=settings).weights
    return ClickRanker(weights, loss, False, best, gains, np.array(examined), first.feature_names, False)


def _not_roles(first: Seen, columns: LogColumns) -> list[str]:
    """Columns of the first part that are neither features nor have a role there."""
    names = [*first.feature_names, *first.unused]
    roles = list_columns_of(names, columns.without, dict(columns.columns), "the log")
    used = {roles.list, roles.query, roles.item, roles.position, roles.click}
    return [name for name in first.unused if name not in used]


def _bias(seen: Sequence[Seen]) -> tuple[float, ...]:
    """From the pairs that every part has told all about."""
    end = np.uint64(min(each.end for each in seen) - 1)
    some = [each.pairs <= end for each in seen]
    _, pairs = np.unique(np.concatenate([each.pairs[told] for each, told in zip(seen, some)]), return_inverse=True)
    positions = np.concatenate([each.positions[told] for each, told in zip(seen, some)])
    clicked = np.concatenate([each.clicked[told] for each, told in zip(seen, some)])
    together = Impressions(pairs.astype(np.int64), positions, clicked)
    if positions.max() > 0 and not any_moved(together):
        raise InvalidInput(UNTOLD_BIAS)
    return tuple(bias_by_em(together).examined.tolist())
