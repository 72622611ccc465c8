"""Shown pages as one table: what was shown, what came of it, and where the ranker in question would put the items."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Features, Floats, Ints, Query
from rankloop.core.types import Rows as SparseRows
from rankloop.evaluation.off_policy.propensities import RankingPolicy, shown_parts

DRAWS = 8  # of a ranker that explores
PROJECTED = 64  # numbers that stand for hashed columns
NOWHERE = -1
CERTAIN = 1e-9


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
    pages: Iterable[ShownPage], session: Session, *, positions: int, with_swaps: bool = False, seed: int = 0
) -> PageTable:
    """What `positions` first positions brought, beside where the session's ranker would put the items now.

    A ranker that explores is asked `DRAWS` times. With `with_swaps` the policies that drew say with which probability
    each item stood at each position; refused where they cannot.
    """
    building = _Building(session, positions, with_swaps, seed)
    for page in pages:
        building.add(page)
    return building.table()


class _Building:
    def __init__(self, session: Session, positions: int, with_swaps: bool, seed: int) -> None:
        self.target, self.rng = session, np.random.default_rng(seed)
        self.width, self.with_swaps = positions, with_swaps
        self.rows: dict[str, list[Any]] = {name: [] for name in ("page", "position", "before", "clicked")}
        self.features: list[Floats] = []
        self.logged: list[Floats] = []
        self.slots: list[Ints] = []
        self.best: list[Ints] = []
        self.pairs: list[Any] = []
        self.sessions: list[Hashable] = []
        self.outcomes: dict[str, list[Floats]] = {}
        self.worth: dict[str, list[Floats]] = {}
        self.columns: list[list[Ints]] = []  # by row, where features are hashed
        self.known_columns: set[int] = set()
        self.seen = 0
        self.n_rows = 0

    def add(self, page: ShownPage) -> None:
        number, stood = len(self.sessions), self._stood(page)
        seen = len(stood)
        if not seen:
            return
        self.seen = max(self.seen, int(stood[-1]) + 1)
        orders = self._orders(page.query)
        drawn = [order[:seen] for order in orders]
        items = np.array(list(dict.fromkeys([*page.ranking[:seen].tolist(), *np.concatenate(drawn).tolist()])))
        row_of = {item: self.n_rows + row for row, item in enumerate(items.tolist())}
        own = np.full((len(orders), self.width), NOWHERE, dtype=np.int64)
        for draw, order in enumerate(drawn):
            own[draw, stood] = [row_of[item] for item in order.tolist()]
        self.best.append(own[0])
        self.slots.append(own[1:] if len(own) > 1 else own)
        self._add_rows(page, items, stood, number, orders[0])
        self.sessions.append(f"page {number}" if page.session is None else page.session)
        self.n_rows += len(items)

    def _stood(self, page: ShownPage) -> Ints:
        """The positions that count, from the top."""
        if page.positions is None:
            return np.arange(min(len(page.clicked), self.width))
        return page.positions[page.positions < self.width]

    def _orders(self, query: Query) -> list[Ints]:
        """The order without chance, and as many with it as are needed; none where there is no chance."""
        learner, state = self.target.learner, self.target.state
        best = learner.predict(state, query)
        if abs(learner.log_prob(state, query, best)) <= CERTAIN:  # not where it is nan
            return [best]
        return [best, *(learner.rank(state, query, self.rng).ranking for _ in range(DRAWS))]

    def _add_rows(self, page: ShownPage, items: Ints, stood: Ints, number: int, best: Ints) -> None:
        n, seen = len(items), len(stood)
        clicked, position = np.zeros(n), np.full(n, NOWHERE)
        position[:seen] = stood
        clicked[:seen] = page.clicked[:seen] > 0
        self.rows["page"].append(np.full(n, number))
        self.rows["position"].append(position)
        self.rows["before"].append(self._before(page, items, seen))
        self.rows["clicked"].append(clicked)
        rank = np.empty(page.query.n_items)
        rank[best] = np.arange(len(best))
        self.features.append(np.column_stack([dense_rows(page.query.features, items), np.log1p(rank[items])]))
        self._add_columns(page.query.features, items, seen)
        names = page.pairs
        self.pairs += [(number, item) if names is None else names[item] for item in items.tolist()]
        for name, values in page.outcomes.items():
            own = np.zeros(n)
            own[:seen] = values[:seen]
            self.outcomes.setdefault(name, []).append(own)
            worth = page.worth.get(name)
            self.worth.setdefault(name, []).append(np.ones(n) if worth is None else worth[items])
        if self.with_swaps:
            self.logged.append(self._probabilities(page, items, seen))

    def _add_columns(self, features: Features, items: Ints, seen: int) -> None:
        if not isinstance(features, SparseRows):
            self.columns.append([np.empty(0, np.int64)] * len(items))
            return
        starts = features.starts
        own = [features.columns[features.positions[starts[item] : starts[item + 1]]] for item in items.tolist()]
        self.columns.append(own)
        for columns in own[:seen]:
            self.known_columns.update(columns.tolist())

    def _unknown(self) -> Floats:
        known = np.array(sorted(self.known_columns), dtype=np.int64)
        rows = [columns for page in self.columns for columns in page]
        return np.array([1.0 - float(np.isin(columns, known).mean()) if len(columns) else 0.0 for columns in rows])

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

    def table(self) -> PageTable:
        if not self.sessions:
            raise InvalidInput("the log has no pages; an estimate needs at least one")
        width = self.seen
        numbers = {name: number for number, name in enumerate(dict.fromkeys(self.sessions))}
        known = {name: number for number, name in enumerate(dict.fromkeys(self.pairs))}
        draws = max(len(own) for own in self.slots)
        slots = np.array([own if len(own) == draws else np.repeat(own[:1], draws, axis=0) for own in self.slots])
        columns = {name: np.concatenate(parts) for name, parts in self.rows.items()}
        return PageTable(
            n_pages=len(self.sessions),
            n_positions=width,
            n_sessions=len(numbers),
            session=np.array([numbers[name] for name in self.sessions], dtype=np.int64),
            **columns,
            features=np.concatenate(self.features),
            pair=np.array([known[name] for name in self.pairs], dtype=np.int64),
            unknown=self._unknown(),
            slots=np.ascontiguousarray(slots.transpose(1, 0, 2)[:, :, :width]),
            best=np.array(self.best)[:, :width],
            logged=np.concatenate(self.logged)[:, :width] if self.with_swaps else None,
            outcomes={name: np.concatenate(parts) for name, parts in self.outcomes.items()},
            worth={name: np.concatenate(parts) for name, parts in self.worth.items()},
        )


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
