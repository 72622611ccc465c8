"""Learners that trust what comes back, for a process of its own: they print, index and crash."""

import os
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankloop import Decision, Relevances, register
from rankloop.core.learner import _point_log_prob, best_ranking, check_receipt, shown_or_all

print("whatever a module prints is no answer")


class State(NamedTuple):
    weights: Any
    turn: int
    shown: int

    def reachable(self, initial: Any) -> bool:
        return True


class Receipt(NamedTuple):
    column: int


@register("trusting_receipts")
class TrustsItsReceipt:
    """Learns the weight of the column that the receipt names."""

    accepts: ClassVar = (Relevances,)
    reports: ClassVar = ()

    def init(self, problem: Any) -> State:
        return State(np.zeros(problem.n_features), 0, shown_or_all(problem))

    def rank(self, state: Any, query: Any, rng: Any) -> Decision[Receipt]:
        return Decision(self.predict(state, query), 0.0, Receipt(0))

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> State:
        weights = state.weights.copy()
        if len(weights):
            weights[decision.receipt.column] = min(1.0, weights[decision.receipt.column] + 0.01)
        return state._replace(weights=weights)

    def predict(self, state: Any, query: Any) -> Any:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: Any, query: Any, ranking: Any) -> float:
        return _point_log_prob(self.predict(state, query), ranking, state.shown)


@register("careful")
class Careful(TrustsItsReceipt):
    """Looks at the receipt first."""

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> State:
        check_receipt(decision.receipt.column == 0)
        return super().learn(state, query, decision, feedback)


@register("trusting_states")
class TrustsItsState(Careful):
    """Has the state say whose turn it is."""

    def learn(self, state: Any, query: Any, decision: Any, feedback: Any) -> State:
        if len(state.weights):
            float(state.weights[state.turn])
        return super().learn(state, query, decision, feedback)


@register("crashing")
class Crashes(Careful):
    """Takes the whole process with it."""

    def predict(self, state: Any, query: Any) -> Any:
        if state.turn > 10**6:
            os._exit(3)
        return super().predict(state, query)
