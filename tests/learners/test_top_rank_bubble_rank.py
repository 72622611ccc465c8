"""BubbleRank: the paper's algorithm line by line beside ours, probabilities by enumeration, a list that improves."""

import itertools
import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop import InvalidInput, Problem, Query
from rankloop.learners.top_rank import BubbleRank
from tests.feedback import clicks


class Transcription:
    """Algorithm 1 of Li et al. (2019), positions counting from 1; what is below the seen part is never clicked."""

    def __init__(self, base, delta):
        self.base, self.log, self.t = list(base), math.log(1 / delta), 0
        self.s = dict.fromkeys(itertools.product(base, base), 0)
        self.n = dict.fromkeys(itertools.product(base, base), 0)

    def width(self, i, j):
        return 2 * math.sqrt(self.n[i, j] * self.log)

    def at(self, k, ranking):
        return ranking[k - 1]

    def pairs(self):
        """(2k − 1 + h, 2k + h) for k = 1 … ⌊(K − h) / 2⌋."""
        h = self.t % 2
        return [(2 * k - 1 + h, 2 * k + h) for k in range(1, (len(self.base) - h) // 2 + 1)]

    def show(self, exchange):
        """`exchange(k)`: whether the k-th free pair is exchanged, by the toss of a coin."""
        self.t += 1
        shown = list(self.base)
        for number, (upper, lower) in enumerate(self.pairs()):
            i, j = self.at(upper, self.base), self.at(lower, self.base)
            if self.s[i, j] <= self.width(i, j) and exchange(number):
                shown[upper - 1], shown[lower - 1] = j, i
        return shown

    def learn(self, shown, clicked):
        for upper, lower in self.pairs():
            i, j = self.at(upper, shown), self.at(lower, shown)
            if abs((i in clicked) - (j in clicked)) == 1:
                self.s[i, j] += (i in clicked) - (j in clicked)
                self.s[j, i] += (j in clicked) - (i in clicked)
                self.n[i, j] += 1
                self.n[j, i] += 1
        for k in range(1, len(self.base)):
            i, j = self.at(k, self.base), self.at(k + 1, self.base)
            if self.s[j, i] > self.width(j, i):
                self.base[k - 1], self.base[k] = j, i


@pytest.mark.parametrize(("n_items", "shown"), [(1, None), (2, None), (5, None), (6, None), (6, 3), (6, 4)])
def test_the_papers_algorithm(n_items, shown):
    """The same coins and the same clicks give the same lists, round after round."""
    learner, rng, coins = BubbleRank(horizon=3), default_rng(0), default_rng(1)
    attraction = np.linspace(0.05, 0.9, n_items)  # the worst item stands first
    query, state = Query.of(np.empty((n_items, 0))), learner.init(Problem(0, n_items=n_items, shown=shown))
    twin, seen = Transcription(range(n_items), 3.0**-4), shown or n_items
    for t in range(600):
        tossed = default_rng([t, 7]).random(n_items // 2) < 0.5
        decision = learner.rank(state, query, default_rng([t, 7]))
        ranking = twin.show(lambda number, tossed=tossed: tossed[number])
        assert decision.ranking[:seen].tolist() == ranking[:seen]
        clicked = [item for item in ranking[:seen] if coins.random() < attraction[item]]
        twin.learn(ranking, clicked)
        state = learner.learn(state, query, decision, clicks(rng.permutation(np.array(clicked, dtype=np.int64))))
        assert learner.predict(state, query).tolist() == twin.base
    assert n_items == 1 or twin.base != list(range(n_items))


def test_the_list_turns_into_the_best_one():
    learner, rng, attraction = BubbleRank(horizon=10), default_rng(4), np.array([0.1, 0.4, 0.7, 0.95])
    query, state = Query.of(np.empty((4, 0))), learner.init(Problem(0, n_items=4))
    for _ in range(5000):
        decision = learner.rank(state, query, rng)
        hits = rng.random(4) < attraction[decision.ranking] * (0.9, 0.8, 0.7, 0.6)  # upper positions are seen more
        state = learner.learn(state, query, decision, clicks(decision.ranking[hits]))
    assert learner.predict(state, query).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("shown", [None, 1, 2, 3])
@pytest.mark.parametrize("rounds", [0, 1])
def test_the_probability_is_that_of_all_draws(shown, rounds):
    learner, query = BubbleRank(horizon=10), Query.of(np.empty((5, 0)))
    state = learner.init(Problem(0, n_items=5, shown=shown))._replace(rounds=rounds)
    lead, decided = np.zeros((5, 5)), np.zeros((5, 5))
    lead[3, 1], decided[3, 1] = 200.0, 200.0  # 3 is proved better than 1: they stay
    state = state._replace(positions=np.array([4.0, 3.0, 0.0, 2.0, 1.0]), lead=lead, decided=decided)  # 2 4 3 1 0
    counts = {}
    for coins in itertools.product((0.2, 0.7), repeat=2):
        decision = learner.rank(state, query, type("Coins", (), {"random": lambda self, n, c=coins: np.array(c)})())
        counts.setdefault(tuple(decision.ranking[:shown]), []).append(decision.log_propensity)
    total = 0.0
    for ranking in itertools.permutations(range(5)):
        probability = math.exp(learner.log_prob(state, query, np.array(ranking)))
        assert probability == pytest.approx(len(counts.get(ranking[:shown], ())) / 4)
        total += probability
    assert total == pytest.approx(math.factorial(5 - (shown or 5)))
    for seen, log_propensities in counts.items():
        assert np.exp(log_propensities) == pytest.approx(len(log_propensities) / 4), seen


def test_no_item_moves_more_than_one_position_from_the_base_list():
    learner, query, rng = BubbleRank(horizon=2), Query.of(np.empty((7, 0))), default_rng(3)
    state = learner.init(Problem(0, n_items=7))
    for _ in range(300):
        decision = learner.rank(state, query, rng)
        positions = np.argsort(decision.ranking)
        assert np.abs(positions - state.positions).max() <= 1
        state = learner.learn(state, query, decision, clicks(decision.ranking[rng.random(7) < 0.4]))


def test_an_item_below_the_seen_part_rises_into_it():
    """Only item 3 is ever clicked; it begins below the two positions that are seen."""
    learner, query, rng = BubbleRank(horizon=2), Query.of(np.empty((4, 0))), default_rng(0)
    state = learner.init(Problem(0, n_items=4, shown=2))
    swapped = state._replace(positions=np.array([0.0, 1.0, 3.0, 2.0]))
    for _ in range(200):
        decision = learner.rank(swapped, query, rng)
        swapped = learner.learn(swapped, query, decision, clicks([3] if 3 in decision.ranking[:2] else []))
    assert learner.predict(swapped, query).tolist()[0] == 3


def test_bad_parameters_are_refused():
    with pytest.raises(InvalidInput, match="horizon"):
        BubbleRank(horizon=0)
    with pytest.raises(InvalidInput, match="n_items"):
        BubbleRank().init(Problem(n_features=3))
