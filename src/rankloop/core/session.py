"""A learner in use: the one mutable object."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import kernel
from rankloop.core.protocols import AnyLearner
from rankloop.core.rankings import is_permutation
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances

FAULTS = (
    "",
    "the decision's ranking is not a permutation of the query's items",
    "an item is named that was not in the part that is seen",
    "an item is named twice",
    "a number is not finite",
    "items and numbers differ in length",
    "it must name exactly the items that were seen",
    "a weight is negative",
)


def generators(seed: int) -> tuple[Generator, Generator, Generator, Generator]:
    """Stream, people, learner and delivery, each with draws of their own."""
    stream, people, learner, delivery = (Generator(PCG64(child)) for child in SeedSequence(seed).spawn(4))
    return stream, people, learner, delivery


@kernel
def fault_in(ranking: Ints, n_items: int, seen: int, items: Ints, values: Floats, exact: bool) -> int:
    """Which of FAULTS the feedback has, 0 for none; `exact`: every seen item must be named, with any number."""
    if not is_permutation(ranking, n_items):
        return 1
    if len(items) != len(values):
        return 5
    open_items = np.zeros(n_items, np.int8)
    for position in range(seen):
        open_items[ranking[position]] = 1
    for i in range(len(items)):
        if items[i] < 0 or items[i] >= n_items or open_items[items[i]] == 0:
            return 2
        if open_items[items[i]] == 2:
            return 3
        open_items[items[i]] = 2
        if not np.isfinite(values[i]):
            return 4
        if values[i] < 0 and not exact:
            return 7
    return 6 if exact and len(items) != seen else 0


class Session:
    """Ranks and learns, from many threads at once: many readers, one writer, no update lost.

    `learn` is a border: feedback that the learner does not accept or that does not fit the decision raises
    `IncompatibleFeedback`, a step that would leave a non-finite state raises `UnstableUpdate` and is counted in
    `refused`. Either way the state stays as it was.
    """

    def __init__(self, learner: AnyLearner, problem: Problem, seed: int = 0) -> None:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput(f"a seed is a whole number from 0, got {seed!r}")
        _check(problem)
        self.learner = learner
        self.problem = problem
        self.seed = int(seed)
        self.learned = 0
        self.refused = 0
        self._accepts = frozenset(learner.accepts)
        self._state: Any = learner.init(problem)
        self._generator = generators(seed)[2]
        self._drawing = Lock()
        self._writing = Lock()

    @property
    def state(self) -> Any:
        """What has been learned so far: a value that nobody changes."""
        return self._state

    def rank(self, query: Query) -> Decision[Any]:
        """The ranking to show, with what `learn` will need."""
        self._check_query(query)
        with self._drawing:
            return self.learner.rank(self._state, query, self._generator)

    def predict(self, query: Query) -> Ints:
        """The best ranking known, without exploration."""
        self._check_query(query)
        return self.learner.predict(self._state, query)

    def log_prob(self, query: Query, ranking: Ints) -> float:
        """The log-probability with which `rank` would show this now; nan where it has no closed form."""
        self._check_query(query)
        ranking = np.asarray(ranking, dtype=np.int64)
        if not is_permutation(ranking, len(query.features)):
            raise InvalidInput("the ranking is not a permutation of the query's items")
        return self.learner.log_prob(self._state, query, ranking)

    def learn(self, query: Query, decision: Decision[Any], feedback: Feedback) -> Any:
        """Take in what came back for a decision, now or long after it; returns the new state."""
        self._check_query(query)
        self._check_feedback(len(query.features), decision.ranking, feedback)
        with self._writing:
            try:
                self._state = self.learner.learn(self._state, query, decision, feedback)
            except ArithmeticError as error:
                self.refused += 1
                raise UnstableUpdate(str(error)) from error
            self.learned += 1
            return self._state

    def snapshot(self) -> tuple[Any, dict[str, Any], int, int]:
        """State, generator position, learned and refused, all of one moment."""
        with self._drawing, self._writing:
            return self._state, dict(self._generator.bit_generator.state), self.learned, self.refused

    @property
    def generator(self) -> dict[str, Any]:
        """Where the generator stands; unlike `snapshot` it does not wait for an update in progress."""
        with self._drawing:
            return dict(self._generator.bit_generator.state)

    def restore(self, state: Any, generator: dict[str, Any], learned: int, refused: int) -> None:
        """Go on from a snapshot."""
        with self._drawing, self._writing:
            self._generator.bit_generator.state = generator
            self._state, self.learned, self.refused = state, learned, refused

    def _check_query(self, query: Query) -> None:
        n_items, n_features = query.features.shape
        problem = self.problem
        if n_features != problem.n_features:
            raise InvalidInput(f"the query has {n_features} features per item, the problem {problem.n_features}")
        if n_items == 0:
            raise InvalidInput("the query has no items; there must be at least one")
        if problem.n_items is not None and n_items != problem.n_items:
            raise InvalidInput(f"the query has {n_items} items, the fixed set {problem.n_items}")
        if len(query.context) != problem.n_context:
            raise InvalidInput(f"the query has {len(query.context)} context features, the problem {problem.n_context}")

    def _check_feedback(self, n_items: int, ranking: Ints, feedback: Feedback) -> None:
        kind = type(feedback)
        if kind not in self._accepts:
            wanted = " or ".join(sorted(accepted.__name__ for accepted in self._accepts)) or "nothing"
            raise IncompatibleFeedback(f"this learner learns from {wanted}, not from {kind.__name__}")
        if kind is Clicks or kind is Relevances:
            items, values = feedback  # type: ignore[misc]
            limit = self.problem.shown if kind is Clicks else self.problem.depth
            seen = n_items if limit is None or limit > n_items else limit
            fault = fault_in(_whole(ranking), n_items, seen, _whole(items), _real(values), kind is Relevances)
        elif kind is Preferred:
            better = _whole(feedback.ranking)  # type: ignore[union-attr]
            fault = fault_in(_whole(ranking), n_items, n_items, better, np.zeros(len(better)), True)
        else:
            value = np.array([feedback.value], dtype=np.float64)  # type: ignore[union-attr]
            fault = fault_in(_whole(ranking), n_items, 1, _whole(ranking[:1]), value, True)
        if fault:
            raise IncompatibleFeedback(f"{kind.__name__}: {FAULTS[fault]}")


def _check(problem: Problem) -> None:
    """A problem has to make sense before anything is built on it."""
    least = {"n_features": 0, "n_items": 1, "n_context": 0, "shown": 1, "depth": 1, "max_grade": 0}
    for name, smallest in least.items():
        value = getattr(problem, name)
        if value is not None and (not isinstance(value, int | np.integer) or value < smallest):
            raise InvalidInput(f"the problem's {name} must be a whole number from {smallest}, got {value!r}")
    if problem.feature_names and len(problem.feature_names) != problem.n_features:
        raise InvalidInput(f"{len(problem.feature_names)} feature names for {problem.n_features} features")


def _whole(values: Any) -> Ints:
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IncompatibleFeedback("items and rankings are lists of whole numbers")
    return array.astype(np.int64)


def _real(values: Any) -> Floats:
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        return values
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise IncompatibleFeedback("grades and weights are lists of numbers") from None
    if array.ndim != 1:
        raise IncompatibleFeedback("grades and weights are flat lists of numbers")
    return array
