"""Interleaving: fair by enumeration, credit by hand, and the better ranker wins."""

import itertools
import math
import types
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from rankloop import Clicks, InvalidInput, build, spec_of
from rankloop.core.registry import entries
from rankloop.interleaving import Comparison, Interleaving, compare, credit, interleave, multileave
from rankloop.interleaving.base import Mixed
from rankloop.interleaving.methods import _allowed_lists, _draft, _item_credit, _list_probabilities
from tests.feedback import clicks

METHODS = [entry.kind for entry in entries("interleaving")]
MANY = ["team_draft", "probabilistic"]


def handing_out(values):
    """A generator whose `random` gives these values."""
    return types.SimpleNamespace(random=lambda size=None: np.array(values).reshape(size) if size else values)


def drafts(rankings):
    """Every team _draft of these rankings; all are equally likely."""
    n_rankers, n_items = rankings.shape
    rounds = -(-n_items // n_rankers)
    for orders in itertools.product(itertools.permutations(range(n_rankers)), repeat=rounds):
        yield build("team_draft", "interleaving").mix(rankings, handing_out(np.array(orders, dtype=float)))


def probability_of_list(ranking, rankings, decay=3.0):
    """P(list) of probabilistic interleaving: place by place the mean of the rankers' softmaxes over what is left."""
    total, left = 1.0, set(ranking)
    for item in ranking:
        shares = []
        for one in rankings:
            weight = {i: (list(one).index(i) + 1) ** -decay for i in left}
            shares.append(weight[item] / sum(weight.values()))
        total *= np.mean(shares)
        left.remove(item)
    return total


@pytest.mark.parametrize("method", METHODS)
def test_spec_protocol_and_permutations(method):
    thing = build(method, "interleaving")
    assert isinstance(thing, Interleaving)
    assert build(spec_of(thing), "interleaving") == thing
    rng = default_rng(0)
    for n_items in (1, 2, 3, 15):
        for _ in range(10):
            mixed = interleave(method, rng.permutation(n_items), rng.permutation(n_items), rng)
            assert sorted(mixed.ranking) == list(range(n_items))


@pytest.mark.parametrize("method", ["balanced", "probabilistic", "optimised"])
def test_a_ranker_against_itself_always_ties(method):
    rng, ranking = default_rng(1), np.array([2, 0, 3, 1, 4])
    for _ in range(20):
        mixed = interleave(method, ranking, ranking, rng)
        if method != "probabilistic":
            assert mixed.ranking.tolist() == ranking.tolist()
        clicked = clicks(np.flatnonzero(rng.random(5) < 0.5))
        earned = credit(method, mixed, clicked)
        assert earned[0] == pytest.approx(earned[1], abs=1e-12)


@pytest.mark.parametrize("rankings", [[[0, 1, 2, 3]] * 2, [[1, 0, 2]] * 3])
def test_a_ranker_against_itself_is_fair_in_team_draft(rankings):
    rankings = np.array(rankings)
    for clicked in itertools.product((0, 1), repeat=rankings.shape[1]):
        click = clicks(np.flatnonzero(clicked))
        earned = np.mean([credit("team_draft", mixed, click) for mixed in drafts(rankings)], axis=0)
        np.testing.assert_allclose(earned, sum(clicked) / len(rankings))


@pytest.mark.parametrize("rankings", [[[0, 1, 2, 3], [1, 2, 0, 3]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]]])
def test_team_draft_is_fair_to_blind_clicks(rankings):
    """A click on a place, whatever is there, earns every ranker the same in expectation (places of full rounds)."""
    rankings = np.array(rankings)
    mixes = list(drafts(rankings))
    for position in range(rankings.shape[1] // len(rankings) * len(rankings)):
        earned = np.mean([credit("team_draft", m, clicks(m.ranking[position : position + 1])) for m in mixes], axis=0)
        np.testing.assert_allclose(earned, 1 / len(rankings))


@pytest.mark.parametrize("rankings", [[[0, 1, 2, 3], [1, 2, 0, 3]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]]])
def test_probabilistic_is_fair_to_blind_clicks(rankings):
    rankings, method = np.array(rankings), build("probabilistic", "interleaving")
    n_rankers, n_items = rankings.shape
    earned, total = np.zeros((n_items, n_rankers)), 0.0
    for ranking in itertools.permutations(range(n_items)):
        probability = probability_of_list(ranking, rankings)
        total += probability
        mixed = multileave(method, rankings, default_rng(0))._replace(ranking=np.array(ranking))
        for position, item in enumerate(ranking):
            earned[position] += probability * method.credit(mixed, clicks([item]))
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(earned, 1 / n_rankers)


