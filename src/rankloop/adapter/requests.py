"""Requests in ids and names, checked and turned into queries of arrays."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankloop.adapter.candidates import Candidates, Id, feature_rows, named_row
from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.types import Bools, Floats, Ints, Problem, Query, Rows

NO_FEATURES, NO_CONTEXT = np.empty((0, 0)), np.empty(0)


class ContextEncoding(Protocol):
    """How columns of a context, as people have them, become numbers."""

    @property
    def wanted(self) -> str: ...

    def row_of(self, columns: Mapping[str, Any]) -> list[float]: ...


class RawValues(NamedTuple):
    """What was asked in people's own values, from which the query is encoded again when it is learned from."""

    rows: list[Mapping[str, Any]]  # of all ids, values by name
    context: Mapping[str, Any]
    at: float  # when, in seconds since 1970: dates become ages
    schema: int  # the version by which it was encoded


class RowEncoder(Protocol):
    """How values by name become `Rows`."""

    @property
    def version(self) -> int: ...
    @property
    def n_fields(self) -> int: ...
    def rows(
        self, ids: Sequence[Any], rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any], at: float = ...
    ) -> Rows: ...


class QueryRequest(NamedTuple):
    """A checked request: `query` holds the `candidates` among `ids`; the pinned stand before them."""

    ids: list[Id]
    features: Floats  # of all ids, as given; empty where there are raw values
    query: Query
    candidates: list[int] | None  # None: all ids
    pinned: list[int]
    hidden: set[int]  # ranked with the others, as a fixed set demands, but not shown
    fixed: bool  # whether the items are a fixed set
    missing: int  # features and columns that were not given and counted as 0, or as missing where there is a schema
    values: RawValues | None = None  # where there is a schema
    catalogue: int = 0  # the event after which the rest of the values was read from a catalogue
    base_model: str = ""  # whose score the base score of the items is
    given: Bools | None = None  # which of the features were given; None: all

    def shown_order(self, ranking: Ints) -> list[int]:
        """What people see: the pinned, then the ranked, without the hidden."""
        order: list[int] = ranking.tolist()
        if self.candidates is not None:
            order = [self.candidates[i] for i in order]
        if self.pinned or self.hidden:
            away = self.hidden.union(self.pinned)
            order = self.pinned + [i for i in order if i not in away]
        return order

    def shows_as_ranked(self, problem: Problem) -> bool:
        """Whether what people see is the learner's ranking, position by position: propensity and lesson are right.

        Items left out beforehand change nothing. A pin in a list that is seen as a whole shifts every position alike;
        in a list that is seen in part it pushes items out of sight, of which the learner knows nothing.
        """
        if self.hidden:
            return False
        return not self.pinned or (not self.fixed and problem.shown is None and problem.depth is None)


