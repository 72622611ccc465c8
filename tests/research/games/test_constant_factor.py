"""What share of the best is kept in hopeless games: both sides of the linear program, and a learner that keeps it."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Problem, Query, Relevances
from rankloop.games.hopeless import Hopeless
from rankloop.simulate.play import play
from rankloop.simulate.users.readers import TopK
from research.games.constant_factor import (
    ConstantFactor,
    ceiling,
    check_ceiling,
    kept_at,
    nearest_seen,
    sizes_of,
)

HOPELESS = [("nDCG", 3, 1), ("AP", 3, 1), ("nDCG", 4, 1), ("nDCG", 4, 2), ("AUC", 4, 1)]
SHARES = {("nDCG", 3, 1): 0.9338, ("AP", 3, 1): 0.8947, ("nDCG", 4, 2): 0.9804}


@pytest.mark.parametrize("case", HOPELESS)
def test_nobody_keeps_more_and_this_much_is_kept(case):
    """Where the ceiling stands, the mixture of the other program reaches it: both are right."""
    found, sizes = ceiling(*case), sizes_of(*case)
    check_ceiling(*case, found)
    assert found.factor < 1.0
    assert found.factor == pytest.approx(SHARES.get(case, found.factor), abs=5e-5)
    kept = kept_at(sizes, found.worlds.sum(axis=0) @ sizes.observed.T)
    assert kept.factor == pytest.approx(found.factor, abs=1e-6)


@pytest.mark.parametrize("case", [("DCG", 3, 1), ("nDCG", 3, 2), ("P@2", 4, 1)])
def test_where_a_measure_can_be_learned_all_is_kept(case):
    assert ceiling(*case).factor == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("case", [("nDCG", 3, 1), ("AP", 4, 2)])
def test_a_mixture_keeps_its_share_from_everybody_who_looks_so(case):
    """The worst people with this feedback, searched for each ranking by a program of its own."""
    sizes, rng = sizes_of(*case), np.random.default_rng(1)
    for _ in range(4):
        seen = sizes.observed @ rng.dirichlet(np.full(sizes.worth.shape[1], 0.3))
        kept = kept_at(sizes, seen)
        earned = kept.mixture @ sizes.worth
        worst = min(
            linprog(earned - kept.factor * own, A_eq=sizes.observed, b_eq=seen, method="highs").fun
            for own in sizes.worth
        )
        assert worst >= -1e-7
        better = min(
            linprog(earned - (kept.factor + 0.01) * own, A_eq=sizes.observed, b_eq=seen, method="highs").fun
            for own in sizes.worth
        )
        assert better < 0 or kept.factor > 0.99


def test_wrong_certificates_are_refused():
    found = ceiling("nDCG", 3, 1)
    with pytest.raises(InvalidInput, match="earns more than"):
        check_ceiling("nDCG", 3, 1, found._replace(factor=found.factor - 0.01))
    spoiled = found.worlds.copy()
    spoiled[0, 1] += 0.1
    with pytest.raises(InvalidInput, match="apart"):
        check_ceiling("nDCG", 3, 1, found._replace(worlds=spoiled))
    for wrong in (("nDCG", 5, 1), ("SumLoss", 3, 1)):
        with pytest.raises(InvalidInput, match="at most 4 items"):
            sizes_of(*wrong)


def test_estimates_that_nobody_can_have_are_mended():
    sizes = sizes_of("nDCG", 3, 2)
    seen = sizes.observed @ np.full(8, 1 / 8)
    assert nearest_seen(sizes, seen) == pytest.approx(seen)
    impossible = seen.copy()
    impossible[4:] = 0.9  # pairs that are more often relevant together than each alone
    assert 0.0 <= nearest_seen(sizes, impossible)[4] <= nearest_seen(sizes, impossible)[1] + 1e-9


def test_what_is_counted_while_exploring():
    """Over all rankings, hits by times revealed are the probabilities, exactly."""
    learner, rng = ConstantFactor(horizon=10**6), np.random.default_rng(2)
    state = learner.init(Problem(0, n_items=3, depth=2))
    sizes, query = sizes_of("nDCG", 3, 2), Query.of(np.empty((3, 0)))
    users = rng.integers(0, 5, 8)
    for count, grades in zip(users, sizes.game.relevances.astype(float)):
        for _ in range(count):
            for order in map(np.array, permutations(range(3))):
                state = learner.learn(state, query, None, Relevances(order[:2], grades[order[:2]]))
    assert state.hits / state.revealed == pytest.approx(sizes.observed @ users / users.sum())


@pytest.mark.parametrize("which", ["first", "second"])
def test_the_learner_keeps_its_share_in_both_worlds(which):
    stream, horizon = Hopeless(measure="nDCG", which=which), 4000
    learner, sizes = ConstantFactor(horizon=horizon), sizes_of("nDCG", 3, 1)
    earned, met, last = 0.0, np.zeros(8), None
    exploring = int(np.ceil(horizon ** (2 / 3)))
    for round in play(learner, stream, TopK(depth=1), horizon=horizon, seed=4):
        if round.t >= exploring:
            earned += learner.measure(round.decision.ranking, round.relevance)
            met[int(round.relevance @ [4, 2, 1])] += 1
        last = round.learned
    assert last.factor > ceiling("nDCG", 3, 1).factor - 0.01
    assert last.mixture.sum() == pytest.approx(1.0)
    best = (sizes.worth @ met).max()
    assert earned >= (last.factor - 0.02) * best
    query = Query.of(np.empty((3, 0)))
    probabilities = [np.exp(learner.log_prob(last, query, ranking)) for ranking in sizes.game.rankings]
    assert probabilities == pytest.approx(last.mixture)