def test_probabilistic_lists_have_their_probability():
    rankings, rng, draws = np.array([[0, 1, 2], [2, 0, 1]]), default_rng(3), 4000
    counts = {}
    for _ in range(draws):
        ranking = tuple(interleave("probabilistic", *rankings, rng).ranking.tolist())
        counts[ranking] = counts.get(ranking, 0) + 1
    for ranking in itertools.permutations(range(3)):
        probability = probability_of_list(ranking, rankings)
        assert abs(counts.get(ranking, 0) / draws - probability) <= 5 * math.sqrt(
            probability * (1 - probability) / draws
        )


def exact_shares(ranking, rankings, decay):
    """For each place the chances with which the rankers gave its item, in exact arithmetic."""
    left = set(ranking)
    for item in ranking:
        weights = [{i: Fraction(1, (list(one).index(i) + 1) ** decay) for i in left} for one in rankings]
        yield item, [weight[item] / sum(weight.values()) for weight in weights]
        left.remove(item)


@pytest.mark.parametrize("decay", [3, 40, 700, 1000, 5000])
def test_probabilistic_with_ranks_that_hardly_count(decay):
    """1 / rank^decay is too small for a number: the lists and the credit are still those of exact arithmetic."""
    rankings, method = np.array([[0, 1, 2, 3], [3, 1, 0, 2]]), build({"kind": "probabilistic", "decay": decay})
    rng, draws, counts = default_rng(3), 2000, {}
    for _ in range(draws):
        ranking = tuple(method.mix(rankings, rng).ranking.tolist())
        counts[ranking] = counts.get(ranking, 0) + 1
    assert sum(counts.values()) == draws
    for ranking in itertools.permutations(range(4)):
        shares = dict(exact_shares(ranking, rankings, decay))
        probability = float(math.prod(sum(share) / 2 for share in shares.values()))
        assert abs(counts.pop(ranking, 0) / draws - probability) <= 5 * math.sqrt(
            probability * (1 - probability) / draws
        )
        mixed = Mixed(np.array(ranking), rankings, np.full(4, -1))
        for item, share in shares.items():
            expected = [float(part / sum(share)) for part in share]
            np.testing.assert_allclose(method.credit(mixed, clicks([item])), expected, atol=1e-9)
    assert not counts, "only permutations are shown"


def test_probabilistic_with_an_astronomic_decay():
    for decay in (1e10, 1e308):
        method, rankings = build({"kind": "probabilistic", "decay": decay}), np.array([[0, 1, 2, 3], [0, 1, 3, 2]])
        mixed = method.mix(rankings, default_rng(0))
        assert mixed.ranking.tolist() in ([0, 1, 2, 3], [0, 1, 3, 2])
        backwards = mixed._replace(ranking=np.array([3, 2, 1, 0]))
        earned = [method.credit(backwards, clicks([item])) for item in range(4)]
        np.testing.assert_allclose(np.sum(earned, axis=1), 1.0)


@given(st.integers(2, 6), st.data())
def test_optimised_is_fair_to_blind_clicks_and_a_distribution(n_items, data):
    a, b = (np.array(data.draw(st.permutations(range(n_items)))) for _ in range(2))
    lists = _allowed_lists(a, b, n_items)
    assert len({tuple(one) for one in lists}) == len(lists)
    credits = _item_credit(np.stack([a, b]))[lists]
    probabilities = _list_probabilities(credits)
    assert probabilities.min() >= 0
    assert probabilities.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(probabilities @ np.cumsum(credits, axis=1), 0.0, atol=1e-7)


