"""What every click model promises: probabilities by enumeration, draws that follow them, and numbers found again."""

import itertools
import math

import numpy as np
import pytest

from rankloop.click_models.base import (
    ALIKE_ROWS,
    ClickModel,
    Prior,
    rows_of,
)
from rankloop.click_models.models import MODELS, _expect
from rankloop.core.registry import build, spec_of
from rankloop.logs.list_log import ClickArrays
from tests.click_models.worlds import PEOPLE, world

ATTRACTION = np.array([0.3, 0.6, 0.45])
NUMBERS = {
    "satisfaction": np.array([0.2, 0.7, 0.5]),
    "examination": np.array([[1.0, 1, 1], [0.7, 0.9, 1], [0.5, 0.8, 0.6]]),
    "stop": np.array([0.3, 0.5, 0.6]),
    "persistence": 0.85,
}
N = 3
ORDER = [2, 0, 1]  # which pair stands where
PATTERNS = list(itertools.product((0, 1), repeat=N))
N_DRAWN_PAGES = 20_000


def model_of(name: str) -> ClickModel:
    """Every model with the numbers that it has; pbm has the first column of the table."""
    numbers = {number: NUMBERS[number] for number in MODELS[name].numbers}
    if name == "pbm":
        numbers["examination"] = np.ascontiguousarray(NUMBERS["examination"][:, :1])
    return MODELS[name](attraction=ATTRACTION, **numbers)


def log_of(patterns):
    offsets = np.arange(len(patterns) + 1) * N
    names = [str(item) for item in ORDER] * len(patterns)
    position = np.tile(np.arange(N), len(patterns))
    log = ClickArrays.of(offsets, position, np.array(patterns, float).ravel(), [""] * len(names), names)
    return log._replace(pair=np.array(ORDER * len(patterns)), items=tuple("012"), query_ids=("",) * 3)


def stop_of(name, pair, position):
    """P(stop | click), by the definition of each model."""
    by_name = {"cascade": 1.0, "dcm": NUMBERS["stop"][position], "pbm": 0.0, "ubm": 0.0}
    return by_name.get(name, NUMBERS["satisfaction"][pair])


def histories(name):
    """Everything that may happen on a page: (probability, examined, clicked, satisfied)."""
    table, patience = model_of(name).examination, 0.85 if name == "dbn" else 1.0
    for examined, attracted, satisfied, patient in itertools.product(PATTERNS, repeat=4):
        probability, going, last = 1.0, 1, None
        clicks = [e * a for e, a in zip(examined, attracted)]
        for p in range(N):
            a, s = ATTRACTION[ORDER[p]], stop_of(name, ORDER[p], p)
            if name in ("pbm", "ubm"):
                distance = 0 if last is None else p - last
                e = table[p, min(distance, table.shape[1] - 1)]
                probability *= e if examined[p] else 1 - e
                probability *= 1.0 if not satisfied[p] and not patient[p] else 0.0
            else:
                probability *= examined[p] == going
                probability *= (s if satisfied[p] else 1 - s) if clicks[p] else not satisfied[p]
                probability *= patience if patient[p] else 1 - patience
            probability *= a if attracted[p] else 1 - a
            if clicks[p]:
                last = p
            going = int(examined[p] and not satisfied[p] and patient[p])
            if not probability:
                break
        if probability:
            yield probability, examined, tuple(clicks), satisfied


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_sums_over_all_histories(name):
    every, model, log = list(histories(name)), model_of(name), log_of(PATTERNS)
    assert sum(probability for probability, *_ in every) == pytest.approx(1.0)
    of_pattern = {pattern: sum(p for p, _, clicks, _ in every if clicks == pattern) for pattern in PATTERNS}
    possible = [number for number, pattern in enumerate(PATTERNS) if of_pattern[pattern] > 1e-12]
    assert len(possible) == (N + 1 if name == "cascade" else len(PATTERNS))
    likelihoods = np.exp(model.log_likelihood(log))
    np.testing.assert_allclose(likelihoods[possible], [of_pattern[PATTERNS[page]] for page in possible], rtol=1e-5)
    anyhow, given = model.probabilities(log), model.probabilities(log, given_clicks=True)
    for position in range(N):
        examined = sum(p for p, examined, _, _ in every if examined[position])
        clicked = sum(p for p, _, clicks, _ in every if clicks[position])
        np.testing.assert_allclose(anyhow.examined[position::N], examined, rtol=1e-9)
        np.testing.assert_allclose(anyhow.clicked[position::N], clicked, rtol=1e-9)
        for page in possible:
            above = PATTERNS[page][:position]
            alike = [(p, e, c) for p, e, c, _ in every if c[:position] == above]
            total = sum(p for p, *_ in alike)
            row = page * N + position
            assert given.examined[row] == pytest.approx(sum(p for p, e, _ in alike if e[position]) / total)
            assert given.clicked[row] == pytest.approx(sum(p for p, _, c in alike if c[position]) / total)


