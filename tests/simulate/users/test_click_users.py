"""Each click model against the probability of every click pattern, computed from its definition."""

import itertools
import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop import InvalidInput
from rankloop.simulate.users.click_users import (
    CLICK_PROBABILITIES,
    EXAMINATION_TABLE,
    STOP_PROBABILITIES,
    Cascade,
    Dcm,
    PositionBased,
    Sdbn,
    Ubm,
)
from rankloop.simulate.users.readers import Adversarial, FirstRelevant, Full, GaussianGrader, NoisyReader

RELEVANCE = np.array([0.0, 1.0, 2.0, 0.0, 1.0])
RANKING = np.array([3, 2, 4, 0, 1])
SEEN = 4
GRADES = RELEVANCE[RANKING[:SEEN]].astype(int)
DRAWS = 4000


def walking_probability(pattern, click, stop, persistence):
    """P(pattern) of a walk from the top: sum over where it ends."""
    total, going = 0.0, 1.0
    for position, hit in enumerate(pattern):
        grade = GRADES[position]
        going *= click[grade] if hit else 1 - click[grade]
        end_here = stop[grade] + (1 - stop[grade]) * (1 - persistence) if hit else 1 - persistence
        if position == len(pattern) - 1:
            end_here = 1.0
        if not any(pattern[position + 1 :]):
            total += going * end_here
        going *= 1 - end_here
    return total


def independent_probability(pattern, probabilities):
    return math.prod(p if hit else 1 - p for hit, p in zip(pattern, probabilities))


def ubm_probability(pattern, click):
    total, last = 1.0, None
    for position, hit in enumerate(pattern):
        looked = EXAMINATION_TABLE[position, 0 if last is None else position - last]
        p = looked * click[GRADES[position]]
        total *= p if hit else 1 - p
        last = position if hit else last
    return total


def first_probability(pattern, accuracy):
    total = 1.0
    for position, hit in enumerate(pattern):
        says_yes = accuracy if GRADES[position] > 0 else 1 - accuracy
        if hit:
            return 0.0 if any(pattern[position + 1 :]) else total * says_yes
        total *= 1 - says_yes
    return total


def reader_probability(pattern, noise, most):
    total, left = 1.0, most
    for position, hit in enumerate(pattern):
        says_yes = 1 - noise if GRADES[position] > 0 else noise
        if left == 0:
            total *= not hit
        else:
            total *= says_yes if hit else 1 - says_yes
        left -= hit
    return total


MODELS = []
for behaviour in ("perfect", "navigational", "informational"):
    click, stop = CLICK_PROBABILITIES[behaviour, 2], STOP_PROBABILITIES[behaviour, 2]
    common = {"behaviour": behaviour, "max_grade": 2, "shown": SEEN}
    MODELS += [
        (Cascade(**common), lambda p, c=click: walking_probability(p, c, np.ones(3), 1.0)),
        (Dcm(**common), lambda p, c=click, s=stop: walking_probability(p, c, s, 1.0)),
        (Sdbn(**common, persistence=0.7), lambda p, c=click, s=stop: walking_probability(p, c, s, 0.7)),
        (PositionBased(**common), lambda p, c=click: independent_probability(p, c[GRADES] / (np.arange(SEEN) + 1))),
        (Ubm(**common), lambda p, c=click: ubm_probability(p, c)),
    ]
MODELS += [
    (FirstRelevant(accuracy=0.8, shown=SEEN), lambda p: first_probability(p, 0.8)),
    (NoisyReader(noise=0.3, shown=SEEN, max_clicks=2), lambda p: reader_probability(p, 0.3, 2)),
]


