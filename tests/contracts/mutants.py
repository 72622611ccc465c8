"""An honest learner, and mutants of it that each break one contract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop.contracts import learn_contracts as learning
from rankloop.contracts import rank_contracts as showing
from rankloop.contracts import recipe_contracts as recipes
from rankloop.contracts import robust_contracts as robust
from rankloop.contracts.cases import Contract
from rankloop.contracts.suite import check_cases
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ranking_of, scores_of, seen_count, weighted_rows
from rankloop.core.learner import Robust, _point_log_prob, best_ranking, require_finite, shown_or_all
from rankloop.core.types import Decision, Floats, Limit, Relevances

SHARED = np.zeros(3)


class State(NamedTuple):
    weights: Floats
    steps: int
    shown: int


class Receipt(NamedTuple):
    explored: bool


@dataclass(frozen=True, kw_only=True)
class Honest:
    """Half the time the best ranking, half the time a random one."""

    accepts: ClassVar[tuple[type, ...]] = (Relevances,)
    reports: ClassVar[tuple[str, ...]] = ("steps",)

    def init(self, problem: Any) -> State:
        return State(np.zeros(problem.n_features), 0, shown_or_all(problem))

    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        draws = rng.random(len(query.features) + 1)
        explored = bool(draws[-1] < 0.5)
        ranking = ranking_of(draws[:-1]) if explored else best_ranking(query.features, state.weights)
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(explored))

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        slope = np.zeros(len(query.features))
        slope[feedback.items] = 0.1 * (feedback.grades - feedback.grades.mean())
        weights = require_finite(state.weights + weighted_rows(query.features, slope))
        return state._replace(weights=weights, steps=state.steps + 1)

    def predict(self, state: Any, query: Any) -> Any:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: Any, query: Any, ranking: Any) -> float:
        n_items = len(query.features)
        n_seen = seen_count(state.shown, n_items)
        sure = math.exp(_point_log_prob(best_ranking(query.features, state.weights), ranking, state.shown))
        return math.log(0.5 * sure + 0.5 * math.factorial(n_items - n_seen) / math.factorial(n_items))


class UpdatesInPlace(Honest):
    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        new = super().learn(state, query, decision, feedback)
        state.weights[:] = new.weights
        return new


class CentresGradesInPlace(Honest):
    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        feedback.grades[:] -= 0.25
        return super().learn(state, query, decision, feedback)


class ScalesFeaturesInPlace(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        query.features[:] *= 0.5
        return super().rank(state, query, rng)


class ForgetsExploration(Honest):
    def log_prob(self, state: Any, query: Any, ranking: Any) -> float:
        return _point_log_prob(self.predict(state, query), ranking, state.shown)


class CountsUnseenPlaces(Honest):
    def log_prob(self, state: Any, query: Any, ranking: Any) -> float:
        return super().log_prob(state._replace(shown=-1), query, ranking)


class ReportsAnotherPropensity(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        return super().rank(state, query, rng)._replace(log_propensity=-1.0)


class DrawsInLearn(Honest):
    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        new = super().learn(state, query, decision, feedback)
        return new._replace(weights=new.weights + np.random.default_rng().normal(size=len(new.weights)))


class DrawsGlobally(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        ranking = np.random.permutation(len(query.features))  # noqa: NPY002 - the fault on purpose
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(True))


class DrawsByBranch(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        explored = bool(rng.random() < 0.5)
        ranking = ranking_of(rng.random(len(query.features))) if explored else self.predict(state, query)
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(explored))


class Permutes(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        ranking = rng.permutation(len(query.features))
        return Decision(ranking, self.log_prob(state, query, ranking), Receipt(True))


class LeaksItemOrder(Honest):
    def predict(self, state: Any, query: Any) -> Any:
        return ranking_of(scores_of(query.features, state.weights) - 0.05 * np.arange(len(query.features)))


class BreaksTiesBackwards(Honest):
    def predict(self, state: Any, query: Any) -> Any:
        last = len(query.features) - 1
        return last - best_ranking(query.features[::-1].copy(), state.weights)


class ShowsOnlyTheTop(Honest):
    def predict(self, state: Any, query: Any) -> Any:
        return super().predict(state, query)[:2]


class ReturnsSmallIntegers(Honest):
    def predict(self, state: Any, query: Any) -> Any:
        return super().predict(state, query).astype(np.int32)


class Remembers(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        self.__dict__["last"] = super().rank(state, query, rng)
        return self.__dict__["last"]

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        new = super().learn(state, query, decision, feedback)
        return new._replace(steps=new.steps + int("last" in self.__dict__))


class WantsFeedbackAtOnce(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[NumberReceipt]:
        return super().rank(state, query, rng)._replace(receipt=NumberReceipt(state.steps))

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        if decision.receipt.step != state.steps:
            raise ValueError("too late")
        return super().learn(state, query, decision, feedback)


class NumberReceipt(NamedTuple):
    step: int


class LosesItsReceipt(Honest):
    def rank(self, state: Any, query: Any, rng: Any) -> Decision[tuple[()]]:
        return super().rank(state, query, rng)


class LetsInfinityIn(Honest):
    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        with np.errstate(all="ignore"):
            gain = float(np.sum(query.features**2))
        return state._replace(weights=state.weights + gain)


class DividesByOthers(Honest):
    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        new = super().learn(state, query, decision, feedback)
        return new._replace(weights=new.weights / (1 - 1 / len(query.features)))


class SharesItsStart(Honest):
    def init(self, problem: Any) -> State:
        return State(SHARED, 0, shown_or_all(problem))


class KeepsAList(Honest):
    def init(self, problem: Any) -> Any:
        return State(np.zeros(problem.n_features), [0], shown_or_all(problem))  # type: ignore[arg-type]

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        return state


class ReportsNothingThere(Honest):
    reports: ClassVar[tuple[str, ...]] = ("regret",)


class AcceptsAnything(Honest):
    accepts: ClassVar[tuple[type, ...]] = (Relevances, dict)


class IgnoresItsLimit(Honest):
    def rank(self, state: Any, query: Any, rng: Any, limit: Limit | None = None) -> Decision[Receipt]:
        return super().rank(state, query, rng)

    def log_prob(self, state: Any, query: Any, ranking: Any, limit: Limit | None = None) -> float:
        return super().log_prob(state, query, ranking)


class HasNoExample(Honest):
    """Half the time the best ranking, with a parameter that somebody has to name."""

    horizon: int


class TakesNoProblem(Honest):
    """Half the time the best ranking, of nothing."""

    def init(self, problem: Any) -> State:
        raise InvalidInput("it wants 17 items")


class DoublesItsRate(Honest):
    """Half the time the best ranking, with a rate that grows."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", 2 * self.rate)


