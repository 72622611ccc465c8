"""Shown pages of any log as one table: what was shown, what came of it, and where a ranker would put the items."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Features, Floats, Ints, Query
from rankloop.core.types import Rows as SparseRows
from rankloop.engine import Engine, Here
from rankloop.engine.pieces import Piece, over_pieces
from rankloop.evaluation.off_policy.propensities import RankingPolicy, shown_parts
from rankloop.evaluation.off_policy.ranking_log import LoggedRanking
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ListLog, numbers_of, weighted_outcomes

DRAWS = 8  # of a ranker that explores
PROJECTED = 64  # numbers that stand for hashed columns
NOWHERE = -1
CERTAIN = 1e-9
BUILDERS = 4  # that a worker remembers
HERE = Here()


class ShownPage(NamedTuple):
    """One list: candidates, the order in which they stood, and what the positions that were seen brought."""

    query: Query  # as the ranker in question sees it
    ranking: Ints  # all candidates; those after the seen ones were not looked at by anybody
    clicked: Floats  # of the first items, as many as were seen: above 0 where they were clicked
    positions: Ints | None = None  # where these stood; None: from the top, without gaps
    outcomes: Mapping[str, Floats] = {}  # what else came of each of them, such as a purchase
    worth: Mapping[str, Floats] = {}  # by outcome and item: what one is worth, such as a price
    session: Hashable = None  # whose page it is; None: a session of its own
    pairs: Sequence[Hashable] | None = None  # by item: what it is known by on other pages
    drawn_by: RankingPolicy | None = None
    drawn_for: Query | None = None  # the query as the policy that drew saw it


def pages_in(log: ListLog, feature_names: Sequence[str], schema: Schema | None = None) -> Iterator[ShownPage]:
    """Yield the pages of a log as a ranker sees them, with what was bought and paid where the log tells it.

    Args:
      log: A table or an export.
      feature_names: The columns of a table from which a ranker of plain numbers learned, in its order.
      schema: By which the ranker is asked; None for a ranker of plain numbers.

    Yields:
      Pages, their items in the order shown.

    Raises:
      InvalidInput: If a column is missing, or two items of a list stand at one position.
    """
    brought, worth = log.outcomes()
    order, sessions = log.order, [own or user for own, user in zip(log.session, log.user)]
    queries = queries_in(log, feature_names, schema)
    for page, (start, end) in enumerate(pairwise(log.offsets.tolist())):
        rows = order[start:end]
        stood = log.position[rows]
        if len(np.unique(stood)) != len(stood):
            raise InvalidInput(
                f"{log.name}, row {start + 1}: two items of one list stand at the same position; name the column "
                "that tells which rows are one page, --column list=NAME"
            )
        yield ShownPage(
            query=next(queries),
            ranking=np.arange(len(rows)),
            clicked=log.clicked[rows],
            positions=stood,
            outcomes={name: values[rows] for name, values in brought.items()},
            worth={name: values[rows] for name, values in worth.items()},
            session=sessions[page],
            pairs=None if log.item is None else [(log.query[start], log.item[row]) for row in rows.tolist()],
        )


def queries_in(log: ListLog, feature_names: Sequence[str], schema: Schema | None) -> Iterator[Query]:
    """Yield the query of each page in the numbers or fields that the ranker knows."""
    if schema is not None:
        encoder = Encoder(schema)
        yield from (shown.query(encoder) for shown in log.lists(schema))
        return
    features = _feature_rows(log, feature_names)
    contexts = log.export.contexts if log.export is not None else [np.empty(0)] * log.n_pages
    for (start, end), context in zip(pairwise(log.offsets.tolist()), contexts):
        yield Query(log.query[start], features[log.order[start:end]], context)


def _feature_rows(log: ListLog, names: Sequence[str]) -> Floats:
    if log.export is not None and log.export.features is not None:
        return log.export.features
    missing = next((name for name in names if name not in log.values), None)
    if missing is not None or not names:
        said = f"the column {missing!r}, from which the ranker learned{nearest(missing or '', log.values)}"
        raise InvalidInput(f"{log.name} lacks {said}" if names else "the ranker does not tell its features' names")
    return np.column_stack([log.numbers(name) for name in names])


def replayed_pages(log: Iterable[LoggedRanking], schema: Schema | None = None) -> Iterator[ShownPage]:
    """Yield the pages of a service, each with the state that drew it; what weighs more than a click is a purchase."""
    encoder, rankings = None if schema is None else Encoder(schema), list(log)
    weighted = any((entry.rewards != (entry.rewards > 0)).any() for entry in rankings)
    for entry in rankings:
        clicked = (entry.rewards > 0).astype(np.float64)
        yield ShownPage(
            query=entry.query_by(encoder),
            ranking=entry.ranking,
            clicked=clicked,
            outcomes=weighted_outcomes(entry.rewards) if weighted else {},
            session=entry.session or None,
            pairs=[(entry.query.id, item) for item in entry.ids] if entry.ids else None,
            drawn_by=entry.drawn_by,
            drawn_for=entry.query,
        )


class PageTable(NamedTuple):
    """A row for each item that was shown or that the ranker would show in the first `n_positions`."""

    n_pages: int
    n_positions: int
    n_sessions: int
    session: Ints  # by page
    page: Ints  # by row
    position: Ints  # where the row's item stood; NOWHERE: not seen
    before: Ints  # where it would have stood without chance; NOWHERE: not known, or below
    clicked: Floats
    features: Floats
    pair: Ints  # the number of what it is known by elsewhere
    unknown: Floats  # the share of what an item is described by that no shown item had: hashed columns only
    slots: Ints  # (draws, n_pages, n_positions): the row at each position of the ranker in question
    best: Ints  # (n_pages, n_positions): the same, of its order without chance
    logged: Floats | None  # (n_rows, n_positions): the probability of each position in the log, where asked for
    outcomes: dict[str, Floats]
    worth: dict[str, Floats]

    @property
    def shown(self) -> Ints:
        """The rows that were seen."""
        return np.flatnonzero(self.position != NOWHERE)


def page_table(
    pages: Iterable[ShownPage],
    session: Session,
    *,
    positions: int,
    with_swaps: bool = False,
    seed: int = 0,
    engine: Engine = HERE,
) -> PageTable:
    """What `positions` first positions brought, beside where the session's ranker would put the items now.

    A ranker that explores is asked `DRAWS` times. With `with_swaps` the policies that drew say with which probability
    each item stood at each position; refused where they cannot. The engine says where the ranker is asked.
    """
    builder = _Builder(session, positions, with_swaps, seed)
    shared = builder if isinstance(engine, Here) else (dumps(session), positions, with_swaps, seed)
    rows = [page for piece in over_pieces(engine, pages, built_piece, shared) for page in piece]
    if not rows:
        raise InvalidInput("the log has no pages; an estimate needs at least one")
    return _joined(rows)


class PageRows(NamedTuple):
    """The rows of one page, which it counts from 0; those that were seen come first."""

    session: Hashable
    n_seen: int
    position: Ints
    before: Ints
    clicked: Floats
    features: Floats
    columns: list[Ints]  # by row, where features are hashed
    pairs: list[Hashable]
    slots: Ints  # (draws, width)
    best: Ints  # (width,)
    logged: Floats | None
    outcomes: dict[str, Floats]
    worth: dict[str, Floats]


def built_piece(piece: Piece) -> list[PageRows]:
    """Return the rows of some pages, by the ranker that came with them."""
    builder = piece.shared if isinstance(piece.shared, _Builder) else _sent_builder(piece.shared)
    rows = (builder.rows_of(page, number) for number, page in enumerate(piece.entries, piece.first))
    return [page for page in rows if page is not None]


@lru_cache(BUILDERS)
def _sent_builder(shared: tuple[bytes, int, bool, int]) -> "_Builder":
    session, positions, with_swaps, seed = shared
    return _Builder(loads(session), positions, with_swaps, seed)


def _joined(pages: list[PageRows]) -> PageTable:
    """Return the rows of all pages as one table."""
    sizes = np.array([len(page.position) for page in pages])
    starts = np.cumsum(sizes) - sizes
    width = max(int(page.position[page.n_seen - 1]) + 1 for page in pages)
    draws = max(len(page.slots) for page in pages)
    slots = [page.slots if len(page.slots) == draws else np.repeat(page.slots[:1], draws, axis=0) for page in pages]
    session = numbers_of([page.session for page in pages])
    rows = [columns for page in pages for columns in page.columns]
    shown = np.concatenate([np.empty(0, np.int64), *(row for page in pages for row in page.columns[: page.n_seen])])
    logged = [page.logged for page in pages if page.logged is not None]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(page, name) for page in pages])

    def numbered(own: Ints, first: int) -> Ints:
        return np.where(own[..., :width] == NOWHERE, NOWHERE, own[..., :width] + first)

    def outcomes(part: str) -> dict[str, Floats]:
        names = dict.fromkeys(name for page in pages for name in getattr(page, part))
        return {name: np.concatenate([getattr(page, part)[name] for page in pages]) for name in names}

    return PageTable(
        n_pages=len(pages),
        n_positions=width,
        n_sessions=int(session.max()) + 1,
        session=session,
        page=np.repeat(np.arange(len(pages)), sizes),
        position=joined("position"),
        before=joined("before"),
        clicked=joined("clicked"),
        features=joined("features"),
        pair=numbers_of([pair for page in pages for pair in page.pairs]),
        unknown=unknown_shares(rows, np.unique(shown)),
        slots=np.ascontiguousarray(np.stack([numbered(own, first) for own, first in zip(slots, starts)], axis=1)),
        best=np.array([numbered(page.best, first) for page, first in zip(pages, starts)]),
        logged=np.concatenate(logged)[:, :width] if logged else None,
        outcomes=outcomes("outcomes"),
        worth=outcomes("worth"),
    )


def unknown_shares(rows: list[Ints], shown: Ints) -> Floats:
    """Return by row the share of its columns that no shown item had; 0 where it has none.

    All rows are looked up at once: each by itself takes hours for a log of a million.
    """
    sizes = np.array([len(columns) for columns in rows])
    strange = ~np.isin(np.concatenate([*rows, np.empty(0, np.int64)]), shown)
    n_known = sizes - np.bincount(np.repeat(np.arange(len(rows)), sizes), strange, len(rows))
    share: Floats = np.where(sizes > 0, 1.0 - n_known / np.maximum(sizes, 1), 0.0)
    return share


class _Builder:
    """Asks the ranker in question where it would put the items of a page."""

    def __init__(self, session: Session, positions: int, with_swaps: bool, seed: int) -> None:
        self.target, self.seed = session, seed
        self.width, self.with_swaps = positions, with_swaps

    def rows_of(self, page: ShownPage, number: int) -> PageRows | None:
        """Return the rows of a page, None where nothing was seen; its number says which draws are its own."""
        stood = np.arange(len(page.clicked)) if page.positions is None else page.positions
        stood = stood[stood < self.width]  # the positions that count, from the top
        seen = len(stood)
        if not seen:
            return None
        orders = self._orders(page.query, number)
        drawn = [order[:seen] for order in orders]
        items = np.array(list(dict.fromkeys([*page.ranking[:seen].tolist(), *np.concatenate(drawn).tolist()])))
        n, row_of = len(items), {item: row for row, item in enumerate(items.tolist())}
        slots = np.full((len(orders), self.width), NOWHERE, dtype=np.int64)
        for draw, order in enumerate(drawn):
            slots[draw, stood] = [row_of[item] for item in order.tolist()]
        rank = np.empty(page.query.n_items)
        rank[orders[0]] = np.arange(len(orders[0]))
        worth = {name: page.worth.get(name) for name in page.outcomes}
        return PageRows(
            session=f"page {number}" if page.session is None else page.session,
            n_seen=seen,
            position=_padded(stood, n, NOWHERE),
            before=self._before(page, items, seen),
            clicked=_padded((page.clicked[:seen] > 0).astype(np.float64), n, 0.0),
            features=np.column_stack([dense_rows(page.query.features, items), np.log1p(rank[items])]),
            columns=_columns(page.query.features, items),
            pairs=[(number, item) if page.pairs is None else page.pairs[item] for item in items.tolist()],
            slots=slots[1:] if len(slots) > 1 else slots,
            best=slots[0],
            logged=self._probabilities(page, items, seen) if self.with_swaps else None,
            outcomes={name: _padded(values[:seen], n, 0.0) for name, values in page.outcomes.items()},
            worth={name: np.ones(n) if values is None else values[items] for name, values in worth.items()},
        )

    def _orders(self, query: Query, number: int) -> list[Ints]:
        """The order without chance, and as many with it as are needed; none where there is no chance."""
        learner, state = self.target.learner, self.target.state
        best = learner.predict(state, query)
        if abs(learner.log_prob(state, query, best)) <= CERTAIN:  # not where it is nan
            return [best]
        rng = np.random.default_rng([self.seed, number])
        return [best, *(learner.rank(state, query, rng).ranking for _ in range(DRAWS))]

    def _before(self, page: ShownPage, items: Ints, seen: int) -> Ints:
        if page.drawn_by is None:
            return np.full(len(items), NOWHERE)
        policy = page.drawn_by
        best = policy.learner.predict(policy.state, page.drawn_for or page.query)
        rank = np.full(page.query.n_items, NOWHERE)
        rank[best[: seen + 1]] = np.arange(len(best[: seen + 1]))
        return rank[items]

    def _probabilities(self, page: ShownPage, items: Ints, seen: int) -> Floats:
        if page.drawn_by is None:
            raise InvalidInput("the log does not say which states drew its lists: use examination_dr")
        found = np.zeros((page.query.n_items, self.width))
        for shown, probability in shown_parts(page.drawn_by, page.drawn_for or page.query, seen).items():
            found[list(shown), np.arange(seen)] += probability
        return found[items]


def _padded(values: Any, n: int, fill: float) -> Any:
    """Return the values of the seen rows, then `fill` for those that were not."""
    return np.concatenate([values, np.full(n - len(values), fill, dtype=values.dtype)])


def _columns(features: Features, items: Ints) -> list[Ints]:
    """Return by item the hashed columns that it has."""
    if not isinstance(features, SparseRows):
        return [np.empty(0, np.int64)] * len(items)
    starts = features.starts
    return [features.columns[features.positions[starts[item] : starts[item + 1]]] for item in items.tolist()]


def dense_rows(features: Features, items: Ints) -> Floats:
    """The numbers of some items; hashed columns are thrown together with signs, which keeps most of what they tell."""
    if not isinstance(features, SparseRows):
        return features[items]
    columns = features.columns
    own, sign = columns % PROJECTED, 1.0 - 2.0 * ((columns // PROJECTED) % 2)
    found = np.zeros((len(items), PROJECTED))
    for row, item in enumerate(items.tolist()):
        entries = slice(features.starts[item], features.starts[item + 1])
        at = features.positions[entries]
        np.add.at(found[row], own[at], sign[at] * features.values[entries])
    return np.hstack([found, features.dense[items]])