@pytest.mark.parametrize("name", MODELS)
def test_drawn_clicks_are_as_frequent_as_they_are_probable(name):
    model, rng = model_of(name), np.random.default_rng(3)
    counts = dict.fromkeys(PATTERNS, 0)
    for draws in rng.random((N_DRAWN_PAGES, 3, N)):
        counts[tuple(model.observe(np.array(ORDER), draws).tolist())] += 1
    probabilities = np.exp(model.log_likelihood(log_of(PATTERNS)))
    for pattern, probability in zip(PATTERNS, probabilities):
        margin = 4 * math.sqrt(probability * (1 - probability) / N_DRAWN_PAGES)
        assert counts[pattern] / N_DRAWN_PAGES == pytest.approx(probability, abs=margin + 2e-6)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.browsing])
def test_browsers_need_one_number_per_position(name):
    draws = np.random.default_rng(0).random((200, 3, N))
    model = model_of(name)
    for page in draws:
        np.testing.assert_array_equal(
            model.observe(np.array(ORDER), page),
            model.observe(np.array(ORDER), np.ascontiguousarray(page[:1])),
        )


@pytest.fixture(scope="module")
def logs():
    return {name: world(users) for name, users in PEOPLE.items()}


@pytest.fixture(scope="module")
def fits(logs):
    return {name: MODELS[name].fit(log) for name, (log, _) in logs.items()}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_found_again_in_a_simulated_log(logs, fits, name):
    truth, fitted = logs[name][1], fits[name]
    frequent = fitted.evidence.examined > 60
    assert frequent.sum() > 40
    assert np.abs(fitted.attraction - truth)[frequent].mean() < 0.05
    assert 1.5 < fitted.evidence.prior.rows < 10  # the pairs were drawn as if 4 rows had been seen
    users = PEOPLE[name]
    if name == "pbm":
        np.testing.assert_allclose(fitted.examination[:, 0], [1, 0.6, 0.4, 0.3, 0.2, 0.1], atol=0.05)
    if name == "ubm":
        for position, distance in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]:
            true = users.examination[position][distance]
            assert fitted.examination[position, distance] == pytest.approx(true, abs=0.1)
    if name == "dcm":
        np.testing.assert_allclose(fitted.stop[:2], users.stop[:2], atol=0.12)
        assert (fitted.stop[:4] > users.stop).all()  # the known bias of its closed form
    if name in ("sdbn", "dbn"):
        attraction, satisfaction = fitted.levels()
        true = np.interp(attraction, users.attraction, users.satisfaction)
        if name == "sdbn":
            assert (satisfaction > true).all()  # the known bias of its closed form
        else:
            np.testing.assert_allclose(satisfaction, true, atol=0.25)  # drawn together, as alike as they seem
            clicks, each = fitted.evidence.clicks, np.interp(truth, users.attraction, users.satisfaction)
            assert np.average(fitted.satisfaction - each, weights=clicks) == pytest.approx(0.0, abs=0.06)
            assert fitted.persistence == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_fitted_is_a_spec_of_users_who_click_alike(logs, fits, name):
    log, fitted = logs[name][0], fits[name]
    users = build(fitted.spec(), "feedback")
    assert build(spec_of(users), "feedback") == users
    assert (users.shown, users.by_grade) == (6, True)
    assert sorted(users.attraction) == list(users.attraction)
    by_relevance = build(fitted.spec(by_grade=False), "feedback")
    page = log.pages(np.array([7]))
    clicked = by_relevance.click_probabilities(page.pair, fitted.attraction)
    margin = 0.1 if "satisfaction" in fitted.numbers else 1e-5  # satisfaction is that of the levels
    np.testing.assert_allclose(clicked, fitted.probabilities(page).clicked, atol=margin)


