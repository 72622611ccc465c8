"""Constant-factor regret against an adversary: both bounds of the share, every step of the proof, and a game."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Problem, Query, Relevances
from rankloop.games.game import Game, measure_for
from research.games.adversarial_factor import (
    AdversarialConstantFactor,
    check_enclosure,
    enclose_factor,
    regret_bound,
)
from research.games.constant_factor import ConstantFactor, ceiling

CASES = [("nDCG", 3), ("AP", 3), ("nDCG", 4), ("AP", 4), ("AUC", 4)]
GAP = 0.01


def worth_of(measure, n_items):
    """Worth of every ranking for every relevance but the empty one, computed anew."""
    game = Game(measure=measure_for(measure, 1), n_items=n_items)
    relevances = game.relevances[1:].astype(float)
    worth = np.array([[game.measure(ranking, relevance) for relevance in relevances] for ranking in game.rankings])
    return relevances, np.nan_to_num(worth)


def least_kept(earned, worth, relevances, marginals, factor):
    """The least of (earned − factor·worth_τ)·p over rankings τ and users p with these marginals."""
    return min(linprog(earned - factor * own, A_eq=relevances.T, b_eq=marginals, method="highs").fun for own in worth)


@pytest.mark.parametrize(("measure", "n_items"), CASES)
def test_floor_and_ceiling_enclose_the_share(measure, n_items):
    enclosure = enclose_factor(measure, n_items, GAP)
    check_enclosure(measure, enclosure)
    assert enclosure.ceiling - GAP <= enclosure.floor <= enclosure.ceiling
    # The bound of the other search, over users of equal mass, is one of the upper bounds.
    assert enclosure.floor <= ceiling(measure, n_items, 1).factor + 1e-9


@pytest.mark.parametrize(("measure", "n_items"), [("nDCG", 3), ("AUC", 4)])
def test_the_mixture_of_a_cell_keeps_the_floor_from_everybody(measure, n_items):
    """Marginals are drawn at random; the worst users with these marginals are found by programs of their own."""
    enclosure, rng = enclose_factor(measure, n_items, GAP), np.random.default_rng(0)
    relevances, worth = worth_of(measure, n_items)
    for _ in range(5):
        marginals = np.sort(rng.dirichlet(np.full(n_items, 0.7)))[::-1]
        holding = [cell for cell in enclosure.cells if np.linalg.solve(cell.corners.T, marginals).min() >= -1e-12]
        assert holding, "the cells cover all sorted marginals"
        earned = holding[0].mixture @ worth
        assert least_kept(earned, worth, relevances, marginals, enclosure.floor) >= -1e-7


@pytest.mark.parametrize("measure", ["nDCG", "AP"])
def test_no_mixture_keeps_more_than_the_ceiling(measure):
    enclosure, rng = enclose_factor(measure, 3, GAP), np.random.default_rng(1)
    relevances, worth = worth_of(measure, 3)
    mixtures = [*rng.dirichlet(np.full(6, 0.5), size=20), np.full(6, 1 / 6), *np.eye(6)]
    for mixture in mixtures:
        kept = least_kept(mixture @ worth, worth, relevances, enclosure.hardest, enclosure.ceiling + 1e-4)
        assert kept < 0.0


def test_wrong_enclosures_are_refused():
    enclosure = enclose_factor("nDCG", 3, GAP)
    cell, *others = enclosure.cells
    spoiled = [
        (enclosure._replace(cells=tuple(others)), "fill"),
        (enclosure._replace(cells=(others[0], *others)), "fill"),  # one twice and one missing
        (enclosure._replace(users=enclosure.users[:, ::-1].copy()), "apart"),
        (enclosure._replace(ceiling=enclosure.ceiling - 1e-4), "some ranking earns"),
        (enclosure._replace(floor=enclosure.ceiling + 0.01), "keeps less"),
        (enclosure._replace(cells=(cell._replace(mixture=cell.mixture[::-1].copy()), *others)), "keeps less"),
        (enclosure._replace(cells=(cell._replace(mixture=cell.mixture * 1.1), *others)), "distribution"),
        (enclosure._replace(cells=(cell._replace(multipliers=cell.multipliers - 1.0), *others)), "negative"),
        (enclosure._replace(cells=(cell._replace(corners=cell.corners[:, ::-1].copy()), *others)), r"negative|leaves"),
    ]
    for wrong, reason in spoiled:
        with pytest.raises(InvalidInput, match=reason):
            check_enclosure("nDCG", wrong)
    with pytest.raises(InvalidInput, match="at most 5 items"):
        enclose_factor("nDCG", 6)
    with pytest.raises(InvalidInput, match="first item"):
        AdversarialConstantFactor(exploration=0.1).init(Problem(0, n_items=3, depth=2))


def test_no_relevance_moves_the_sums_away_on_average():
    """Blackwell's condition, for every relevance; and the distance grows by at most the squared estimates."""
    learner, rng = AdversarialConstantFactor(exploration=0.2), np.random.default_rng(2)
    state = learner.init(Problem(0, n_items=3, depth=1))
    relevances = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    for _ in range(40):
        drift = relevances @ (state.forecast @ state.outside)
        assert drift.max() <= 1e-7 * max(1.0, np.abs(state.outside).max())
        cell, estimate = int(rng.choice(len(state.forecast), p=state.forecast)), 15.0 * np.eye(3)[rng.integers(3)]
        after = learner.updated(state, cell, estimate)
        allowed = np.sum(state.outside**2) + 2.0 * state.outside[cell] @ estimate + estimate @ estimate
        assert np.sum(after.outside**2) <= allowed + 1e-6
        state = after


