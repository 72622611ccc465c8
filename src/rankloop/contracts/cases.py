"""The cases on which contracts are tried: learners with their examples, problems, queries and feedback."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from rankloop.contracts.contract import ContractViolation
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Preferred, Problem, Query, Relevances, Reward

NO_PARAMETERS: Spec = {}
USUAL_PROBLEMS = (
    Problem(n_features=3, max_grade=2),
    Problem(n_features=0, n_items=4),
    Problem(n_features=3, n_context=2),
)
PROBLEM_VARIANTS: tuple[dict[str, Any], ...] = ({}, {"shown": 2}, {"depth": 2}, {"shown": 3, "depth": 1})


class Case(NamedTuple):
    """A learner and a problem that it accepts."""

    name: str
    learner: Any
    problem: Problem

    @property
    def featured(self) -> bool:
        """True if items have features; the items of a fixed set are distinguished by their number."""
        return self.problem.n_items is None

    def query(self, n_items: int, rng: Generator) -> Query:
        """Return a query with normal features and context; a fixed set keeps its own size."""
        n_items = self.problem.n_items or n_items
        return Query.of(rng.normal(size=(n_items, self.problem.n_features)), rng.normal(size=self.problem.n_context))

    def feedbacks(self, decision: Decision[Any], rng: Generator) -> Iterator[Feedback]:
        """Yield one feedback of each kind that the learner accepts."""
        for kind in self.learner.accepts:
            yield feedback_of(kind, self.problem, decision, rng)


class History(NamedTuple):
    """The feedback of a few rounds, and the states before and after each."""

    arrivals: list[Arrival]
    states: list[Any]


def examples_of(cls: type, default: Spec = NO_PARAMETERS) -> list[Any]:
    """Build a registered class with each of its `examples`.

    Args:
      cls: The class.
      default: The parameters where the class names no examples.
    """
    try:
        return [cls(**parameters) for parameters in getattr(cls, "examples", (default,))]
    except InvalidInput as error:
        raise ContractViolation(f"{cls.__name__} cannot be built for the check: {error}") from error


def cases_of(kind: str, cls: type) -> list[Case]:
    """Return every example of a learner, on each variant of its problem that it accepts.

    Args:
      kind: The registered name.
      cls: The class. Its `examples` are tables of parameters, its `example_problem` is a problem that fits them all.
    """
    cases = []
    for position, learner in enumerate(examples_of(cls)):
        problem = getattr(cls, "example_problem", None) or accepted_problem(learner)
        for variant in PROBLEM_VARIANTS:
            varied = problem._replace(**variant)
            if accepts(learner, varied):
                label = ",".join(f"{name}={value}" for name, value in variant.items())
                cases.append(Case(f"{kind}-{position}-{label or 'plain'}", learner, varied))
    return cases


def accepted_problem(learner: Any) -> Problem:
    """Return the first of the usual problems that the learner accepts; others are its class's `example_problem`."""
    for problem in USUAL_PROBLEMS:
        if accepts(learner, problem):
            return problem
    try:
        learner.init(USUAL_PROBLEMS[0])
    except InvalidInput as error:
        raise ContractViolation(f"it accepts none of the usual problems: {error}") from error
    return USUAL_PROBLEMS[0]


def accepts(learner: Any, problem: Problem) -> bool:
    """Return true if `init` does not refuse the problem with InvalidInput.

    Args:
      learner: The learner.
      problem: The problem.
    """
    try:
        learner.init(problem)
    except InvalidInput:
        return False
    return True


def feedback_of(kind: type, problem: Problem, decision: Decision[Any], rng: Generator) -> Feedback:
    """Return random feedback that fits a decision.

    Args:
      kind: The class of the feedback.
      problem: The problem, which says how many items are seen and graded.
      decision: The decision.
      rng: The source of random numbers.
    """
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


def learn_from(learner: Any, state: Any, arrival: Arrival) -> Any:
    """Return the state after this arrival.

    Args:
      learner: The learner.
      state: The state before.
      arrival: The query, the decision and its feedback.
    """
    return learner.learn(state, arrival.query, arrival.decision, arrival.feedback)


def play_history(case: Case, rounds: int = 12, seed: int = 0) -> History:
    """Rank and learn for a few rounds, on lists of 2 to 5 items, with every kind of feedback in turn.

    Args:
      case: The learner and the problem.
      rounds: The number of rounds.
      seed: Decides all random numbers.
    """
    rng, draws = default_rng(seed), default_rng(seed + 1)
    states, arrivals = [case.learner.init(case.problem)], []
    for t in range(rounds):
        query = case.query(2 + t % 4, rng)
        decision = case.learner.rank(states[-1], query, draws)
        for feedback in case.feedbacks(decision, rng):
            arrivals.append(Arrival(query, decision, feedback))
            states.append(learn_from(case.learner, states[-1], copy.deepcopy(arrivals[-1])))
    return History(arrivals, states)