@pytest.mark.parametrize("name", ["pbm", "ubm", "dbn"])
@pytest.mark.parametrize("rows", [0.0, 3.0])
def test_the_likelihood_never_falls(logs, name, rows):
    log, truth = logs["ubm"]
    objectives = np.array(MODELS[name].fit(log, Prior(np.full(len(truth), 0.3), rows)).evidence.objectives)
    assert len(objectives) > 5
    assert np.diff(objectives).min() > -1e-6


def test_closed_forms_by_hand():
    """Pages a b c: clicks on a and b, on b, on none."""
    clicked = np.array([1.0, 1, 0, 0, 1, 0, 0, 0, 0])
    log = ClickArrays.of(np.array([0, 3, 6, 9]), np.tile([0, 1, 2], 3), clicked, ["q"] * 9, list("abc") * 3)
    flat = Prior(np.full(3, 0.5), 0.0)
    assert MODELS["cascade"].fit(log, flat).attraction.tolist() == pytest.approx([1 / 3, 1 / 2, 1e-6])
    assert MODELS["dcm"].fit(log, flat).attraction.tolist() == pytest.approx([1 / 3, 2 / 3, 1e-6])
    assert MODELS["dcm"].fit(log, flat).stop.tolist() == pytest.approx([0.5 / 2, 2.5 / 3, 0.5 / 1])
    assert MODELS["sdbn"].fit(log, flat).attraction.tolist() == pytest.approx([1 / 3, 2 / 3, 1e-6])
    prior = Prior(np.full(3, 0.5), 2.0)
    assert MODELS["cascade"].fit(log, prior).attraction.tolist() == pytest.approx([2 / 5, 2 / 4, 1 / 3])


def test_what_dbn_expects_is_what_all_histories_say():
    every, model = list(histories("dbn")), model_of("dbn")
    for pattern in PATTERNS:
        log, sums = log_of([pattern]), np.zeros((4, N))
        total, could, did = _expect(model.parameters, rows_of(log), sums)
        alike = [(p, examined, satisfied) for p, examined, clicks, satisfied in every if clicks == pattern]
        probability = sum(p for p, *_ in alike)
        assert total == pytest.approx(math.log(probability))
        examined = sum(p * np.array(e) for p, e, _ in alike) / probability
        np.testing.assert_allclose(sums[1][ORDER], examined, rtol=1e-9)
        satisfied = sum(p * np.array(s) for p, _, s in alike) / probability
        np.testing.assert_allclose(sums[3][ORDER][:-1], satisfied[:-1] * np.array(pattern)[:-1], atol=1e-12)
        np.testing.assert_array_equal(sums[2][ORDER], [*pattern[:-1], 0])
        went = sum(p * sum(e[1:]) for p, e, _ in alike) / probability
        free = sum(p * sum(e[r] and not s[r] for r in range(N - 1)) for p, e, s in alike) / probability
        assert (could, did) == (pytest.approx(free), pytest.approx(went))


def test_surprise_is_in_bits():
    log = log_of([(1, 0, 0)])
    first, second = ATTRACTION[ORDER[0]], 0.7 * ATTRACTION[ORDER[1]]
    bits = model_of("pbm").surprises(log)
    assert bits[:2].tolist() == pytest.approx([-math.log2(first), -math.log2(1 - second)])


def test_noise_makes_all_items_alike():
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 200, 300).astype(float)
    assert Prior.estimated(rng.binomial(rows.astype(int), 0.2).astype(float), rows).rows == ALIKE_ROWS
    shares = rng.beta(2, 8, 300)
    prior = Prior.estimated(rng.binomial(rows.astype(int), shares).astype(float), rows)
    assert prior.rows == pytest.approx(10, rel=0.3)
    assert prior.mean[0] == pytest.approx(0.2, abs=0.02)
    assert Prior.estimated(np.array([1.0, 0.0]), np.array([1.0, 1.0])).rows == ALIKE_ROWS  # one row tells nothing


def test_pairs_are_as_alike_as_their_clicks(logs):
    log, truth = logs["pbm"]
    for name in ("pbm", "dbn"):
        assert 1.5 < MODELS[name].fit(log).evidence.prior.rows < 10
    informed = MODELS["pbm"].fit_alike(log, truth, table=MODELS["pbm"].examination_table(log))
    assert informed.prior_of(log).rows > 100  # nothing is left to explain
    shuffled = log._replace(pair=np.random.default_rng(0).permutation(log.pair))
    assert MODELS["pbm"].fit(shuffled).evidence.prior.rows == ALIKE_ROWS
