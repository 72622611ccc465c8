"""The front door: items, features and clicks with names, over a `Session`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankloop.core.adapter import (
    Adapter,
    Candidates,
    Id,
    candidates_of,
    feedback_of,
    named_values,
    one_kind,
    plain_ids,
)
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import is_permutation
from rankloop.core.learner import from_layers
from rankloop.core.plain import check_finite_receipt, receipt_type, with_receipt
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build, entry_of
from rankloop.core.saved_session import load_with_notes, save
from rankloop.core.session import Session
from rankloop.core.types import Problem
from rankloop.impression import Impression
from rankloop.logs.context import Encoding


class Ranker:
    """A ranking that learns, for people who have items and clicks and no wish to meet arrays.

    >>> ranker = Ranker("online_gradient", features=["title_match", "age_days"], seed=0)
    >>> shown = ranker.rank({"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.1}})
    >>> ranker.learn(shown, relevances={"a": 0, "b": 1})
    >>> ranker.rank({"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.1}}).ids
    ['b', 'a']

    `learner` is a kind (`"3pr"`), a whole spec (`{"kind": "3pr", "swap": 0.3}`) or a learner. Items with features are
    given to `rank` each time; a fixed set without features is named once, as `items`. `shown` is how many positions
    people see and `depth` how many grades come back; None means all.
    """

    def __init__(
        self,
        learner: str | Spec | AnyLearner,
        *,
        features: Sequence[str] = (),
        items: Sequence[Id] = (),
        context: Sequence[str] = (),
        shown: int | None = None,
        depth: int | None = None,
        max_grade: int = 1,
        seed: int = 0,
    ) -> None:
        features, items = _distinct(features, "features"), _distinct(items, "items")
        context = _distinct(context, "context")
        problem = Problem(
            n_features=len(features),
            n_items=len(items) or None,
            n_context=len(context),
            shown=shown,
            depth=depth,
            max_grade=max_grade,
            feature_names=tuple(features),
        )
        self._open(Session(build(learner, "learner"), problem, seed), items, context)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ranker":
        """The ranker that was saved; it goes on exactly as if it had not stopped."""
        session, notes = load_with_notes(path)
        ranker = cls.__new__(cls)
        items = notes.get("items") or range(session.problem.n_items or 0)  # a plain session knows them by number
        encoding = Encoding.from_plain(notes["encoding"]) if "encoding" in notes else None
        ranker._open(session, items, notes.get("context", ()), notes.get("missing", 0), encoding)
        return ranker

    def _open(
        self,
        session: Session,
        items: Sequence[Id],
        context: Sequence[str],
        missing: int = 0,
        encoding: Encoding | None = None,
    ) -> None:
        receipt_type(session.learner)  # else nothing could be learned from what was shown
        problem = session.problem
        self.session = session
        self.features = list(problem.feature_names) or [f"feature_{i}" for i in range(problem.n_features)]
        self.items = list(items)
        self.context = list(context)
        self.encoding = encoding  # of a policy that was trained on a log
        names, columns = tuple(self.features), tuple(self.context)
        self.adapter = Adapter(
            names, len(names), tuple(self.items), problem.n_context, columns, encoding, key=lambda id: id
        )
        self.missing = missing  # features that were not given, in all that was ranked

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, whole or not at all."""
        notes: dict[str, Any] = {"items": self.items, "context": self.context, "missing": self.missing}
        save(self.session, path, notes if self.encoding is None else notes | {"encoding": self.encoding.to_plain()})

    def rank(
        self,
        candidates: Any = None,
        *,
        ids: Sequence[Id] = (),
        context: Mapping[str, Any] | None = None,
        query: str = "",
    ) -> Impression:
        """The order to show.

        `candidates` is `{id: {feature: value}}`, a list of dicts with an `id` each, an array of one row per item (with
        `ids`), or a DataFrame whose index or `id` column names the items; nothing at all for a fixed set. A feature
        that is not given counts as 0; one that nobody announced is refused. A policy that was trained on a log takes
        the `context` as the columns of the log have it, {"age": 41, "job": "student"}.
        """
        empty = Candidates([], np.empty((0, len(self.features))))
        table = empty if candidates is None else candidates_of(candidates, self.features, ids)
        request = self.adapter.query(table.ids, table.features, {} if context is None else context, query)
        decision = self.session.rank(request.query)
        check_finite_receipt(decision.receipt)
        missing = table.missing + request.missing
        self.missing += missing
        return Impression(
            items=request.ids,
            decision=decision,
            features=request.features,
            context=request.query.context,
            query_id=query,
            missing=missing,
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
        query, decision = shown.query(), with_receipt(shown.decision, self.session.learner)
        if not is_permutation(decision.ranking, len(shown.items)):
            raise InvalidInput("the shown ranking does not name each of its items once")
        items, values = named_values(kind, value, {id: item for item, id in enumerate(shown.items)})
        self.session.learn(query, decision, feedback_of(kind, items, values, decision.ranking))

    def __repr__(self) -> str:
        kind, session = entry_of(self.session.learner).kind, self.session
        return f"<Ranker {kind}: {len(self.features)} features, learned {session.learned} times>"

    @property
    def weights(self) -> dict[str, float]:
        """What each feature counts for, where the learner is linear in the features."""
        weights = from_layers(self.session.state, "weights", ())
        if len(weights) != len(self.features) or not self.features:
            raise InvalidInput("this learner has no weight per feature")
        return dict(zip(self.features, map(float, weights)))


def _distinct(names: Any, what: str) -> list[Any]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"{what} must be a list of different names, got {names!r}")
    try:
        return plain_ids(names)
    except InvalidInput as error:
        raise InvalidInput(f"{what} must be a list of different names: {error}") from None
