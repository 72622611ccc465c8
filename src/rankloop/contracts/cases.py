"""What the contracts are tried on: every registered learner with its examples, queries, and feedback of each kind."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from rankloop.contracts.contract import Broken
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec
from rankloop.core.types import Arrival, Clicks, Decision, Feedback, Preferred, Problem, Query, Relevances, Reward

NO_PARAMETERS: Spec = {}
PROBLEMS = (Problem(n_features=3, max_grade=2), Problem(n_features=0, n_items=4), Problem(n_features=3, n_context=2))
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"shown": 2}, {"depth": 2}, {"shown": 3, "depth": 1})


class Case(NamedTuple):
    """A learner and a problem that it accepts."""

    name: str
    learner: Any
    problem: Problem

    @property
    def featured(self) -> bool:
        """Whether items are told apart by their features; in a fixed set they are told apart by their number."""
        return self.problem.n_items is None

    def query(self, n_items: int, rng: Generator) -> Query:
        """Normal features and context; a fixed set keeps its own size."""
        n_items = self.problem.n_items or n_items
        return Query.of(rng.normal(size=(n_items, self.problem.n_features)), rng.normal(size=self.problem.n_context))

    def feedbacks(self, decision: Decision[Any], rng: Generator) -> Iterator[Feedback]:
        """One feedback of each kind that the learner accepts."""
        for kind in self.learner.accepts:
            yield feedback_of(kind, self.problem, decision, rng)


class Past(NamedTuple):
    """A played history: what arrived, the states before and after each arrival."""

    arrivals: list[Arrival]
    states: list[Any]


def examples_of(cls: type, default: Spec = NO_PARAMETERS) -> list[Any]:
    """What a registered class is tried with: built from its `examples`, or from the default parameters."""
    try:
        return [cls(**parameters) for parameters in getattr(cls, "examples", (default,))]
    except InvalidInput as error:
        raise Broken(f"{cls.__name__} cannot be built to be tried: {error}") from error


def cases_of(kind: str, cls: type) -> list[Case]:
    """Every example of a learner, on each variant of its problem that it accepts.

    `examples` on the class are tables of parameters (default: none), `example_problem` a problem that fits them all.
    """
    found = []
    for position, learner in enumerate(examples_of(cls)):
        problem = getattr(cls, "example_problem", None) or accepted_problem(learner)
        for variant in VARIANTS:
            varied = problem._replace(**variant)
            if accepts(learner, varied):
                label = ",".join(f"{name}={value}" for name, value in variant.items())
                found.append(Case(f"{kind}-{position}-{label or 'plain'}", learner, varied))
    return found


def accepted_problem(learner: Any) -> Problem:
    """The first of PROBLEMS that the learner takes; name `example_problem` on the class when none of them fits."""
    for problem in PROBLEMS:
        if accepts(learner, problem):
            return problem
    try:
        learner.init(PROBLEMS[0])
    except InvalidInput as error:
        raise Broken(f"no usual problem fits it: {error}") from error
    return PROBLEMS[0]


def accepts(learner: Any, problem: Problem) -> bool:
    """Whether `init` takes the problem; InvalidInput is how it says no."""
    try:
        learner.init(problem)
    except InvalidInput:
        return False
    return True


def feedback_of(kind: type, problem: Problem, decision: Decision[Any], rng: Generator) -> Feedback:
    """Random feedback of this kind that fits the decision."""
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
    raise Broken(f"accepts names {kind}, which is no kind of feedback")


def learn_from(learner: Any, state: Any, arrival: Arrival) -> Any:
    """Return the state after this arrival."""
    return learner.learn(state, arrival.query, arrival.decision, arrival.feedback)


def play_past(case: Case, rounds: int = 12, seed: int = 0) -> Past:
    """Rank and learn for a few rounds, on lists of 2 to 5 items, with every kind of feedback in turn."""
    rng, draws = default_rng(seed), default_rng(seed + 1)
    states, arrivals = [case.learner.init(case.problem)], []
    for t in range(rounds):
        query = case.query(2 + t % 4, rng)
        decision = case.learner.rank(states[-1], query, draws)
        for feedback in case.feedbacks(decision, rng):
            arrivals.append(Arrival(query, decision, feedback))
            states.append(learn_from(case.learner, states[-1], copy.deepcopy(arrivals[-1])))
    return Past(arrivals, states)
