"""DBGD and MGD: compare the current ranker with random neighbours, one at a time or many at once."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import FiniteNumbers, Positive, PositiveCount
from rankloop.core.kernels import is_permutation, kernel, normals, ranking_of, scores_of
from rankloop.core.learner import LinearLearner, LinearState, check_receipt, expect, require_finite
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Query
from rankloop.interleaving.base import Interleaving, Mixed
from rankloop.interleaving.methods import TeamDraft


class Receipt(NamedTuple):
    """The comparison that was shown."""

    directions: Floats  # The unit vector u of each candidate.
    rankings: Ints  # The rankings that were mixed, the current one first.
    teams: Ints  # The ranking that each position was taken from.


@kernel
def _candidates(features: Floats, weights: Floats, normals: Floats, spread: float) -> tuple[Floats, Ints]:
    """Return directions, uniform on the sphere, and the rankings of weights and of weights + spread · direction."""
    directions, rankings = normals.copy(), np.empty((len(normals) + 1, len(features)), np.int64)
    rankings[0] = ranking_of(scores_of(features, weights))
    for candidate in range(len(directions)):
        length = np.sqrt(np.sum(normals[candidate] * normals[candidate]))
        if length > 0.0:
            directions[candidate] /= length
        rankings[candidate + 1] = ranking_of(scores_of(features, weights + spread * directions[candidate]))
    return directions, rankings


@kernel
def _step_to_winners(weights: Floats, directions: Floats, credits: Floats, step: float) -> Floats:
    """Return weights + step · the mean direction of the winning candidates, as in Schuth et al. (2016)."""
    total, n_winners = np.zeros(len(weights)), 0
    for candidate in range(len(directions)):
        if credits[candidate + 1] > credits[0]:
            n_winners += 1
            total += directions[candidate]
    return weights + step * total / max(n_winners, 1)


@dataclass(frozen=True, kw_only=True)
class DuellingLearner(LinearLearner):
    """A learner that mixes the current ranking with those of random neighbours, and moves towards the winners."""

    learning_rate: Positive = 0.01
    spread: Positive = 1.0
    interleaving: Interleaving = TeamDraft()  # noqa: RUF009  frozen
    start: FiniteNumbers = ()

    def rank(self, state: LinearState, query: Query, rng: Generator) -> Decision[Receipt]:
        draws = normals(rng, getattr(self, "candidates", 1), len(state.weights))
        directions, rankings = _candidates(query.features, state.weights, draws, self.spread)
        mixed = self.interleaving.mix(rankings, rng)
        return Decision(mixed.ranking, float("nan"), Receipt(directions, mixed.rankings, mixed.teams))

    def learn(self, state: LinearState, query: Query, decision: Decision[Receipt], feedback: Feedback) -> LinearState:
        directions, rankings, teams = decision.receipt
        n_items = len(decision.ranking)
        is_consistent = directions.ndim == 2 and directions.shape[1:] == state.weights.shape
        is_consistent = is_consistent and rankings.shape == (len(directions) + 1, n_items) and teams.shape == (n_items,)
        check_receipt(is_consistent and all(is_permutation(ranking, n_items) for ranking in rankings))
        check_receipt(bool(np.all((teams >= -1) & (teams <= len(directions)))))
        credits = self.interleaving.credit(Mixed(decision.ranking, rankings, teams), expect(feedback, Clicks))
        weights = _step_to_winners(state.weights, directions, credits, self.learning_rate * self.spread)
        return LinearState(require_finite(weights), state.shown)


@register("dbgd")
class Dbgd(DuellingLearner):
    """Duelling bandit gradient descent: w ← w + `learning_rate` · `spread` · u when users prefer w + `spread` · u.

    The direction u is uniform on the unit sphere. The rankings of w and of w + `spread` · u are interleaved, and the
    ranking whose items get more clicks wins. The classical baseline; `pdgd` and `3pr` learn much faster. `log_prob` is
    nan.

    Args:
      learning_rate: γ of the paper, the step size as a share of `spread`.
      spread: δ of the paper, the distance of the candidate.
      interleaving: The method that mixes the rankings and credits the clicks.
      start: The first weights; zeros if empty.

    References:
      Yue and Joachims (2009), Interactively Optimizing Information Retrieval Systems as a Dueling Bandits Problem,
      Algorithm 1.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("dbgd", "web_search", "dcm", "nDCG@10"), 3)
      0.449
    """

    examples: ClassVar[Examples] = ({}, {"interleaving": "probabilistic"}, {"interleaving": "balanced"})


@register("mgd")
class Mgd(DuellingLearner):
    """Multileave gradient descent: `dbgd` with many candidates in one list, and a step to the mean of the winners.

    Of `candidates` directions u on the unit sphere, those whose ranker w + `spread` · u earned more clicks than w win,
    and

      w ← w + `learning_rate` · `spread` · mean(winning u).

    All rankings are multileaved into one list. Use it in place of `dbgd` where lists are long.

    Args:
      learning_rate: The step size as a share of `spread`.
      spread: The distance of the candidates.
      interleaving: The method that mixes the rankings and credits the clicks.
      start: The first weights; zeros if empty.
      candidates: The number of candidates in each round.

    References:
      Schuth, Oosterhuis, Whiteson and de Rijke (2016), Multileave Gradient Descent for Fast Online Learning to Rank.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("mgd", "web_search", "dcm", "nDCG@10"), 3)
      0.429
    """

    candidates: PositiveCount = 9

    examples: ClassVar[Examples] = ({}, {"interleaving": "probabilistic", "candidates": 3})
