"""The generic forecaster: estimates that tell losses apart, by enumeration; regret; what it refuses."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Problem, Query
from rankloop.games.game import Game
from rankloop.games.generic_forecaster import GenericForecaster, _table_of
from rankloop.measures import parse_measure
from rankloop.simulate.play import play
from research.bounds.fixed_items import generic_forecaster_regret
from tests.feedback import relevances

CASES = [("DCG", 3, 1, 1), ("SumLoss", 3, 2, 2), ("P@2", 4, 1, 1), ("nDCG", 3, 3, 1), ("AUCLoss", 3, 1, 1)]


@pytest.mark.parametrize(("name", "n_items", "depth", "max_grade"), CASES)
def test_estimates_average_to_the_losses(name: str, n_items: int, depth: int, max_grade: int) -> None:
    """One round of learning, averaged over everything that can be shown: differences of losses come out exactly."""
    learner, query = GenericForecaster(measure=name), Query.of(np.empty((n_items, 0)))  # type: ignore[arg-type]
    game = Game(measure=parse_measure(name), n_items=n_items, max_grade=max_grade)
    state = learner.init(Problem(0, n_items, depth=depth, max_grade=max_grade))
    for seed in range(3):  # away from uniform weights
        decision = learner.rank(state, query, np.random.default_rng(seed))
        seen = decision.ranking[:depth]
        state = learner.learn(state, query, decision, relevances(seen, np.arange(depth) % (max_grade + 1)))
    start = state._replace(losses=state.losses - state.losses.min())
    table = _table_of(parse_measure(name), n_items, depth, max_grade)  # type: ignore[arg-type]
    probabilities = np.array([math.exp(learner.log_prob(start, query, ranking)) for ranking in table.rankings])
    assert probabilities.sum() == pytest.approx(1.0)
    ends = np.cumsum(probabilities)
    for outcome, row in enumerate(game.relevances.astype(np.float64)):
        step = np.zeros(len(start.losses))
        for action, ranking in enumerate(table.rankings):
            decision = learner.rank(start, query, Fixed(ends[action] - probabilities[action] / 2))  # type: ignore[arg-type]
            assert np.array_equal(decision.ranking, ranking)
            learned = learner.learn(start, query, decision, relevances(ranking[:depth], row[ranking[:depth]]))
            step += probabilities[action] * (learned.losses - start.losses)
        losses = game.loss[:, outcome]
        assert step - step[0] == pytest.approx(losses - losses[0], abs=1e-9)


class Fixed:
    """A generator that draws one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def test_learns_within_its_bound() -> None:
    stream, users = build("flipped_relevance(n_items=3, n_relevant=1, flip=0.1)"), build("top_k(depth=1)")
    measure, horizon = parse_measure("DCG"), 3000
    rounds = list(play(GenericForecaster(horizon=horizon), stream, users, horizon=horizon, seed=0))
    shown = sum(measure(turn.decision.ranking, turn.relevance) for turn in rounds)
    fixed = [sum(measure(np.array(p), turn.relevance) for turn in rounds) for p in permutations(range(3))]
    table = _table_of(measure, 3, 1, 1)  # type: ignore[arg-type]
    bound = generic_forecaster_regret(table.largest, len(table.members), table.spread, 3, horizon)
    assert not bound.vacuous
    assert max(fixed) - shown <= bound.regret
    assert rounds[-1].decision.log_propensity == pytest.approx(math.log(0.9), abs=1.5)
    truth = np.argsort(-sum(turn.relevance for turn in rounds))
    assert GenericForecaster().predict(rounds[-1].learned, rounds[-1].query)[0] == truth[0]


def test_small_games_only() -> None:
    learner = GenericForecaster()
    with pytest.raises(InvalidInput, match=r"at most 5 items.*got 6 items.*rtopk"):
        learner.init(Problem(0, 6, depth=1))
    with pytest.raises(InvalidInput, match="200000 items"):
        learner.init(Problem(0, 200_000, depth=1))
    with pytest.raises(InvalidInput, match=r"1,024 relevances.*grades 0\.\.4"):
        learner.init(Problem(0, 5, depth=1, max_grade=4))
    with pytest.raises(InvalidInput, match="cannot be learned"):
        GenericForecaster(measure="nDCG").init(Problem(0, 3, depth=1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="first item"):
        learner.init(Problem(0, 3, depth=0))


def test_seen_part_and_single_items() -> None:
    query, learner = Query.of(np.empty((3, 0))), GenericForecaster()
    state = learner.init(Problem(0, 3, shown=1, depth=1))
    assert math.exp(learner.log_prob(state, query, np.array([2, 0, 1]))) == pytest.approx(1 / 3)
    one = Query.of(np.empty((1, 0)))
    alone = learner.rank(learner.init(Problem(0, 1, depth=1)), one, np.random.default_rng(0))
    assert alone.ranking.tolist() == [0]
    assert alone.log_propensity == 0.0
