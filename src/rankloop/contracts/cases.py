"""The cases on which contracts are tried: learners with their examples, problems, queries and feedback."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Entry, Spec
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Preferred, Problem, Query, Relevances, Reward
from rankloop.core.weight_table import WeightTable


class ContractViolation(AssertionError):
    """An error that says what a learner did instead of what its contract promises."""


def require(condition: bool, message: str) -> None:
    """Raise `ContractViolation` unless the condition holds; `assert` would be silent under `python -O`.

    Args:
      condition: The condition that the contract demands.
      message: What the learner did instead.
    """
    if not condition:
        raise ContractViolation(message)


class Contract(NamedTuple):
    """A check of one promise, which raises where its subject does not keep it."""

    name: str
    promise: str
    fix: str  # what the author of a failing learner can do
    check: Callable[[Any], None]


def contract(fix: str) -> Callable[[Callable[[Any], None]], Contract]:
    """Return a decorator that makes a function `check_name` a contract; its docstring begins with the promise."""

    def made(check: Callable[[Any], None]) -> Contract:
        promise, _, _ = (check.__doc__ or "").strip().partition("\n")
        return Contract(check.__name__.removeprefix("check_"), promise, fix, check)

    return made


def contracts_of(module: Any) -> tuple[Contract, ...]:
    """Return the contracts that a module declares, by name."""
    declared = [entry for entry in vars(module).values() if isinstance(entry, Contract)]
    return tuple(sorted(entry for entry in declared if entry.check.__module__ == module.__name__))


USUAL_PROBLEMS = (
    Problem(n_features=3, max_grade=2),
    Problem(n_features=0, n_items=4),
    Problem(n_features=3, n_context=2),
)
PROBLEM_VARIANTS: tuple[dict[str, Any], ...] = ({}, {"shown": 2}, {"depth": 2}, {"shown": 3, "depth": 1})


class History(NamedTuple):
    """The feedback of a few rounds, and the states before and after each."""

    arrivals: list[Arrival]
    states: list[Any]


class Case(NamedTuple):
    """A learner and a problem that it accepts."""

    name: str
    learner: Any
    problem: Problem

    @property
    def featured(self) -> bool:
        """True if items have features; the items of a fixed set are distinguished by their number."""
        return self.problem.n_items is None

    @property
    def is_accepted(self) -> bool:
        """True if `init` does not refuse the problem with InvalidInput."""
        try:
            self.learner.init(self.problem)
        except InvalidInput:
            return False
        return True

    def query(self, n_items: int, rng: Generator) -> Query:
        """Return a query with normal features and context; a fixed set keeps its own size."""
        n_items = self.problem.n_items or n_items
        return Query.of(rng.normal(size=(n_items, self.problem.n_features)), rng.normal(size=self.problem.n_context))

    def learned(self, state: Any, arrival: Arrival) -> Any:
        """Return the state after an arrival."""
        return self.learner.learn(state, arrival.query, arrival.decision, arrival.feedback)

    def play(self, rounds: int = 12) -> History:
        """Rank and learn for a few rounds, on lists of 2 to 5 items, with every kind of feedback in turn."""
        rng, draws = default_rng(0), default_rng(1)
        states, arrivals = [self.learner.init(self.problem)], []
        for t in range(rounds):
            query = self.query(2 + t % 4, rng)
            decision = self.learner.rank(states[-1], query, draws)
            for feedback in self.feedbacks(decision, rng):
                arrivals.append(Arrival(query, decision, feedback))
                states.append(self.learned(states[-1], copy.deepcopy(arrivals[-1])))
        return History(arrivals, states)

    def feedbacks(self, decision: Decision[Any], rng: Generator) -> Iterator[Feedback]:
        """Yield one feedback of each kind that the learner accepts."""
        for kind in self.learner.accepts:
            yield _feedback_of(kind, self.problem, decision, rng)


def examples_of(cls: type) -> list[Any]:
    """Build a registered class with each of its `examples`, or without parameters."""
    examples: tuple[Spec, ...] = getattr(cls, "examples", ({},))
    try:
        return [cls(**parameters) for parameters in examples]
    except InvalidInput as error:
        raise ContractViolation(f"{cls.__name__} cannot be built for the check: {error}") from error


def cases_of(entry: Entry) -> list[Case]:
    """Return every example of a registered learner, on each variant of its problem that it accepts.

    The `examples` of its class are tables of parameters, its `example_problem` is a problem that fits them all.
    """
    cases = []
    for position, learner in enumerate(examples_of(entry.cls)):
        problem = getattr(entry.cls, "example_problem", None) or accepted_problem(learner)
        for variant in PROBLEM_VARIANTS:
            label = ",".join(f"{name}={value}" for name, value in variant.items())
            cases.append(Case(f"{entry.kind}-{position}-{label or 'plain'}", learner, problem._replace(**variant)))
    return [case for case in cases if case.is_accepted]


def accepted_problem(learner: Any) -> Problem:
    """Return the first of the usual problems that the learner accepts; others are its class's `example_problem`."""
    refusals = list[InvalidInput]()
    for problem in USUAL_PROBLEMS:
        try:
            learner.init(problem)
            return problem
        except InvalidInput as error:
            refusals.append(error)
    raise ContractViolation(f"it accepts none of the usual problems: {refusals[0]}") from refusals[0]