class Adapter(NamedTuple):
    """What a ranker calls its features, its items and the columns of its context."""

    feature_names: tuple[str, ...]
    n_features: int
    items: tuple[Id, ...] = ()  # of a fixed set
    n_context: int = 0
    context_names: tuple[str, ...] = ()
    encoding: ContextEncoding | None = None  # of a context by names
    key: Callable[[Id], Any] = str  # what tells ids apart: in JSON a table names them by their text
    encoder: RowEncoder | None = None  # where there is a schema
    fills: bool = False  # whether a feature that is not given counts as the mean of the others, not as 0

    def query(
        self,
        ids: list[Id],
        rows: Sequence[Any] | Floats,
        context: Any = (),
        query_id: str = "",
        pinned: Sequence[Id] = (),
        excluded: Sequence[Id] = (),
        at: float = 0.0,
    ) -> QueryRequest:
        """The query of a request whose numbers are numbers, or `Rejected` with the field that is wrong.

        `at` is when it is asked; where there is a schema, dates become ages by it.
        """
        if self.encoder is not None:
            ids, rows = self._distinct_items(ids, rows)
            chosen = self._chosen(ids, pinned, excluded)
            return self._encoded(self.encoder, ids, rows, context, query_id, chosen, at)
        table = self._candidates(ids, rows)
        row, missing = self._context(context)
        candidates, first, hidden = self._chosen(table.ids, pinned, excluded)
        features = table.features
        return QueryRequest(
            ids=table.ids,
            features=features,
            query=Query(query_id, features if candidates is None else np.ascontiguousarray(features[candidates]), row),
            candidates=candidates,
            pinned=first,
            hidden=hidden,
            fixed=bool(self.items),
            missing=missing + table.n_absent,
            given=table.given,
        )

    def _chosen(
        self, ids: list[Id], pinned: Sequence[Id], excluded: Sequence[Id]
    ) -> tuple[list[int] | None, list[int], set[int]]:
        """Which items the learner ranks (None: all), which are pinned, and which are ranked but not shown."""
        if not pinned and not excluded:
            return None, [], set()
        number = {self.key(id): i for i, id in enumerate(ids)}
        left_out = set(self._numbers(excluded, number, "excluded"))
        first = self._numbers(pinned, number, "pinned")
        if left_out.intersection(first):
            raise Rejected("pinned", "an item is both pinned and excluded")
        fixed, away = bool(self.items), left_out.union(first)
        candidates = None if fixed or not away else [i for i in range(len(number)) if i not in away]
        if len(away) == len(number):
            raise Rejected("items", "nothing is left to rank after pins and exclusions")
        return candidates, first, left_out if fixed else set()

    def _encoded(
        self,
        encoder: RowEncoder,
        ids: list[Id],
        rows: Any,
        context: Any,
        query_id: str,
        chosen: tuple[list[int] | None, list[int], set[int]],
        at: float,
    ) -> QueryRequest:
        context = {} if isinstance(context, Sequence) and not len(context) else context
        if not isinstance(context, Mapping):
            raise Rejected("context", f"must be values by name, as the schema has them, got {context!r:.60}")
        candidates, pinned, hidden = chosen
        try:
            if candidates is None:
                features = encoder.rows(ids, rows, context, at)
            else:
                encoder.rows(ids, rows, context, at)  # what is pinned or left out is written down too
                features = encoder.rows([ids[i] for i in candidates], [rows[i] for i in candidates], context, at)
        except Rejected:
            raise
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None
        return QueryRequest(
            ids=ids,
            features=NO_FEATURES,
            query=Query(query_id, features, NO_CONTEXT),
            candidates=candidates,
            pinned=pinned,
            hidden=hidden,
            fixed=bool(self.items),
            missing=encoder.n_fields * len(rows) - sum(map(len, rows)),
            values=RawValues(list(rows), dict(context), at, encoder.version),
        )

    def _distinct_items(self, ids: list[Id], rows: Any) -> tuple[list[Id], Any]:
        """Each item once; those of a fixed set all, and in its order."""
        if not ids:
            if not self.items:
                only = "nothing to rank is enough for a fixed set only"
                raise Rejected("items", f"there are no items to rank; give at least one ({only})")
            return list(self.items), [{}] * len(self.items)
        keys = list(map(self.key, ids))
        if len(set(keys)) != len(keys):
            raise Rejected("items", f"the item {Counter(keys).most_common(1)[0][0]!r} is given twice")
        if self.items and ids != list(self.items):
            if set(keys) != set(map(self.key, self.items)):
                raise Rejected("items", "these are not the items of the fixed set: give all of them, or none")
            row_of = dict(zip(keys, rows))
            ids, rows = list(self.items), [row_of[self.key(id)] for id in self.items]
        return ids, rows

    def _candidates(self, ids: list[Id], rows: Sequence[Any] | Floats) -> Candidates:
        if not ids and self.items:
            return Candidates(list(self.items), np.zeros((len(self.items), self.n_features)))
        ids, rows = self._distinct_items(ids, rows)
        try:
            table = feature_rows(ids, rows, self.feature_names, self.n_features)
        except InvalidInput as error:
            raise Rejected("items", str(error)) from None
        return table.with_means() if self.fills else table

    def _context(self, given: Any) -> tuple[Floats, int]:
        """The numbers of the asker, and how many columns were missing."""
        if not self.n_context and self.encoding is None and isinstance(given, list | tuple | dict) and not given:
            return NO_CONTEXT, 0
        by_name, missing = isinstance(given, Mapping), 0
        try:
            if by_name and self.encoding is not None:
                given = self.encoding.row_of(given)
            elif self.context_names or (by_name and not self.n_context):
                given, missing = named_row(given, self.context_names, "context")
            elif by_name:
                raise InvalidInput("columns by name need a context in the ranker's problem; give numbers")
            context = np.array(given, dtype=np.float64)
        except Rejected:
            raise
        except (InvalidInput, TypeError, ValueError) as error:
            raise Rejected("context", str(error)) from None
        if context.shape != (self.n_context,) or not np.isfinite(context).all():
            wanted = f"{self.n_context} finite numbers"
            raise Rejected("context", f"{self.encoding.wanted}, or {wanted}" if self.encoding else f"must be {wanted}")
        return context, missing

    def _numbers(self, ids: Sequence[Id], number: Mapping[Any, int], field: str) -> list[int]:
        unknown = [id for id in ids if self.key(id) not in number]
        if unknown:
            raise Rejected(field, f"{unknown[0]!r} is not among the items")
        found = [number[self.key(id)] for id in ids]
        if len(set(found)) != len(found):
            raise Rejected(field, "an item is named twice")
        return found
