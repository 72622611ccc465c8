"""`Ranker`: learning to rank with item ids, feature names and clicks; the main entry point of rankloop."""

import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np

from rankloop import adapter
from rankloop.adapter import Id, QueryRequest, RawValues, plain_ids
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.kernels import is_permutation
from rankloop.core.learner import Robust, from_layers
from rankloop.core.plain_values import check_finite_receipt, check_learns_from_other_pages, receipt_type, with_receipt
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build, entry_of
from rankloop.core.saved_session import READ_ERRORS, load_with_notes, save
from rankloop.core.session import Session, check_uses_context, with_robust
from rankloop.core.types import Decision, Problem, Query
from rankloop.core.weight_table import with_columns
from rankloop.features.click_counters import ClickCounters
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import Explanation, LearnedWeights
from rankloop.features.schema import Schema, schema_of
from rankloop.impression import Impression
from rankloop.learners.wrappers.hashed_weights import BaseScore, with_hashed
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.logs.context import Encoding
from rankloop.logs.reader import lists_in
from rankloop.outcomes import declared_outcomes

MAX_RECENT_RANKINGS = 20  # `weights` of a ranker with a schema lists the values of these


class ProblemOptions(TypedDict, total=False):
    """Options of the problem that a ranker takes."""

    shown: int | None
    depth: int | None
    max_grade: int