def test_balanced_by_hand():
    """Chapelle et al.: a = (a, b, c), b = (b, c, a); whoever begins, a click is credited up to the lower rank."""
    a, b = [0, 1, 2], [1, 2, 0]
    assert interleave("balanced", a, b, handing_out(0.1)).ranking.tolist() == [0, 1, 2]
    second = interleave("balanced", a, b, handing_out(0.9))
    assert second.ranking.tolist() == [1, 0, 2]
    assert credit("balanced", second, clicks([1])).tolist() == [0.0, 1.0]
    assert credit("balanced", second, clicks([0])).tolist() == [1.0, 0.0]
    assert credit("balanced", second, clicks([0, 2])).tolist() == [1.0, 1.0]
    assert credit("balanced", second, clicks([])).tolist() == [0.0, 0.0]


@given(st.integers(2, 4), st.integers(1, 7), st.data())
def test_team_draft_twin(n_rankers, n_items, data):
    rankings = np.array([data.draw(st.permutations(range(n_items))) for _ in range(n_rankers)])
    rounds = -(-n_items // n_rankers)
    orders = [data.draw(st.permutations(range(n_rankers))) for _ in range(rounds)]
    ranking, teams = _draft(rankings, -np.argsort(orders, axis=1).astype(float))
    picked, pickers = [], []
    for order in orders:
        for ranker in order:
            if len(picked) < n_items:
                picked.append(next(item for item in rankings[ranker] if item not in picked))
                pickers.append(ranker)
    assert ranking.tolist() == picked
    assert teams.tolist() == pickers


@pytest.mark.parametrize("method", METHODS)
def test_the_better_ranker_wins(method):
    rng, relevance = default_rng(4), np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    earned = []
    for _ in range(150):
        mixed = interleave(method, [0, 1, 2, 3, 4, 5], [2, 3, 0, 4, 5, 1], rng)
        hits = [item for item in mixed.ranking if rng.random() < 0.1 + 0.6 * relevance[item]]
        earned.append(credit(method, mixed, clicks(np.array(hits, dtype=int))))
    result = compare(earned)
    assert result.wins > result.losses
    assert result.p_value < 1e-3
    assert result.interval()[0] > 1.0


@pytest.mark.parametrize("method", MANY)
def test_multileaving_orders_three_rankers(method):
    rng, total = default_rng(5), np.zeros(3)
    for _ in range(300):
        mixed = multileave(method, [[0, 1, 2, 3], [1, 2, 0, 3], [3, 2, 1, 0]], rng)
        hits = np.flatnonzero(rng.random(4) < [0.8, 0.4, 0.2, 0.0])
        total += credit(method, mixed, clicks(hits))
    assert total[0] > total[1] > total[2]


def test_comparison_by_arithmetic():
    outcome = compare([np.array([1.0, 0.0])] * 8 + [np.array([1.0, 1.0])] * 3 + [np.array([0.0, 2.0])] * 2)
    assert outcome == Comparison(wins=8, ties=3, losses=2)
    assert outcome.win_ratio == 8 / 2
    assert outcome.p_value == pytest.approx(2 * (1 + 10 + 45) / 2**10)  # 8, 9 or 10 of 10, both sides
    low, high = outcome.interval()
    assert low < 4 < high
    share = low / (1 + low)  # P(at least 8 of 10) at the lower end is 2.5 %
    assert sum(math.comb(10, k) * share**k * (1 - share) ** (10 - k) for k in (8, 9, 10)) == pytest.approx(0.025)
    assert Comparison(0, 5, 0).p_value == 1.0
    assert math.isnan(Comparison(0, 5, 0).win_ratio)
    assert Comparison(3, 0, 0).interval()[1] == math.inf


@pytest.mark.parametrize("confidence", [95, 1.0, 0.0, -0.5, math.nan])
def test_a_confidence_that_is_no_share_is_refused(confidence):
    with pytest.raises(InvalidInput, match="confidence"):
        Comparison(10, 0, 5).interval(confidence)


def test_wrong_rankings_are_refused():
    rng = default_rng(0)
    with pytest.raises(InvalidInput, match="ranking 1"):
        interleave("team_draft", [0, 1], [0, 0], rng)
    with pytest.raises(InvalidInput, match="two rankings"):
        multileave("balanced", [[0, 1]] * 3, rng)
    with pytest.raises(InvalidInput, match="at least two"):
        multileave("team_draft", [[0, 1]], rng)
    with pytest.raises(InvalidInput, match="length"):
        build({"kind": "optimised", "length": 40})
    assert credit("team_draft", interleave("team_draft", [0], [0], rng), Clicks(np.array([0]), np.ones(1))).sum() == 1
