"""Rankers with the guarantees of the thesis: averages of online learners, and regularised risk in a ball."""

import math
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, Relevances, whole_number
from rankloop.data.dataset import Dataset
from rankloop.learners.baseline import FixedWeights
from rankloop.training.rank_bundle import Groups, RankBundle, as_dataset
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import Fit, SolverSettings, fit


def online_to_batch(learner: Any, dataset: Dataset, *, passes: int = 1, seed: int = 0) -> Session:
    """Average the weights that an online learner used on each query, as a ranker that does not learn.

    ŵ = (1/n) Σ_i w_i over `passes` times all queries in random order, w_i before query i is learned. For a convex
    surrogate and one pass its expected excess risk is at most G · W₂ · R_X · √(2/n): Theorem 35 of Chaudhuri (2016).

    Args:
      learner: One with `weights` in its state that learns from full relevance, as
        `online_gradient(surrogate="list_net")`.
      dataset: The queries.
      passes: The number of passes over them.
      seed: Draws their order.

    Returns:
      A session of `fixed_weights`.

    Raises:
      InvalidInput: If the learner has no weights or does not learn from grades, or if there is no query.
    """
    recipe = build(learner, "learner")
    whole_number(passes, "passes", 1)
    if Relevances not in recipe.accepts or dataset.n_queries == 0:
        raise InvalidInput("online_to_batch needs a learner that learns from grades, and a query")
    problem = Problem(dataset.n_features, max_grade=max(1, math.ceil(dataset.relevance.max(initial=0.0))))
    session = Session(recipe, problem, seed)
    rng = Generator(np.random.PCG64(SeedSequence(seed).spawn(5)[4]))
    total: Floats = np.zeros(dataset.n_features)
    for _ in range(passes):
        for index in np.argsort(rng.random(dataset.n_queries), kind="stable"):
            query, relevance = dataset.query(int(index))
            total += _weights_of(session)
            decision = session.rank(query)
            session.learn(query, decision, Relevances(decision.ranking, relevance[decision.ranking]))
    average = total / (passes * dataset.n_queries)
    return Session(FixedWeights(weights=tuple(average.tolist())), problem)


def _weights_of(session: Session) -> Floats:
    weights = getattr(session.state, "weights", None)
    if weights is None:
        raise InvalidInput("the learner's state has no weights to average; use a linear one, such as online_gradient")
    average: Floats = weights
    return average


def rerm_regularisation(lipschitz: float, radius: float, longest: float, n_queries: int) -> float:
    """Return the λ of Theorem 36: √(4 (G·R_X)²/n / (W₂²/2 + 4 W₂²/n)).

    Args:
      lipschitz: G, the largest sum of absolute slopes of the loss in the scores.
      radius: W₂, of the ball of weights.
      longest: R_X, the length of the longest row.
      n_queries: n.

    Returns:
      λ.
    """
    slope = lipschitz * longest
    return math.sqrt(4.0 * slope**2 / n_queries / (radius**2 / 2.0 + 4.0 * radius**2 / n_queries))


class RERM(RankBundle):
    """Regularised empirical risk minimisation in a ball: the λ that has a proved guarantee, instead of a search.

    min over ‖w‖₂ ≤ `radius` of λ/2 ‖w‖² + (1/n) Σ_q loss, with λ from the radius W₂, the longest row of X and
    `lipschitz`, the largest sum of absolute slopes of the loss in the scores (2 for ListNet, for lists of any length).
    In expectation its risk is within 2 · G · R_X · W₂ · (8/n + √(2/n)) of the best in the ball.
    Reference: Chaudhuri (2016), Learning to Rank, Theorem 36.
    """

    def __init__(
        self,
        loss: str = "list_net",
        radius: float = 1.0,
        *,
        lipschitz: float = 2.0,
        tolerance: float = 1e-4,
        measure: str = "nDCG@10",
    ) -> None:
        self.loss = loss
        self.radius = radius
        self.lipschitz = lipschitz
        self.tolerance = tolerance
        self.measure = measure

    def fit(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> "RERM":
        """Train on rows with grades `y`, each belonging to the query `qid`."""
        if not (self.radius > 0.0 and self.lipschitz > 0.0):
            raise InvalidInput(f"radius and lipschitz must be above 0, got {self.radius} and {self.lipschitz}")
        dataset = as_dataset(X, y, qid)
        longest = float(np.sqrt((dataset.features**2).sum(axis=1).max()))
        self.regularisation_ = rerm_regularisation(self.lipschitz, self.radius, longest or 1.0, dataset.n_queries)
        self._keep(self._fit_in_ball(dataset), dataset)
        return self

    def _fit_in_ball(self, dataset: Dataset) -> Fit:
        """Fit with the λ of the theory, or with a larger one where the weights leave the ball, by bisection."""
        risk, settings = risk_of(self.loss), SolverSettings(tolerance=self.tolerance)
        low = high = self.regularisation_
        model = fit(dataset, risk, low, settings=settings)
        if np.linalg.norm(model.weights) <= self.radius:
            return model
        while np.linalg.norm(model.weights) > self.radius:
            low, high = high, 4.0 * high
            model = fit(dataset, risk, high, start=model.weights, settings=settings)
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            tried = fit(dataset, risk, middle, start=model.weights, settings=settings)
            if np.linalg.norm(tried.weights) > self.radius:
                low = middle
            else:
                high, model = middle, tried
        return model