def test_estimates_are_unbiased():
    learner = AdversarialConstantFactor(exploration=0.25)
    query, grades = Query.of(np.empty((3, 0))), np.array([1.0, 0.0, 1.0])
    state = learner.init(Problem(0, n_items=3, depth=1))
    decision, total = learner.rank(state, query, np.random.default_rng(3)), np.zeros(3)
    for top in range(3):
        explored = decision._replace(receipt=decision.receipt._replace(explored=True))
        after = learner.learn(state, query, explored, Relevances(np.array([top]), grades[[top]]))
        total += 0.25 / 3 * after.sums[decision.receipt.cell]
    assert total == pytest.approx(grades)


@pytest.mark.parametrize("exploration", [0.05, 0.5])
def test_estimates_have_the_second_moment_of_the_proof(exploration):
    """Step 1: E‖z̃‖² = (m/γ)·Σ r_i, which is at most m²/γ, and equal to it if everything is relevant."""
    learner, query = AdversarialConstantFactor(exploration=exploration), Query.of(np.empty((3, 0)))
    state = learner.init(Problem(0, n_items=3, depth=1))
    decision = learner.rank(state, query, np.random.default_rng(6))
    explored = decision._replace(receipt=decision.receipt._replace(explored=True))
    for grades in itertools.product((0.0, 1.0), repeat=3):
        after = [
            learner.learn(state, query, explored, Relevances(np.array([i]), np.array([grades[i]]))) for i in range(3)
        ]
        moment = exploration / 3 * sum(float(np.sum(each.sums**2)) for each in after)
        assert moment == pytest.approx(3 / exploration * sum(grades))
        assert moment <= 9 / exploration + 1e-9