class Ranker:
    """Orders items and learns from feedback, by item ids and feature names.

    Call `rank` to get an order to show, and `learn` when feedback comes, at any later time.

    Args:
      learner: A kind (`"3pr"`), a spec (`"3pr(swap=0.3)"`, `{"kind": "3pr", "swap": 0.3}`) or a learner object.
      features: The names of numeric features; or kinds by name, as in `{"price": "number", "brand": "category"}`; or a
        `Schema`. Kinds are number, category, words, id, flag, date, vector and counter.
      items: The ids of a fixed set of items, for learners that need no features.
      context: The names of numbers about the user or the request; or kinds by name where `features` has kinds.
      crosses: Combinations of context and item fields, as in `["segment*brand"]`; needs kinds.
      base: The feature that holds today's score: the ranker begins with that order and learns a correction.
      seed: Of the exploration.
      outcomes: Outcomes beside clicks, such as `{"purchase": {"weight": 20, "window": "7d"}}`: how many clicks one of
        it counts as, and until when a service accepts it.
      **sizes: `shown`, the number of positions that users see (None: all); `depth`, the number of positions whose
        grades come back (None: all); `max_grade`, the highest grade (1), for learners from grades.

    Raises:
      InvalidInput: If a name, kind or parameter is not possible.

    Examples:
      Numeric features and grades:

      >>> ranker = Ranker("online_gradient", features=["title_match", "age_days"], seed=0)
      >>> documents = {"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.1}}
      >>> shown = ranker.rank(documents)
      >>> ranker.learn(shown, relevances={"a": 0, "b": 1})
      >>> ranker.predict(documents)
      ['b', 'a']

      Values of several kinds, a context, and clicks:

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
        seed: int = 0,
        outcomes: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        **sizes: Unpack[ProblemOptions],
    ) -> None:
        for name in sizes.keys() - ProblemOptions.__annotations__.keys():
            raise TypeError(f"Ranker has no argument {name!r}")
        declared, item_ids = declared_outcomes(outcomes), _distinct(items, "items")
        notes = {"items": item_ids, "outcomes": declared.to_plain()}
        schema, n_items = schema_of(features, context, crosses), len(item_ids) or None
        built_learner = build(learner, "learner")
        declared.check_learned_by(built_learner)
        if schema is not None:
            built_learner = with_hashed(
                built_learner if base is None else BaseScore(inner=built_learner, feature=schema.slot(base))
            )
            self._set_session(Session(built_learner, schema.problem(n_items=n_items, **sizes), seed), notes, [schema])
            return
        names, columns = _distinct(features, "features"), _distinct(context, "context")
        problem = Problem(len(names), n_items, len(columns), feature_names=tuple(names), **sizes)
        check_uses_context(built_learner, len(columns))
        if base is not None:
            if base not in names:
                raise InvalidInput(f"base = {base!r:.60} must be one of the features")
            built_learner = BaseScore(inner=built_learner, feature=names.index(base))
        built_learner = with_robust(built_learner, problem, max_weight=declared.max_weight())
        self._set_session(Session(built_learner, problem, seed), notes | {"context": columns})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ranker":
        """Load a saved ranker, which continues exactly where it stopped, exploration included.

        Raises:
          NotFound: If there is no such file.
          InvalidInput: If the file is damaged or not one of rankloop's.
        """
        session, notes = load_with_notes(path)
        ranker = cls.__new__(cls)
        try:
            ranker._set_session(session, notes, [Schema.from_plain(plain) for plain in notes.get("schemas", ())])
            if type(ranker.missing) is not int or len(set(ranker.items)) != (session.problem.n_items or 0):
                raise ValueError("its notes are not those of a ranker")
        except InvalidInput:
            raise
        except READ_ERRORS as error:
            raise InvalidInput(f"{os.fspath(path)} is damaged: {error}") from None
        return ranker

    def _set_session(self, session: Session, notes: Mapping[str, Any], schemas: Sequence[Schema] = ()) -> None:
        """Begin with a session, and with the notes that the file of a ranker keeps beside it."""
        receipt_type(session.learner)  # raises if the learner's receipts could not be written to JSON
        problem, self.session = session.problem, session
        self.outcomes = declared_outcomes(notes.get("outcomes", {}))
        self.items = list(notes.get("items") or range(problem.n_items or 0))  # a plain session has numbers only
        self.context = list(notes.get("context", ()))
        self.missing = notes.get("missing", 0)  # the number of feature values that were missing, over all rankings
        # Late feedback is encoded by the schema of its ranking, so that all versions are kept.
        self.encoders = {schema.version: Encoder(schema) for schema in schemas}
        encoder = self.encoders[max(self.encoders)] if self.encoders else None
        self._recent: deque[tuple[list[Id], RawValues]] = deque(maxlen=MAX_RECENT_RANKINGS)
        self.counters = ClickCounters(encoder.schema if encoder else None, notes.get("counters"))
        if problem.n_hashed and (encoder is None or problem.n_features != problem.n_hashed + encoder.schema.n_dense):
            raise InvalidInput("this file has hashed columns but not the schema that they belong to")
        names = encoder.schema.features if encoder else problem.feature_names
        self.features = list(names) or [f"feature_{i}" for i in range(problem.n_features)]
        self.adapter = adapter.Adapter(
            feature_names=tuple(self.features),
            n_features=len(self.features),
            items=tuple(self.items),
            n_context=problem.n_context,
            context_names=tuple(self.context),
            encoding=Encoding.from_plain(notes["encoding"]) if "encoding" in notes else None,
            key=lambda id: id,
            encoder=encoder,
            fills=from_layers(session.learner, "fills_gaps", False),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker to one file, atomically; an existing one is replaced."""
        save(self.session, path, self._notes())

    def _notes(self) -> dict[str, Any]:
        encoding = self.adapter.encoding  # of a policy that was trained on a log
        notes: dict[str, Any] = {"items": self.items, "context": self.context, "missing": self.missing}
        optional = {
            "schemas": [encoder.schema.to_plain() for encoder in self.encoders.values()],
            "counters": self.counters.to_plain() if self.counters.fields else None,
            "outcomes": self.outcomes.to_plain(),
            "encoding": encoding.to_plain() if encoding is not None else None,
        }
        return notes | {name: value for name, value in optional.items() if value}

    def rank(
        self,
        candidates: Any = None,
        *,
        ids: Sequence[Id] = (),
        context: Mapping[str, Any] | None = None,
        query: str = "",
        at: float | None = None,
    ) -> Impression:
        """Return the order to show, exploration included: show its `ids`, and keep it (also as JSON) for `learn`.

        Args:
          candidates: The items: `{id: {feature: value}}`, a list of dicts with an `id` each, an array with one row per
            item, or a DataFrame with an `id` column or the ids as index; None for a fixed set. A missing feature counts
            as 0, with a `standardised` learner as the mean of the other candidates, with a schema as missing.
          ids: The item ids of an array; or, with a schema, those of items without values.
          context: Values about the user or the request by name.
          query: An id of the query, for learners and logs that tell queries apart.
          at: The time of the ranking in seconds since 1970, for fields of kind date; None: now.

        Raises:
          InvalidInput: If an item has an unknown feature or a value of the wrong kind; the message names the item.

        Examples:
          >>> ranker = Ranker("online_gradient", features=["title_match"])
          >>> ranker.rank([{"id": 7, "title_match": 0.2}, {"id": 9, "title_match": 0.8}]).ids
          [7, 9]
        """
        request = self._request(candidates, context, ids, query, at)
        decision = self.session.rank(request.query)
        check_finite_receipt(decision.receipt)
        return self._impression(request, decision)

    def _impression(self, request: QueryRequest, decision: Decision[Any]) -> Impression:
        self.missing += request.missing
        if request.values is not None:
            self._recent.append((request.ids, request.values))
        return Impression(
            items=request.ids,
            decision=decision,
            features=request.features,
            context=request.query.context,
            query_id=request.query.id,
            missing=request.missing,
            values=request.values,
            encoded=None if request.values is None else request.query,
        )

    def predict(
        self,
        candidates: Any = None,
        context: Mapping[str, Any] | None = None,
        *,
        ids: Sequence[Id] = (),
        query: str = "",
        at: float | None = None,
    ) -> list[Id]:
        """Return the ids in the best order, without exploration; nothing can be learned from it.

        All arguments are those of `rank`.
        """
        request = self._request(candidates, context, ids, query, at)
        return [request.ids[item] for item in self.session.predict(request.query).tolist()]

    def scores(
        self, candidates: Any = None, context: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[Id, float]:
        """Return the scores by which `predict` orders items, the best first; nothing is decided or learned.

        For `click_regression` a score is the log odds of a click at the first position, up to a constant. All arguments
        are those of `predict`.

        Raises:
          InvalidInput: If the learner does not order items by a weighted sum of their features.
        """
        request = self._request(candidates, context, **options)
        order, scores = self.session.predict(request.query), self._learned_weights().scores(request.query.features)
        # `predict` may add something that the weighted sum does not have.
        tolerance = 0.0 if scores is None else 1e-9 * max(1.0, float(np.abs(scores).max(initial=0)))
        if scores is None or np.any(np.diff(scores[order]) > tolerance):
            kind = entry_of(self.session.learner).kind
            raise InvalidInput(f"{kind} does not order items by a weighted sum of their features: use predict")
        return {request.ids[item]: float(scores[item]) for item in order.tolist()}

    def _request(
        self, candidates: Any, context: Any, ids: Sequence[Id] = (), query: str = "", at: float | None = None
    ) -> QueryRequest:
        context, at = {} if context is None else context, time.time() if at is None else at
        if self.schema is None:
            item_ids, rows = self.adapter.numeric_candidates(candidates, ids)
            return self.adapter.query(item_ids, rows, context, query)
        item_ids, rows = self.adapter.raw_candidates(candidates)
        item_ids = item_ids or plain_ids(ids) or list(self.items)
        rows = self.counters.filled(item_ids, rows or [{} for _ in item_ids], context, at)
        return self.adapter.query(item_ids, rows, context, query, at=at)

    def learn(
        self,
        shown: Any = None,
        *,
        order: Sequence[Id] | None = None,
        context: Mapping[str, Any] | None = None,
        query: str = "",
        at: float | None = None,
        clicks: Iterable[Id] | Mapping[Id, float] | None = None,
        relevances: Mapping[Id, float] | None = None,
        preferred: Sequence[Id] | None = None,
        reward: float | None = None,
        outcomes: Mapping[str, Mapping[Id, float]] | None = None,
    ) -> None:
        """Learn from the feedback to a shown ranking. Give one kind of feedback, or outcomes, or clicks and outcomes.

        Args:
          shown: What `rank` returned, perhaps long ago or in another process. With `order`, the candidates of a page
            that another system has ordered, as in `rank`; None for a fixed set, or where items have nothing but ids.
          order: The ids of that page as they were shown, best first; the rows of an array are in this order.
          context: The context of that page.
          query: The id of its query.
          at: The time of that page in seconds since 1970; None: now.
          clicks: The clicked ids, or weights by id, where a purchase may count more than 1. An empty list is feedback.
          relevances: The grades of the first `depth` items by id.
          preferred: A better order. Ids that are left out follow in the shown order.
          reward: What the first item earned.
          outcomes: What came of items, by declared outcome and id, as in `{"purchase": {"b": 1}}`: with the clicks, or
            alone if they come later. Every call is one more update.

        Raises:
          IncompatibleFeedback: If the learner does not accept this kind, or an id was not shown.
          UnstableUpdate: If the update would make a weight infinite; the ranker stays as it was.
          InvalidInput: If there is no feedback, or more than one kind; or if the learner cannot learn from a page that
            another system has ordered.

        Examples:
          A page that another system has ordered:

          >>> ranker = Ranker("click_regression", features=["title_match"])
          >>> page = {"a": {"title_match": 0.2}, "b": {"title_match": 0.8}}
          >>> ranker.learn(page, order=["a", "b"], clicks=["b"])
          >>> ranker.predict(page), ranker
          (['b', 'a'], <Ranker click_regression: 1 features, learned 1 times>)
        """
        if order is not None:
            shown = self._shown_elsewhere(shown, order, context, query, at)
        elif not isinstance(shown, Impression):
            raise InvalidInput("shown must be what rank returned; for a page of another system give order=[...], too")
        elif context is not None or query or at is not None:
            raise InvalidInput("context, query and at are for a page of another system: give its order=[...], too")
        has_only_outcomes = outcomes is not None and clicks is None  # the clicks were learned before
        kinds = {"clicks": [] if has_only_outcomes else clicks, "relevances": relevances}
        kind, value = adapter.one_kind(kinds | {"preferred": preferred, "reward": reward})
        if plain_ids(shown.items) != (self.items or shown.items):
            raise InvalidInput(f"the shown items are not those of the fixed set, {self.items!r:.80}")
        impression_query, decision = self._query(shown), with_receipt(shown.decision, self.session.learner)
        if not is_permutation(decision.ranking, len(shown.items)):
            raise InvalidInput("the shown ranking does not name each of its items once")
        number = {id: item for item, id in enumerate(shown.items)}
        items, values = adapter.named_values(kind, value, number)
        feedback = adapter.feedback_of(kind, items, values, decision.ranking)
        if outcomes is not None:
            feedback = self.outcomes.add_to(feedback, outcomes, number)
        self.session.learn(impression_query, decision, feedback)
        if self.counters.fields and shown.values is not None and not has_only_outcomes:
            shown_items = decision.ranking[: self.session.problem.shown].tolist()
            clicked = {shown.items[item]: weight for item, weight in zip(items, values)} if kind == "clicks" else {}
            rows = [(shown.items[item], shown.values.rows[item]) for item in shown_items]
            self.counters.add(rows, shown.values.context, clicked, shown.values.at)

    def _shown_elsewhere(
        self, candidates: Any, order: Sequence[Id], context: Mapping[str, Any] | None, query: str, at: float | None
    ) -> Impression:
        """Return the impression of a page that another system has ordered; no random number is drawn."""
        if isinstance(candidates, Impression):
            raise InvalidInput("an impression has its own order: leave order out, or give the candidates of the page")
        check_learns_from_other_pages(self.session.learner)
        request = self._request(candidates, context, order, query, at)
        items = {id: item for item, id in enumerate(request.ids)}
        ranking = [items.get(id, -1) for id in plain_ids(order)]
        if len(ranking) != len(items) or -1 in ranking:
            raise InvalidInput(
                "order must name each item of the page once, best first; leave out candidates that were not shown"
            )
        return self._impression(request, Decision(np.array(ranking, np.int64), float("nan"), ()))

    def ingest(self, log: Any, *, columns: Mapping[str, str] | None = None) -> int:
        """Learn from every page of a log that another system has shown, in its order, and return the number of pages.

        `click_regression` without an `examination` and without a base estimates it from items that stood at several
        positions, and keeps it. The same log always leads to the same weights. Updates that would be unstable are left
        out; `session.refused` counts them.

        Args:
          log: A `ListLog`, or anything that `read_log` reads as lists: a file, a frame, rows, the export of a service.
          columns: The column of each role, if the names of the columns do not tell.

        Raises:
          InvalidInput: If the log lacks a field of this ranker, or the learner cannot learn from pages that another
            system has ordered.

        Examples:
          >>> import pyarrow
          >>> rows = {"list": [1, 1, 2, 2], "item": ["a", "b", "b", "a"], "position": [1, 2, 1, 2]}
          >>> log = pyarrow.table(rows | {"price": [9, 5, 5, 9], "click": [0, 1, 1, 0]})
          >>> ranker = Ranker("click_regression", features={"price": "number"})
          >>> ranker.ingest(log)
          2
          >>> ranker.predict({"a": {"price": 9}, "b": {"price": 5}})
          ['b', 'a']
        """
        from rankloop.training.clicks import weights

        if self.items or self.context or self.adapter.encoding is not None or not self.features:
            raise InvalidInput("a log is learned from by the names of features: create the ranker with features")
        schema = self.schema or Schema(dict.fromkeys(self.features, "number"))
        lists = lists_in(log, schema=schema, columns=columns)
        pages = lists.lists(schema)
        examined = None if lists.item is None else weights.estimate_examined(lists.clicks())
        if examined is not None:
            examined = weights.not_below_click_rates(examined, lists.clicks())
            self.session = weights.with_learner(self.session, weights.with_examination(self.session.learner, examined))
        for page, outcomes in zip(pages, lists.outcomes_by_page(self.outcomes)):
            # An item that stands on a page twice counts at its first position.
            row_of = dict(reversed(list(zip(page.ids, page.rows))))
            feedback = dict.fromkeys(page.ids, 0.0)
            for id, weight in zip(page.ids, page.clicked.tolist()):
                feedback[id] = max(feedback[id], weight)
            context = page.context if self.schema is not None else None
            values: dict[str, Any]
            if page.feedback == "clicks":
                clicks = {id: weight for id, weight in feedback.items() if weight}
                values = {"clicks": clicks, "outcomes": outcomes or None}
            elif page.feedback == "reward":
                values = {"reward": float(page.clicked.sum())}
            else:
                values = {"relevances": feedback}
            with suppress(UnstableUpdate):
                self.learn(row_of, order=list(feedback), context=context, query=page.query_id, at=page.at, **values)
        self.session = weights.ready_for_use(self.session)
        return len(pages)

    @property
    def schema(self) -> Schema | None:
        """The newest version of the schema; None where features are plain numbers."""
        return self.adapter.encoder.schema if self.encoders else None

    def evolve(
        self,
        *,
        features: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        crosses: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> Schema:
        """Add fields and crosses to the schema, or remove some, without losing what was learned; return the new schema.

        The weights of new fields begin at 0. Feedback to earlier rankings is still learned, with their schema.

        Args:
          features: New item fields, kinds by name.
          context: New context fields, kinds by name.
          crosses: New crosses.
          remove: The names of fields, or crosses, to remove.

        Raises:
          InvalidInput: If the ranker has no schema, or a name is taken or unknown.

        Examples:
          >>> ranker = Ranker("click_regression", features={"price": "number"})
          >>> list(ranker.evolve(features={"brand": "category"}).features)
          ['price', 'brand']
        """
        if self.schema is None:
            raise InvalidInput("this ranker has no schema; create it with features by kind to evolve it later")
        schema = self.schema.evolved(features=features, context=context, crosses=crosses, remove=remove)
        problem = self.session.problem._replace(n_features=schema.n_hashed + schema.n_dense)
        state = with_columns(self.session.state, problem.n_features)
        session = self.session.continued(self.session.learner, problem, state)
        self._set_session(session, self._notes(), [*(encoder.schema for encoder in self.encoders.values()), schema])
        return schema

    def explain(self, shown: Impression, id: Id) -> Explanation:
        """Return the score of a shown item now, and the contribution of each value, the largest first.

        Args:
          shown: What `rank` returned.
          id: One of its items.

        Raises:
          InvalidInput: If the item was not shown, or the learner has no weight per feature.
        """
        if id not in shown.items:
            raise InvalidInput(f"{id!r:.80} is not among the shown items")
        item, weights, values = shown.items.index(id), self._learned_weights(), shown.values
        if values is None:
            return weights.explanation(id, shown.query().features[item])
        return weights.explanation_of_values(self._encoder(values), id, values.rows[item], values)

    def _query(self, shown: Impression) -> Query:
        """Return the query of an impression, encoded by the schema of its ranking."""
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

    def __repr__(self) -> str:
        session = self.session
        kind = entry_of(session.learner.inner if isinstance(session.learner, Robust) else session.learner).kind
        return f"<Ranker {kind}: {len(self.features)} features, learned {session.learned} times>"

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each feature by name, where the learner is linear in the features.

        With a schema these are the values of the last 20 rankings, the largest weight first; values that are hashed to
        one column share its weight.

        Raises:
          InvalidInput: If the learner has no weight per feature.
        """
        if self.schema is None:
            return self._learned_weights().by_feature()
        requests = [(ids, values) for ids, values in self._recent if values.schema == self.schema.version]
        named = self._learned_weights().by_value(self.adapter.encoder, requests)
        return {name: weight for name, (weight, _) in named.items()}

    def _learned_weights(self) -> LearnedWeights:
        learner, state = self.session.learner, self.session.state
        return LearnedWeights(state, self.session.problem, memory_trust(learner, state))


def _distinct(names: Any, argument: str) -> list[Any]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"{argument} must be a list of different names, got {names!r}")
    try:
        return plain_ids(names)
    except InvalidInput as error:
        raise InvalidInput(f"{argument} must be a list of different names: {error}") from None
