"""Probabilities and posteriors of tiny pages, against the sum over everything that people may have done unseen."""

import itertools
import math

import numpy as np
import pytest

from rankloop.click_models.base import Fitted, Prior
from rankloop.click_models.dbn import _expect
from rankloop.click_models.likelihood import alone, given_clicks_above, log_likelihood, perplexity
from rankloop.click_models.page_log import page_log
from rankloop.click_models.pbm import fit_pbm

ATTRACTION = np.array([0.3, 0.6, 0.45])
SATISFACTION = np.array([0.2, 0.7, 0.5])
TABLE = np.array([[1.0, 1, 1], [0.7, 0.9, 1], [0.5, 0.8, 0.6]])
STOP = np.array([0.3, 0.5, 0.6])
N = 3
ORDER = [2, 0, 1]  # which pair stands where


def fitted(model):
    table = TABLE if model == "ubm" else TABLE[:, :1] if model == "pbm" else np.ones((N, 1))
    stop = {"cascade": np.ones(N), "dcm": STOP}.get(model, np.zeros(N))
    persistence = 0.85 if model == "dbn" else 1.0
    none = np.zeros(N)
    satisfaction = SATISFACTION if model in ("sdbn", "dbn") else none
    return Fitted(model, ATTRACTION, satisfaction, table, stop, persistence, none, none, Prior(none, 0.0))


def log_of(patterns):
    offsets = np.arange(len(patterns) + 1) * N
    names = [str(item) for item in ORDER] * len(patterns)
    log = page_log(
        offsets, np.tile(np.arange(N), len(patterns)), np.array(patterns, float).ravel(), [""] * len(names), names
    )
    return log._replace(pair=np.array(ORDER * len(patterns)), items=tuple("012"), query_ids=("",) * 3)


def histories(model):
    """Everything that may happen on a page: (probability, examined, clicked, satisfied)."""
    people = fitted(model)
    for examined, attracted, satisfied, patient in itertools.product(itertools.product((0, 1), repeat=N), repeat=4):
        probability, going, last = 1.0, 1, None
        clicks = [e * a for e, a in zip(examined, attracted)]
        for p in range(N):
            pair = ORDER[p]
            a, s, g = ATTRACTION[pair], people.stop_after(np.array([pair]), np.array([p]))[0], people.persistence
            if model in ("pbm", "ubm"):
                way = 0 if last is None else p - last
                e = people.examination[p, min(way, people.examination.shape[1] - 1)]
                probability *= e if examined[p] else 1 - e
                probability *= 1.0 if not satisfied[p] and not patient[p] else 0.0
            else:
                probability *= examined[p] == going
                probability *= (s if satisfied[p] else 1 - s) if clicks[p] else not satisfied[p]
                probability *= g if patient[p] else 1 - g
            probability *= a if attracted[p] else 1 - a
            if clicks[p]:
                last = p
            going = int(examined[p] and not satisfied[p] and patient[p])
            if not probability:
                break
        if probability:
            yield probability, examined, tuple(clicks), satisfied


@pytest.mark.parametrize("model", ["pbm", "ubm", "cascade", "dcm", "sdbn", "dbn"])
def test_probabilities_are_sums_over_all_histories(model):
    every = list(histories(model))
    assert sum(probability for probability, *_ in every) == pytest.approx(1.0)
    patterns = list(itertools.product((0, 1), repeat=N))
    log = log_of(patterns)
    people = fitted(model)
    whole = {pattern: sum(p for p, _, clicks, _ in every if clicks == pattern) for pattern in patterns}
    possible = [number for number, pattern in enumerate(patterns) if whole[pattern] > 1e-12]
    found = np.exp(log_likelihood(log, people))
    np.testing.assert_allclose(found[possible], [whole[patterns[number]] for number in possible], rtol=1e-5)
    if model == "cascade":
        assert len(possible) == N + 1
    marginal = [sum(p for p, _, clicks, _ in every if clicks[position]) for position in range(N)]
    np.testing.assert_allclose(alone(log, people)[:N], marginal, rtol=1e-9)
    first = given_clicks_above(log, people)[::N]
    np.testing.assert_allclose(first, marginal[0])


def test_what_dbn_expects_is_what_all_histories_say():
    every, people = list(histories("dbn")), fitted("dbn")
    for pattern in itertools.product((0, 1), repeat=N):
        log, sums = log_of([pattern]), np.zeros((4, N))
        total, could, did = _expect(
            log.offsets, log.pair, log.clicked, people.attraction, people.satisfaction, people.persistence, sums
        )
        own = [(p, examined, satisfied) for p, examined, clicks, satisfied in every if clicks == pattern]
        whole = sum(p for p, *_ in own)
        assert total == pytest.approx(math.log(whole))
        examined = sum(p * np.array(e) for p, e, _ in own) / whole
        np.testing.assert_allclose(sums[1][ORDER], examined, rtol=1e-9)
        satisfied = sum(p * np.array(s) for p, _, s in own) / whole
        np.testing.assert_allclose(sums[3][ORDER][:-1], satisfied[:-1] * np.array(pattern)[:-1], atol=1e-12)
        np.testing.assert_array_equal(sums[2][ORDER], [*pattern[:-1], 0])
        went = sum(p * sum(e[1:]) for p, e, _ in own) / whole
        free = sum(p * sum(e[r] and not s[r] for r in range(N - 1)) for p, e, s in own) / whole
        assert (could, did) == (pytest.approx(free), pytest.approx(went))


def test_one_round_of_pbm_by_hand():
    """Two pages of two rows: e = (1, 0.6), a = (0.5, 0.5); page 1 clicks pair 0 on top, page 2 nothing."""
    log = page_log(
        np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1.0, 0, 0, 0]), ["q"] * 4, ["a", "b", "b", "a"]
    )
    fitted = fit_pbm(log, Prior(np.array([0.5, 0.5]), 0.0), max_rounds=1)
    hidden = 0.3 * 0.5 / (1 - 0.3 * 0.5)  # examined though not clicked, at the second position: e starts at 0.3
    assert fitted.attraction.tolist() == pytest.approx([1 / (1 + hidden), 1e-6])
    assert fitted.examination[:, 0].tolist() == pytest.approx([1.0, (2 * hidden + 0.5) / (2 + 1)])
    expected = math.log(0.5) + math.log(0.5) + 2 * math.log(1 - 0.15) + 0.5 * (math.log(0.3) + math.log(0.7))
    assert fitted.objectives == (pytest.approx(expected),)


def test_perplexity_is_2_to_the_mean_surprise():
    log = log_of([(1, 0, 0), (0, 0, 0)])
    first = ATTRACTION[ORDER[0]]
    by_position = perplexity(log, fitted("pbm"))
    assert by_position[0] == pytest.approx(2 ** (-(math.log2(first) + math.log2(1 - first)) / 2))
    assert by_position[1] == pytest.approx(1 / (1 - TABLE[1, 0] * ATTRACTION[ORDER[1]]))