@pytest.mark.parametrize(("users", "probability_of"), MODELS, ids=lambda value: type(value).__name__)
def test_every_click_pattern_has_its_probability(users, probability_of):
    rng, counts = default_rng(5), {}
    for _ in range(DRAWS):
        items = set(users.observe(RANKING, RELEVANCE, rng).items.tolist())
        pattern = tuple(int(item in items) for item in RANKING[:SEEN])
        counts[pattern] = counts.get(pattern, 0) + 1
    probabilities = {pattern: probability_of(pattern) for pattern in itertools.product((0, 1), repeat=SEEN)}
    assert sum(probabilities.values()) == pytest.approx(1.0)
    for pattern, probability in probabilities.items():
        error = math.sqrt(probability * (1 - probability) / DRAWS)
        assert abs(counts.get(pattern, 0) / DRAWS - probability) <= 5 * error + 1e-12, pattern


def test_published_tables_have_their_ends():
    """Perfect people click grades by rising probability to 1 and never stop; navigational ones stop at good items."""
    for scale in (1, 2, 4):
        assert CLICK_PROBABILITIES["perfect", scale][[0, -1]].tolist() == [0.0, 1.0]
        assert not STOP_PROBABILITIES["perfect", scale].any()
        assert STOP_PROBABILITIES["navigational", scale][[0, -1]].tolist() == [0.2, 0.9]
        assert CLICK_PROBABILITIES["informational", scale][[0, -1]].tolist() == [0.4, 0.9]
        for table in (CLICK_PROBABILITIES, STOP_PROBABILITIES):
            assert all(len(table[name, scale]) == scale + 1 for name in ("perfect", "navigational", "informational"))


def test_propensities_are_how_often_positions_are_looked_at():
    users = PositionBased(behaviour="perfect", max_grade=1, severity=2.0, shown=3)
    assert users.propensities(5).tolist() == pytest.approx([1.0, 1 / 4, 1 / 9, 0.0, 0.0], rel=1e-15)
    rng = default_rng(0)
    clicks = [users.observe(np.arange(5), np.ones(5), rng).items for _ in range(DRAWS)]
    share = np.bincount(np.concatenate(clicks), minlength=5) / DRAWS
    assert np.all(np.abs(share - users.propensities(5)) <= 5 * np.sqrt(0.25 / DRAWS))
    assert share[3:].tolist() == [0.0, 0.0]


def test_the_grader_clicks_the_best_impressions_of_the_seen():
    assert GaussianGrader(sd=0.0, shown=4, max_clicks=2).observe(RANKING, RELEVANCE, default_rng(0)).items.tolist() == [
        2,
        4,
    ]
    rng, first = default_rng(1), 0
    for _ in range(DRAWS):
        clicked = GaussianGrader(sd=1.0, shown=2, max_clicks=1).observe(np.arange(2), np.array([1.0, 0.0]), rng)
        first += clicked.items[0] == 0
    wanted = 0.5 * (1 + math.erf(1 / math.sqrt(2) / math.sqrt(2)))  # P(1 + N(0, 1) > N(0, 1))
    assert abs(first / DRAWS - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / DRAWS)


def test_adversaries_turn_the_grades_round():
    users, rng = Adversarial(inner=Full(), share=0.25), default_rng(2)
    told = [users.observe(np.arange(3), np.array([0.0, 1.0, 4.0]), rng).grades.tolist() for _ in range(DRAWS)]
    assert {tuple(grades) for grades in told} == {(0.0, 1.0, 4.0), (4.0, 3.0, 0.0)}
    assert abs(told.count([4.0, 3.0, 0.0]) / DRAWS - 0.25) < 5 * math.sqrt(0.25 * 0.75 / DRAWS)
    assert Adversarial(inner=NoisyReader(shown=7)).shown == 7


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Dcm(max_grade=3),
        lambda: Dcm(behaviour="hasty"),
        lambda: Cascade(shown=0),
        lambda: NoisyReader(noise=1.2),
        lambda: GaussianGrader(sd=-1.0),
        lambda: PositionBased(severity=math.inf),
        lambda: Adversarial(share=2.0),
    ],
)
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()