class DoublesLargeRates(Honest):
    """Half the time the best ranking, with a rate that grows where it is large."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", self.rate if self.rate <= 1.0 else 2 * self.rate)


class CannotSayNone(Honest):
    """Half the time the best ranking, with a depth."""

    depth: int | None = 3


class SaysNothing(Honest):
    """Well."""


class WritesOneForAFloat(Honest):
    """Half the time the best ranking, with a rate."""

    rate: float = 1


@dataclass(frozen=True, kw_only=True)
class Thaws(Honest):
    """Half the time the best ranking, with a rate."""

    rate: float = 1.0


Thaws.__setattr__ = object.__setattr__  # type: ignore[assignment, method-assign]


class ForgetsToClip(Robust):
    """A wrapper for bad rows that counts what is outside of the ranges, and learns from it as it is."""

    examples: ClassVar[Any] = ({"inner": "newton_pairs"},)

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> Any:
        inner = self.inner.learn(state.inner, query, decision, feedback)
        return super().learn(state, query, decision, feedback)._replace(inner=inner)


MUTANTS: dict[type, Contract] = {
    UpdatesInPlace: learning.check_purity,
    CentresGradesInPlace: learning.check_purity,
    ScalesFeaturesInPlace: learning.check_purity,
    ForgetsExploration: showing.check_log_prob,
    CountsUnseenPlaces: showing.check_log_prob,
    ReportsAnotherPropensity: showing.check_log_prob,
    DrawsInLearn: learning.check_no_draws_elsewhere,
    DrawsGlobally: showing.check_seeding,
    DrawsByBranch: showing.check_fixed_draws,
    Permutes: showing.check_fixed_draws,
    LeaksItemOrder: showing.check_renaming,
    BreaksTiesBackwards: showing.check_equal_rows,
    ShowsOnlyTheTop: showing.check_rankings,
    ReturnsSmallIntegers: showing.check_rankings,
    Remembers: learning.check_replay,
    WantsFeedbackAtOnce: learning.check_late_feedback,
    LosesItsReceipt: learning.check_late_feedback,
    LetsInfinityIn: learning.check_huge_numbers,
    DividesByOthers: showing.check_single_item,
    SharesItsStart: learning.check_declarations,
    KeepsAList: learning.check_state_form,
    ReportsNothingThere: learning.check_declarations,
    AcceptsAnything: learning.check_declarations,
    IgnoresItsLimit: showing.check_limit,
    ForgetsToClip: robust.check_one_bad_row,
    HasNoExample: check_cases,
    TakesNoProblem: check_cases,
    DoublesItsRate: recipes.check_spec,
    DoublesLargeRates: recipes.check_parameters,
    CannotSayNone: recipes.check_none,
    SaysNothing: recipes.check_docstring,
    WritesOneForAFloat: recipes.check_defaults,
    Thaws: recipes.check_frozen,
}
