"""The front door: items, features and clicks with names, over a `Session`."""

import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankloop.adapter import (
    Adapter,
    Candidates,
    Id,
    QueryRequest,
    RawValues,
    candidates_of,
    feedback_of,
    named_values,
    one_kind,
    plain_ids,
    raw_candidates,
)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import is_permutation
from rankloop.core.learner import check_uses_context, from_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build, entry_of
from rankloop.core.saved_session import load_with_notes, save
from rankloop.core.serialisation import check_finite_receipt, receipt_type, with_receipt
from rankloop.core.session import Session
from rankloop.core.types import Problem, Query
from rankloop.core.weight_table import WeightTable, with_columns
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import Contribution, Explanation, explained, named_weights
from rankloop.features.schema import Schema
from rankloop.impression import Impression
from rankloop.learners.wrappers.base_score import BaseScore
from rankloop.learners.wrappers.hashed_columns import with_hashed
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.logs.context import Encoding

RECENT = 20  # rankings whose names `weights` tells


class Ranker:
    """A ranking that learns, for people who have items and clicks and no wish to meet arrays.

    >>> ranker = Ranker("online_gradient", features=["title_match", "age_days"], seed=0)
    >>> shown = ranker.rank({"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.1}})
    >>> ranker.learn(shown, relevances={"a": 0, "b": 1})
    >>> ranker.rank({"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.1}}).ids
    ['b', 'a']

    `learner` is a kind (`"3pr"`), a whole spec (`{"kind": "3pr", "swap": 0.3}`) or a learner. Items with features are
    given to `rank` each time; a fixed set without features is named once, as `items`. `shown` is how many positions
    people see and `depth` how many grades come back; None means all. `base` names the feature that is today's score: it
    begins with today's order.

    Features by kind make a schema: prices, brands, titles and ids go in as they are, also those of whoever asks.

    >>> ranker = Ranker(
    ...     "click_regression",
    ...     features={"price": "number", "brand": "category", "title": "words"},
    ...     context={"segment": "category"},
    ...     crosses=["segment*brand"],
    ... )
    >>> shoes = {"a": {"price": 1999, "brand": "Acme", "title": "Red shoes"}, "b": {"price": 500, "title": "Socks"}}
    >>> shown = ranker.rank(shoes, context={"segment": "sport"})
    >>> ranker.learn(shown, clicks=["a"])
    >>> ranker.explain(shown, "a").contributions[0].contribution > 0
    True
    """

    def __init__(
        self,
        learner: str | Spec | AnyLearner,
        *,
        features: Sequence[str] | Mapping[str, Any] | Schema = (),
        items: Sequence[Id] = (),
        context: Sequence[str] | Mapping[str, Any] = (),
        crosses: Sequence[str] = (),
        base: str | None = None,
        shown: int | None = None,
        depth: int | None = None,
        max_grade: int = 1,
        seed: int = 0,
    ) -> None:
        items = _distinct(items, "items")
        known: dict[str, Any] = {"n_items": len(items) or None, "shown": shown, "depth": depth, "max_grade": max_grade}
        schema, recipe = _schema(features, context, crosses), build(learner, "learner")
        if schema is not None:
            recipe = with_hashed(recipe if base is None else BaseScore(inner=recipe, feature=schema.slot(base)))
            self._open(Session(recipe, schema.problem(**known), seed), items, (), schemas=[schema])
            return
        names, columns = _distinct(features, "features"), _distinct(context, "context")
        problem = Problem(len(names), n_context=len(columns), feature_names=tuple(names), **known)
        check_uses_context(recipe, len(columns))
        if base is not None:
            if base not in names:
                raise InvalidInput(f"base = {base!r:.60} must be one of the features")
            recipe = BaseScore(inner=recipe, feature=names.index(base))
        self._open(Session(recipe, problem, seed), items, columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ranker":
        """The ranker that was saved; it goes on exactly as if it had not stopped."""
        session, notes = load_with_notes(path)
        ranker = cls.__new__(cls)
        items = notes.get("items") or range(session.problem.n_items or 0)  # a plain session knows them by number
        encoding = Encoding.from_plain(notes["encoding"]) if "encoding" in notes else None
        schemas = [Schema.from_plain(plain) for plain in notes.get("schemas", ())]
        ranker._open(session, items, notes.get("context", ()), notes.get("missing", 0), encoding, schemas)
        return ranker

    def _open(
        self,
        session: Session,
        items: Sequence[Id],
        context: Sequence[str],
        missing: int = 0,
        encoding: Encoding | None = None,
        schemas: Sequence[Schema] = (),
    ) -> None:
        receipt_type(session.learner)  # else nothing could be learned from what was shown
        problem = session.problem
        self.session = session
        self.items = list(items)
        self.context = list(context)
        self.encoding = encoding  # of a policy that was trained on a log
        self.missing = missing  # features that were not given, in all that was ranked
        self.encoders = {schema.version: Encoder(schema) for schema in schemas}  # what is late uses that of its ranking
        self._recent: deque[tuple[list[Id], RawValues]] = deque(maxlen=RECENT)
        encoder = self.encoders[max(self.encoders)] if self.encoders else None
        if problem.n_hashed and (encoder is None or problem.n_features != problem.n_hashed + encoder.schema.n_dense):
            raise InvalidInput("this file has hashed columns, but no schema that makes them")
        names = encoder.schema.features if encoder else problem.feature_names
        self.features = list(names) or [f"feature_{i}" for i in range(problem.n_features)]
        self.adapter = Adapter(
            feature_names=tuple(self.features),
            n_features=len(self.features),
            items=tuple(self.items),
            n_context=problem.n_context,
            context_names=tuple(self.context),
            encoding=encoding,
            key=lambda id: id,
            encoder=encoder,
            fills=from_layers(session.learner, "fills_gaps", False),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, whole or not at all."""
        notes: dict[str, Any] = {"items": self.items, "context": self.context, "missing": self.missing}
        notes |= {"schemas": [encoder.schema.to_plain() for encoder in self.encoders.values()]} if self.encoders else {}
        save(self.session, path, notes if self.encoding is None else notes | {"encoding": self.encoding.to_plain()})

    def rank(
        self,
        candidates: Any = None,
        *,
        ids: Sequence[Id] = (),
        context: Mapping[str, Any] | None = None,
        query: str = "",
        at: float | None = None,
    ) -> Impression:
        """The order to show.

        `candidates` is `{id: {feature: value}}`, a list of dicts with an `id` each, an array of one row per item (with
        `ids`), or a DataFrame whose index or `id` column names the items; nothing at all for a fixed set. A feature
        that is not given counts as 0, and for a `standardised` learner as the mean of what the other candidates have;
        one that nobody announced is refused. A policy that was trained on a log takes
        the `context` as the columns of the log have it, {"age": 41, "job": "student"}. With a schema values are of the
        kinds that it says, and what is not given is missing; `at` is when this is asked, in seconds since 1970.
        """
        context = {} if context is None else context
        if self.schema is not None:
            ids, rows = raw_candidates(candidates, self.schema.features)
            return self._shown(self.adapter.query(ids, rows, context, query, at=time.time() if at is None else at))
        empty = Candidates([], np.empty((0, len(self.features))))
        table = empty if candidates is None else candidates_of(candidates, self.features, ids)
        table = table.with_means() if self.adapter.fills else table
        return self._shown(self.adapter.query(table.ids, table.features, context, query), table.n_absent)

    def _shown(self, request: QueryRequest, missing: int = 0) -> Impression:
        query = request.query
        decision = self.session.rank(query)
        check_finite_receipt(decision.receipt)
        missing += request.missing
        self.missing += missing
        if request.values is not None:
            self._recent.append((request.ids, request.values))
        return Impression(
            items=request.ids,
            decision=decision,
            features=request.features,
            context=query.context,
            query_id=query.id,
            missing=missing,
            values=request.values,
            encoded=None if request.values is None else query,
        )

    def learn(
        self,
        shown: Impression,
        *,
        clicks: Iterable[Id] | Mapping[Id, float] | None = None,
        relevances: Mapping[Id, float] | None = None,
        preferred: Sequence[Id] | None = None,
        reward: float | None = None,
    ) -> None:
        """Take in what people revealed about a shown ranking: clicks, grades, a better order or a reward."""
        kind, value = one_kind({"clicks": clicks, "relevances": relevances, "preferred": preferred, "reward": reward})
        if plain_ids(shown.items) != (self.items or shown.items):
            raise InvalidInput(f"the shown items are not those of the fixed set, {self.items!r:.80}")
        query, decision = self._query(shown), with_receipt(shown.decision, self.session.learner)
        if not is_permutation(decision.ranking, len(shown.items)):
            raise InvalidInput("the shown ranking does not name each of its items once")
        items, values = named_values(kind, value, {id: item for item, id in enumerate(shown.items)})
        self.session.learn(query, decision, feedback_of(kind, items, values, decision.ranking))

    @property
    def schema(self) -> Schema | None:
        """Kinds and crosses of the features, in the newest version; None where features are plain numbers."""
        return self.encoders[max(self.encoders)].schema if self.encoders else None

    def evolve(
        self,
        *,
        features: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        crosses: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> Schema:
        """Add fields and crosses to the schema of this ranker, or remove some; what it has learned stays.

        New ones begin at 0, removed ones leave sight. What was shown before is learned with the schema of its time.
        """
        if self.schema is None:
            raise InvalidInput("only a ranker with a schema can evolve: give features by kind when it is made")
        schema = self.schema.evolved(features=features, context=context, crosses=crosses, remove=remove)
        problem = self.session.problem._replace(n_features=schema.n_hashed + schema.n_dense)
        session = Session(self.session.learner, problem, self.session.seed)
        state, generator, learned, refused = self.session.snapshot()
        session.restore(with_columns(state, problem.n_features), generator, learned, refused)
        schemas = [encoder.schema for encoder in self.encoders.values()]
        self._open(session, self.items, (), self.missing, schemas=[*schemas, schema])
        return schema

    def explain(self, shown: Impression, id: Id) -> Explanation:
        """What each value of a shown item adds to its score now, by name, the largest first."""
        if id not in shown.items:
            raise InvalidInput(f"{id!r:.80} is not among the shown items")
        item = shown.items.index(id)
        if shown.values is None:
            row = shown.query().features[item]
            parts = [Contribution(name, value, weight, value * weight)
                     for (name, weight), value in zip(self.weights.items(), row.tolist())]  # fmt: skip
            parts.sort(key=lambda part: (-abs(part.contribution), part.name))
            return Explanation(id, float(sum(part.contribution for part in parts)), parts)
        values = shown.values
        trust = memory_trust(self.session.learner, self.session.state)
        return explained(self._encoder(values), self._table, id, values.rows[item], values.context, values.at, trust)

    def _query(self, shown: Impression) -> Query:
        """What was asked, encoded by the schema of its time."""
        if self.schema is None or shown.values is None:
            return shown.query()
        if shown.encoded is not None:
            return shown.encoded
        rows, context, at, _ = shown.values
        if len(rows) != len(shown.items):
            raise InvalidInput(f"there are {len(rows)} rows of values for {len(shown.items)} shown items")
        return Query(shown.query_id, self._encoder(shown.values).rows(shown.items, rows, context, at), np.empty(0))

    def _encoder(self, values: RawValues) -> Encoder:
        if values.schema not in self.encoders:
            raise InvalidInput(f"this was shown by version {values.schema} of a schema, which this ranker never had")
        return self.encoders[values.schema]

    @property
    def _table(self) -> WeightTable:
        table: WeightTable = from_layers(self.session.state, "table")
        return table

    def __repr__(self) -> str:
        kind, session = entry_of(self.session.learner).kind, self.session
        return f"<Ranker {kind}: {len(self.features)} features, learned {session.learned} times>"

    @property
    def weights(self) -> dict[str, float]:
        """What each feature counts for, where the learner is linear in the features.

        With a schema: of every name in the last rankings, the largest first; names in one column share its weight.
        """
        if self.schema is not None:
            encoder = self.encoders[self.schema.version]
            known = [(ids, values) for ids, values in self._recent if values.schema == self.schema.version]
            return {name: weight for name, (weight, _) in named_weights(encoder, self._table, known).items()}
        weights = from_layers(self.session.state, "weights", ())
        if len(weights) != len(self.features) or not self.features:
            raise InvalidInput("this learner has no weight per feature")
        return dict(zip(self.features, map(float, weights)))


def _schema(features: Any, context: Any, crosses: Any) -> Schema | None:
    """The schema that features by kind make; None where they are a list of names."""
    no_context, no_crosses = _is_empty(context), _is_empty(crosses)
    if isinstance(features, Schema):
        if not no_context or not no_crosses:
            raise InvalidInput("a Schema has its context and crosses in it: give it alone")
        return features
    if isinstance(features, Mapping):
        return Schema(features, {} if no_context else context, () if no_crosses else crosses)
    if isinstance(context, Mapping) or not no_crosses:
        raise InvalidInput('crosses and kinds of a context need features by kind too, as in {"price": "number"}')
    return None


def _is_empty(given: Any) -> bool:
    return isinstance(given, Sequence | Mapping) and not isinstance(given, str) and not len(given)


def _distinct(names: Any, what: str) -> list[Any]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"{what} must be a list of different names, got {names!r}")
    try:
        return plain_ids(names)
    except InvalidInput as error:
        raise InvalidInput(f"{what} must be a list of different names: {error}") from None
