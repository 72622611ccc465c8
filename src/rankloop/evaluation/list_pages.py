"""Shown pages of any log as one table: items, positions and clicks, and where a ranker would put the items."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Features, Floats, Ints, Query
from rankloop.core.types import Rows as SparseRows
from rankloop.engine import Engine
from rankloop.engine.base import Piece, over_pieces
from rankloop.evaluation.off_policy.ranking_log import LOCAL_ENGINE, AskedRanker, LoggedRanking, RankingPolicy
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ClickArrays, ListLog, numbers_of, weighted_outcomes

N_DRAWS = 8  # orders of a ranker that explores
N_PROJECTED = 64  # numbers that stand for hashed columns
NOT_SHOWN = -1
MAX_LOG_DOUBT = 1e-9  # of the probability of the best order, where a ranker does not explore


class ShownPage(NamedTuple):
    """One list: candidates, the order in which they stood, and what came of the positions that were shown."""

    query: Query  # as the ranker in question sees it
    ranking: Ints  # all candidates; those after the shown ones were not shown to anybody
    clicked: Floats  # of the first items, as many as were shown: above 0 where they were clicked
    positions: Ints | None = None  # where these stood; None: from the top, without gaps
    outcomes: Mapping[str, Floats] = {}  # further results of each of them, such as a purchase
    worth: Mapping[str, Floats] = {}  # by outcome and item, the worth of one, such as a price
    session: Hashable = None  # None: a session of its own
    pairs: Sequence[Hashable] | None = None  # by item, (query, item) as other pages name it; None: unknown elsewhere
    drawn_by: RankingPolicy | None = None  # the policy that drew the order, where that is known
    drawn_for: Query | None = None  # the query as that policy saw it
    propensity: Floats | None = None  # by shown item, the probability of its position or of its list; None: unknown

    @classmethod
    def in_log(cls, log: ListLog, feature_names: Sequence[str], schema: Schema | None = None) -> Iterator[Self]:
        """Yield the pages of a log as a ranker sees them, with what was bought and paid where the log tells it.

        A ranker of plain numbers has `feature_names`, the columns that it learned from, instead of a schema. Two items
        of a list at one position are refused.
        """
        brought, worth = log.outcomes()
        order, sessions = log.order, [user or name for name, user in zip(log.session, log.user)]
        queries, propensity = log.queries(feature_names, schema), log.propensity
        for page, (start, end) in enumerate(pairwise(log.offsets.tolist())):
            rows = order[start:end]
            stood = log.position[rows]
            if len(np.unique(stood)) != len(stood):
                fault = f"{log.name}, row {start + 1}: two items of one list stand at the same position"
                raise InvalidInput(f"{fault}; name the column that tells which rows are one page, --column list=NAME")
            yield cls(
                query=next(queries),
                ranking=np.arange(len(rows)),
                clicked=log.clicked[rows],
                positions=stood,
                outcomes={name: values[rows] for name, values in brought.items()},
                worth={name: values[rows] for name, values in worth.items()},
                session=sessions[page],
                pairs=None if log.item is None else [(log.query[start], log.item[row]) for row in rows.tolist()],
                propensity=None if propensity is None else propensity[rows],
            )

    @classmethod
    def replayed(cls, log: Iterable[LoggedRanking], schema: Schema | None = None) -> Iterator[Self]:
        """Yield the pages of a service as a ranker sees them, each with the state that drew it, and with its outcomes.

        If the ranker declares none, clicks that weigh more than 1 are purchases.
        """
        encoder, rankings = None if schema is None else Encoder(schema), list(log)
        weighted = any((entry.rewards != (entry.rewards > 0)).any() for entry in rankings)
        for entry in rankings:
            clicked = (entry.rewards > 0).astype(np.float64)
            yield cls(
                query=entry.query_by(encoder),
                ranking=entry.ranking,
                clicked=clicked,
                outcomes=entry.outcomes or (weighted_outcomes(entry.rewards) if weighted else {}),
                session=entry.session or None,
                pairs=[(entry.query.id, item) for item in entry.ids] if entry.ids else None,
                drawn_by=entry.drawn_by if entry.propensity is None else None,
                drawn_for=entry.query,
                propensity=None if entry.propensity is None else np.full(len(clicked), entry.propensity),
            )


class PageTable(NamedTuple):
    """A row for each item that was shown or that the ranker would show; by row, unless said otherwise."""

    n_pages: int
    n_positions: int  # of the longest page
    session: Ints  # by page, its number
    query: Sequence[str]  # by page
    page: Ints
    position: Ints  # where the item stood; −1: not shown
    base_position: Ints  # where it would have stood without chance; −1: not known, or below
    clicked: Floats
    features: Floats
    pair: Ints  # the number of its (query, item) pair
    item: Ints  # the number of the item whatever the query
    unknown: Floats  # the share of hashed columns that no shown item had
    slots: Ints  # (draws, n_pages, n_positions), the row at each position of the ranker in question
    outcomes: dict[str, Floats]  # what was brought beside clicks
    worth: dict[str, Floats]  # of one of each outcome
    propensity: Floats | None = None  # as `ShownPage` has it; nan where unknown

    @classmethod
    def of(
        cls,
        pages: Iterable[ShownPage],
        session: Session,
        *,
        positions: int | None = None,
        seed: int = 0,
        engine: Engine = LOCAL_ENGINE,
    ) -> Self:
        """Return what pages brought, beside where the ranker of a session would put their items now.

        Only the first `positions` count, all that were shown unless given. A ranker that explores is asked several
        times, on any engine with the same draws of `seed`.
        """
        shared = AskedRanker(session), positions, seed
        rows = [page for piece in over_pieces(engine, pages, _rows_of_piece, shared) for page in piece]
        if not rows:
            raise InvalidInput("the log has no pages; an estimate needs at least one")
        return cls._joined(rows)

    @classmethod
    def of_clicks(cls, log: ClickArrays) -> Self:
        """Return the table of a log of which only items, positions and clicks are known."""
        n_rows = len(log.pair)
        return cls(
            n_pages=log.n_pages,
            n_positions=log.n_positions,
            session=log.session,
            query=[log.query_ids[pair] for pair in log.pair[log.offsets[:-1]].tolist()],
            page=log.page,
            position=log.position,
            base_position=np.full(n_rows, NOT_SHOWN),
            clicked=log.clicked,
            features=np.zeros((n_rows, 1)),
            pair=log.pair,
            item=numbers_of(log.items)[log.pair],
            unknown=np.zeros(n_rows),
            slots=np.zeros((0, 0, 0), np.int64),
            outcomes={},
            worth={},
            propensity=log.propensity,
        )

    @classmethod
    def _joined(cls, pages: "list[PageRows]") -> Self:
        """Return the rows of all pages as one table."""
        sizes = np.array([len(page.position) for page in pages])
        starts = np.cumsum(sizes) - sizes
        width = max(int(page.position[page.n_shown - 1]) + 1 for page in pages)
        n_draws = max(len(page.slots) for page in pages)
        slots = np.full((n_draws, len(pages), width), NOT_SHOWN)
        for number, (page, start) in enumerate(zip(pages, starts)):
            rows = np.where(page.slots == NOT_SHOWN, NOT_SHOWN, page.slots + start)
            slots[:, number, : rows.shape[1]] = rows  # an order without chance stands in every draw
        columns = {
            name: np.concatenate([getattr(page, name) for page in pages])
            for name in ("position", "base_position", "clicked", "features", "propensity")
        }
        if np.isnan(columns["propensity"]).all():
            del columns["propensity"]

        def outcomes(part: str) -> dict[str, Floats]:
            names = dict.fromkeys(name for page in pages for name in getattr(page, part))
            return {name: np.concatenate([getattr(page, part)[name] for page in pages]) for name in names}

        pairs = [pair for page in pages for pair in page.pairs]
        shown_columns = np.concatenate([row for page in pages for row in page.columns[: page.n_shown]])
        return cls(
            n_pages=len(pages),
            n_positions=width,
            session=numbers_of([page.session for page in pages]),
            query=[page.query for page in pages],
            page=np.repeat(np.arange(len(pages)), sizes),
            pair=numbers_of(pairs),
            item=numbers_of([pair[1] if isinstance(pair, tuple) else pair for pair in pairs]),
            unknown=_unknown_shares([columns for page in pages for columns in page.columns], shown_columns),
            slots=slots,
            outcomes=outcomes("outcomes"),
            worth=outcomes("worth"),
            **columns,
        )

    @property
    def shown(self) -> Ints:
        """The rows that were shown, those of a page together and from the top."""
        return np.flatnonzero(self.position != NOT_SHOWN)

    def slots_by(self, scores: Floats) -> Ints:
        """Return the order of the shown items of each page by falling scores, one for each shown row."""
        rows = self.shown
        slots = np.full((1, self.n_pages, self.n_positions), NOT_SHOWN)
        slots[0, self.page[rows], self.position[rows]] = rows[np.lexsort((-scores, self.page[rows]))]
        return slots

    def clicks(self) -> ClickArrays:
        """Return the shown rows as the log that click models are fitted to; pairs keep their numbers."""
        rows, n_pairs = self.shown, int(self.pair.max()) + 1
        items, queries = np.zeros(n_pairs, np.int64), np.full(n_pairs, "", dtype=object)
        items[self.pair], queries[self.pair] = self.item, np.array(self.query, dtype=object)[self.page]
        sizes = np.bincount(self.page[rows], minlength=self.n_pages)
        return ClickArrays(
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            pair=self.pair[rows],
            position=self.position[rows],
            clicked=self.clicked[rows],
            session=self.session,
            query_ids=tuple(queries.tolist()),
            items=tuple(map(str, items.tolist())),
            propensity=None if self.propensity is None else self.propensity[rows],
        )


class PageRows(NamedTuple):
    """The rows of one page, which it counts from 0; those that were shown come first."""

    session: Hashable
    query: str
    n_shown: int
    position: Ints
    base_position: Ints
    clicked: Floats
    features: Floats
    columns: list[Ints]  # by row, where features are hashed
    pairs: list[Hashable]
    slots: Ints  # (draws, positions)
    outcomes: dict[str, Floats]
    worth: dict[str, Floats]
    propensity: Floats


def _rows_of_piece(piece: Piece) -> list[PageRows]:
    """Return the rows of some pages, by the ranker that came with them."""
    ranker, positions, seed = piece.shared
    pages = enumerate(piece.entries, piece.first)
    rows = (_rows_of(page, number, ranker.session, positions, seed) for number, page in pages)
    return [page for page in rows if page is not None]


def _unknown_shares(rows: list[Ints], shown: Ints) -> Floats:
    """Return the share of the columns of each row that are not among the shown ones; 0 where it has none."""
    # All rows are looked up at once: each by itself takes hours for a log of a million.
    sizes = np.array([len(columns) for columns in rows])
    strange = ~np.isin(np.concatenate(rows), shown)
    n_familiar = sizes - np.bincount(np.repeat(np.arange(len(rows)), sizes), strange, len(rows))
    return np.where(sizes > 0, 1.0 - n_familiar / np.maximum(sizes, 1), 0.0).astype(np.float64)


def _rows_of(page: ShownPage, number: int, session: Session, positions: int | None, seed: int) -> PageRows | None:
    """Return the rows of a page, None where nothing was shown; its number says which draws of the ranker it takes."""
    stood = np.arange(len(page.clicked)) if page.positions is None else page.positions
    if positions is not None:
        stood = stood[stood < positions]  # the positions that count, from the top
    n_shown = len(stood)
    if not n_shown:
        return None
    learner, state = session.learner, session.state
    orders = [learner.predict(state, page.query)]  # without chance, then as many with it as are needed
    if not abs(learner.log_prob(state, page.query, orders[0])) <= MAX_LOG_DOUBT:  # nan: there is chance
        rng = np.random.default_rng([seed, number])
        orders += [learner.rank(state, page.query, rng).ranking for _ in range(N_DRAWS)]
    drawn = [order[:n_shown] for order in orders]
    items = np.array(list(dict.fromkeys([*page.ranking[:n_shown].tolist(), *np.concatenate(drawn).tolist()])))
    n, row_of = len(items), {item: row for row, item in enumerate(items.tolist())}
    slots = np.full((len(orders), int(stood[-1]) + 1), NOT_SHOWN, dtype=np.int64)
    for draw, order in enumerate(drawn):
        slots[draw, stood] = [row_of[item] for item in order.tolist()]
    features = page.query.features
    dense, columns = _dense_rows(features.take(items) if isinstance(features, SparseRows) else features[items])
    rank = np.empty(page.query.n_items)
    rank[orders[0]] = np.arange(len(orders[0]))
    worth = {name: page.worth.get(name) for name in page.outcomes}
    base_position = np.full(n, NOT_SHOWN)
    propensity = np.full(n_shown, np.nan) if page.propensity is None else page.propensity[:n_shown]
    if page.drawn_by is not None:
        policy, query = page.drawn_by, page.drawn_for or page.query
        best = policy.learner.predict(policy.state, query)[: n_shown + 1]
        position_of = np.full(page.query.n_items, NOT_SHOWN)
        position_of[best] = np.arange(len(best))
        base_position = position_of[items]
        if page.propensity is None:
            propensity[:] = np.exp(policy.learner.log_prob(policy.state, query, page.ranking))
    return PageRows(
        session=f"page {number}" if page.session is None else page.session,
        query=page.query.id,
        n_shown=n_shown,
        position=_padded(stood, n, NOT_SHOWN),
        base_position=base_position,
        clicked=_padded((page.clicked[:n_shown] > 0).astype(np.float64), n, 0.0),
        features=np.column_stack([dense, np.log1p(rank[items])]),
        columns=columns,
        pairs=[(number, (number, item)) if page.pairs is None else page.pairs[item] for item in items.tolist()],
        slots=slots[1:] if len(slots) > 1 else slots,
        outcomes={name: _padded(values[:n_shown], n, 0.0) for name, values in page.outcomes.items()},
        worth={name: np.ones(n) if values is None else values[items] for name, values in worth.items()},
        propensity=_padded(propensity, n, np.nan),
    )


def _padded(values: Any, n: int, fill: float) -> Any:
    """Return the values of the shown rows, then `fill` for those that were not."""
    return np.concatenate([values, np.full(n - len(values), fill, dtype=values.dtype)])


def _dense_rows(features: Features) -> tuple[Floats, list[Ints]]:
    """Return the numbers of items, and the hashed columns of each, which are added up with signs into a few numbers."""
    if not isinstance(features, SparseRows):
        return features, [np.empty(0, np.int64)] * len(features)
    columns = features.columns[features.positions]
    item = np.repeat(np.arange(features.n_items), np.diff(features.starts))
    dense = np.zeros((features.n_items, N_PROJECTED))
    sign = 1.0 - 2.0 * ((columns // N_PROJECTED) % 2)
    np.add.at(dense, (item, columns % N_PROJECTED), sign * features.values)
    return np.hstack([dense, features.dense]), np.split(columns, features.starts[1:-1])