@pytest.mark.parametrize(("measure", "n_items"), [("nDCG", 3), ("AP", 3), ("AUC", 4)])
def test_what_is_lost_is_at_most_the_distance_from_the_cells(measure, n_items):
    """Steps 4 and 5, for any sequence and any forecast of cells: lost_τ ≤ −Σ y_(C,τ)·U_C ≤ Y·√N·√D."""
    enclosure, rng = enclose_factor(measure, n_items, GAP), np.random.default_rng(7)
    relevances, worth = worth_of(measure, n_items)
    cells = enclosure.cells
    longest = max(np.linalg.norm(cell.multipliers, axis=1).max() for cell in cells)
    closest = -np.inf
    for _ in range(20):
        law = rng.dirichlet(np.full(len(relevances), 0.2))
        rounds = rng.choice(len(relevances), size=60, p=law)
        forecasts = rng.integers(len(cells), size=60)
        sums, lost = np.zeros((len(cells), n_items)), np.zeros(len(worth))
        for relevance, number in zip(rounds, forecasts):
            sums[number] += relevances[relevance]
            lost += enclosure.floor * worth[:, relevance] - cells[number].mixture @ worth[:, relevance]
        by_multipliers = -sum(cell.multipliers @ total for cell, total in zip(cells, sums))
        distances = [nnls(cell.corners.T, total)[1] for cell, total in zip(cells, sums)]
        allowed = longest * np.sqrt(len(cells)) * np.linalg.norm(distances)
        assert (lost <= by_multipliers + 1e-6).all()
        assert (by_multipliers <= allowed + 1e-6).all()
        closest = max(closest, float(lost.max()))
    assert closest > 0.0  # a bad forecast loses, so the bound is not empty


@pytest.mark.parametrize("measure", ["nDCG", "AP"])
def test_the_page_prints_shares_that_are_enclosed(measure):
    page = (Path(__file__).parents[3] / "docs" / "theory" / "constant-factor.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith(f"| {measure} |")]
    for n_items, gap in ((3, 0.0005), (4, 0.001)):
        low, high = map(float, row.split("|")[n_items - 1].split(" to "))
        enclosure = enclose_factor(measure, n_items, gap)
        check_enclosure(measure, enclosure)
        assert low <= enclosure.floor <= enclosure.ceiling <= high


def share_kept(learner, sequence, seed):
    """Expected worth of the learner by that of the best fixed ranking."""
    relevances, worth = worth_of("nDCG", 3)
    column = {tuple(relevance): number for number, relevance in enumerate(relevances)}
    state, query = learner.init(Problem(0, n_items=3, depth=1)), Query.of(np.empty((3, 0)))
    earned, others, rng = 0.0, np.zeros(6), np.random.default_rng(seed)
    for relevance in sequence:
        mixture = learner.mixture(state) if isinstance(learner, AdversarialConstantFactor) else state.mixture
        earned += float(mixture @ worth[:, column[tuple(relevance)]])
        others += worth[:, column[tuple(relevance)]]
        decision = learner.rank(state, query, rng)
        top = decision.ranking[:1]
        state = learner.learn(state, query, decision, Relevances(top, relevance[top]))
    return earned / others.max()


def test_an_adversary_who_turns_is_followed():
    """The first item alone, then the others: exploring once and trusting it loses, forecasting does not."""
    rounds = 3000
    first, rest = np.array([1.0, 0.0, 0.0]), np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    sequence = [first if t < rounds // 5 else rest[t % 2] for t in range(rounds)]
    learner = AdversarialConstantFactor(exploration=0.1)
    floor = learner.cells(3).factor
    assert share_kept(learner, sequence, 4) > floor
    assert share_kept(ConstantFactor(horizon=rounds), sequence, 4) < floor - 0.1


def test_the_bound_grows_as_the_theorem_says():
    assert regret_bound("nDCG", 3, 8000) == pytest.approx(4 * regret_bound("nDCG", 3, 1000))
    assert regret_bound("nDCG", 3, 10**6) < 0.2 * 10**6


def test_probabilities_are_those_of_the_draws():
    learner, query = AdversarialConstantFactor(exploration=0.3), Query.of(np.empty((3, 0)))
    state = learner.init(Problem(0, n_items=3, depth=1))
    state = learner.updated(state, 3, np.array([10.0, 0.0, 0.0]))
    rankings = list(map(np.array, itertools.permutations(range(3))))
    assert sum(np.exp(learner.log_prob(state, query, ranking)) for ranking in rankings) == pytest.approx(1.0)
    rng = np.random.default_rng(5)
    decisions = [learner.rank(state, query, rng) for _ in range(3000)]
    for ranking in rankings:
        share = np.mean([(decision.ranking == ranking).all() for decision in decisions])
        assert share == pytest.approx(np.exp(learner.log_prob(state, query, ranking)), abs=0.04)
