"""A learner in use: the one mutable object."""

from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Any, get_origin, get_type_hints

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import is_permutation
from rankloop.core.plain import receipt_type
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Decision, Feedback, Ints, Problem, Query, Relevances
from rankloop.core.validation import check_problem, check_query, checked_feedback, whole_numbers


def generators(seed: int) -> tuple[Generator, Generator, Generator, Generator]:
    """Stream, people, learner and delivery, each with draws of their own."""
    stream, people, learner, delivery = (Generator(PCG64(child)) for child in SeedSequence(seed).spawn(4))
    return stream, people, learner, delivery


def _learner_generator(seed: int) -> Generator:
    """The third of `generators`, without the others: a service begins with many sessions."""
    return Generator(PCG64(SeedSequence(seed, spawn_key=(2,))))


class Session:
    """Ranks and learns, from many threads at once: many readers, one writer, no update lost.

    `learn` is a border: feedback that the learner does not accept or that does not fit the decision raises
    `IncompatibleFeedback`, a step that would leave a non-finite state raises `UnstableUpdate` and is counted in
    `refused`. Either way the state stays as it was.
    """

    def __init__(self, learner: AnyLearner, problem: Problem, seed: int = 0) -> None:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput(f"a seed is a whole number from 0, got {seed!r}")
        check_problem(problem)
        self.learner = learner
        self.problem = problem
        self.seed = int(seed)
        self.learned = 0
        self.refused = 0
        self._accepts = frozenset(learner.accepts)
        self._receipt, self._arrays = _receipt_form(learner)
        self._state: Any = _start(learner, problem)
        self._generator = _learner_generator(seed)
        self._drawing = Lock()
        self._writing = Lock()

    @property
    def state(self) -> Any:
        """What has been learned so far: a value that nobody changes."""
        return self._state

    def rank(self, query: Query, generator: Generator | None = None) -> Decision[Any]:
        """The ranking to show, with what `learn` will need; the draws are the session's own unless given."""
        check_query(query, self.problem)
        if generator is not None:
            return self.learner.rank(self._state, query, generator)
        with self._drawing:
            return self.learner.rank(self._state, query, self._generator)

    def predict(self, query: Query) -> Ints:
        """The best ranking known, without exploration."""
        check_query(query, self.problem)
        return self.learner.predict(self._state, query)

    def log_prob(self, query: Query, ranking: Ints) -> float:
        """The log-probability with which `rank` would show this now; nan where it has no closed form."""
        check_query(query, self.problem)
        ranking = np.asarray(ranking, dtype=np.int64)
        if not is_permutation(ranking, query.n_items):
            raise InvalidInput("the ranking is not a permutation of the query's items")
        return self.learner.log_prob(self._state, query, ranking)

    def learn(self, query: Query, decision: Decision[Any], feedback: Feedback) -> Any:
        """Take in what came back for a decision, now or long after it; returns the new state."""
        check_query(query, self.problem)
        decision, feedback = self._checked(query.n_items, decision, feedback)
        with self._writing:
            try:
                self._state = self.learner.learn(self._state, query, decision, feedback)
            except ArithmeticError as error:
                self.refused += 1
                raise UnstableUpdate(str(error)) from error
            self.learned += 1
            return self._state

    def _checked(self, n_items: int, decision: Decision[Any], feedback: Feedback) -> tuple[Decision[Any], Feedback]:
        """Both as the learner wants them, once the kind is known to be one that it accepts."""
        if type(feedback) not in self._accepts:
            wanted = " or ".join(sorted(accepted.__name__ for accepted in self._accepts)) or "nothing"
            raise IncompatibleFeedback(f"this learner learns from {wanted}, not from {type(feedback).__name__}")
        self._check_receipt(decision.receipt)
        ranking = whole_numbers(decision.ranking)
        if ranking is not decision.ranking:
            decision = decision._replace(ranking=ranking)
        seen = self.problem.depth if type(feedback) is Relevances else self.problem.shown
        return decision, checked_feedback(feedback, ranking, n_items, seen)

    def _check_receipt(self, receipt: Any) -> None:
        fits = isinstance(receipt, self._receipt)
        for position in self._arrays:
            fits = fits and type(receipt[position]) is np.ndarray
        if not fits:
            raise IncompatibleFeedback(f"the decision carries {receipt!r:.60}, which this learner did not hand out")

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


def _receipt_form(learner: AnyLearner) -> tuple[Any, tuple[int, ...]]:
    """The class of what the learner hands out, and which of its fields are arrays; anything where it is not said."""
    try:
        annotation = receipt_type(learner)
        cls: type = get_origin(annotation) or annotation
        return cls, _arrays_in(cls)
    except (InvalidInput, AttributeError, NameError, TypeError):
        return object, ()


@cache
def _arrays_in(cls: type) -> tuple[int, ...]:
    hints = get_type_hints(cls)
    fields = getattr(cls, "_fields", ())
    return tuple(i for i, name in enumerate(fields) if get_origin(hints[name]) is np.ndarray)


def _start(learner: AnyLearner, problem: Problem) -> Any:
    """The first state; parameters so extreme that it is not finite are refused here, before anything is built on it."""
    try:
        state = learner.init(problem)
    except ArithmeticError as error:
        raise InvalidInput(f"this learner cannot begin with such a problem: {error}") from error
    if not all(np.isfinite(part).all() for part in _numbers_in(state)):
        raise InvalidInput("this learner's first state is not finite: a parameter, or max_grade, is extreme")
    return state


def _numbers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _numbers_in(part)
    elif isinstance(value, float | np.ndarray):
        yield value