def _feedback_of(kind: type, problem: Problem, decision: Decision[Any], rng: Generator) -> Feedback:
    ranking = decision.ranking
    if kind is Relevances:
        items = ranking[: problem.depth].copy()
        return Relevances(items, rng.integers(0, problem.max_grade + 1, len(items)).astype(float))
    if kind is Clicks:
        items = np.sort(ranking[: problem.shown][rng.random(len(ranking[: problem.shown])) < 0.5])
        return Clicks(items, np.ones(len(items)))
    if kind is Preferred:
        better = ranking.copy()
        better[:2] = better[:2][::-1]
        return Preferred(better)
    if kind is Reward:
        return Reward(float(rng.random() < 0.5))
    raise ContractViolation(f"accepts contains {kind}, which is not a class of feedback")


def leaves(value: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of a nested tuple with their dotted paths.

    Args:
      value: The tuple, array or number.
      path: The path of the value itself.
    """
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, part in zip(names, value, strict=True):
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, WeightTable):
        yield f"{path}.table", value.at(np.arange(value.n_columns))
    else:
        yield path, value


def _first_difference(first: Any, second: Any) -> str:
    """Return the path and the values of the first difference, bit for bit; empty when there is none."""
    parts, other_parts = dict(leaves(first)), dict(leaves(second))
    if list(parts) != list(other_parts):
        return f"different parts: {list(parts)} and {list(other_parts)}"
    for path, a in parts.items():
        b, is_float = other_parts[path], np.asarray(a).dtype.kind == "f"
        if type(a) is not type(b) or not np.array_equal(np.asarray(a), np.asarray(b), equal_nan=is_float):
            return f"{path}: {a!r} and {b!r}"
    return ""


def require_same(first: Any, second: Any, message: str) -> None:
    """Raise `ContractViolation` if two values differ in a bit.

    Args:
      first: A nested tuple.
      second: Another.
      message: The beginning of the error's message; the path of the difference follows.
    """
    difference = _first_difference(first, second)
    require(not difference, f"{message} {difference}")


def require_finite_state(state: Any) -> None:
    """Raise `ContractViolation` unless the state is a tuple of finite arrays and numbers."""
    require(isinstance(state, tuple), f"the state is a {type(state).__name__}")
    for path, value in leaves(state):
        require(isinstance(value, np.ndarray | int | float | bool | np.generic), f"{path} is a {type(value).__name__}")
        if not np.all(np.isfinite(value)):  # `require` would format every array.
            raise ContractViolation(f"{path} = {value} is not finite")
