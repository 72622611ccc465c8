"""Off-policy estimators: exact expectations by enumeration, identities between them, and refusals by row."""

import itertools
import math

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.evaluation import Options, doubly_robust, estimate, ips, rows_of, snips
from rankloop.evaluation.off_policy.running_sums import N_GROUPS

CONTEXT = np.array([0.3, 0.7])
LOGGED = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
TARGET = np.array([[0.0, 0.9, 0.1], [0.2, 0.5, 0.3]])
CLICK = np.array([[0.1, 0.4, 0.2], [0.05, 0.6, 0.3]])
MODEL = np.array([[0.3, 0.6, 0.2], [0.0, 0.9, 0.1]])  # wrong on purpose
TRUTH = float((CONTEXT[:, None] * TARGET * CLICK).sum())
LIMIT = 2.0


def worlds():
    """Every (context, action, click) with its probability."""
    for x, a, r in itertools.product(range(2), range(3), range(2)):
        yield CONTEXT[x] * LOGGED[x, a] * (CLICK[x, a] if r else 1 - CLICK[x, a]), x, a, float(r)


def expectation(method: str, model=MODEL, target=TARGET) -> float:
    """Σ over all worlds of probability · the estimate from that one row."""
    total = 0.0
    for probability, x, a, r in worlds():
        rows = rows_of([r], [LOGGED[x, a]], [target[x, a]], [model[x, a]], [float(target[x] @ model[x])])
        total += probability * estimate([rows], method, Options(limit=LIMIT)).value
    return total


def a_log(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.choice(2, n, p=CONTEXT)
    a = np.array([rng.choice(3, p=LOGGED[i]) for i in x])
    return (rng.random(n) < CLICK[x, a]).astype(float), LOGGED[x, a], TARGET[x, a]


@pytest.mark.parametrize("method", ["ips", "doubly_robust"])
def test_unbiased_by_enumeration(method):
    assert expectation(method) == pytest.approx(TRUTH, abs=1e-12)


def test_a_true_model_makes_direct_and_switch_unbiased():
    for method in ("direct_method", "switch_dr", "doubly_robust"):
        assert expectation(method, CLICK) == pytest.approx(TRUTH, abs=1e-12)
    assert abs(expectation("direct_method") - TRUTH) > 0.05


def test_switch_is_biased_only_where_it_switches():
    weight = TARGET / LOGGED
    correction = np.where(weight <= LIMIT, TARGET * (CLICK - MODEL), 0.0)
    expected = (CONTEXT[:, None] * (TARGET * MODEL + correction)).sum()
    assert expectation("switch_dr") == pytest.approx(expected, abs=1e-12)


def test_clipping_loses_exactly_what_lies_above_the_limit():
    lost = (CONTEXT[:, None] * LOGGED * np.maximum(TARGET / LOGGED - LIMIT, 0) * CLICK).sum()
    assert expectation("clipped_ips") == pytest.approx(TRUTH - lost, abs=1e-12)
    assert lost > 0.05


def test_hand_arithmetic():
    reward, propensity, target = [1.0, 0.0, 1.0], [0.5, 0.25, 0.1], [0.25, 0.5, 0.2]
    # weights are 0.5, 2 and 2
    assert ips(reward, propensity, target).value == pytest.approx((0.5 + 2) / 3)
    assert snips(reward, propensity, target).value == pytest.approx((0.5 + 2) / (0.5 + 2 + 2))
    rows = rows_of(reward, propensity, target, [0.5, 0.5, 0.5], [0.1, 0.2, 0.6])
    assert estimate([rows], "clipped_ips", Options(limit=1)).value == pytest.approx((0.5 + 1) / 3)
    assert estimate([rows._replace(predicted=None)], "direct_method").value == pytest.approx(0.3)
    model = {"predicted": [0.5, 0.5, 0.5], "expected": [0.1, 0.2, 0.6]}
    robust = doubly_robust(reward, propensity, target, **model)
    assert robust.value == pytest.approx(0.3 + (0.5 * 0.5 - 2 * 0.5 + 2 * 0.5) / 3)
    assert estimate([rows], "switch_dr", Options(limit=1)).value == pytest.approx(0.3 + (0.5 * 0.5) / 3)
    found = ips(reward, propensity, target)
    assert found.effective_n == pytest.approx(4.5**2 / (0.25 + 4 + 4))
    assert found.current == pytest.approx(2 / 3)
    assert found.gain == pytest.approx(found.value - 2 / 3)
    assert found.n == 3


def test_the_logging_policy_itself_is_judged_by_its_mean():
    reward, propensity, _ = a_log(200)
    for method in (ips, snips):
        found = method(reward, propensity, propensity)
        assert found.value == pytest.approx(reward.mean(), abs=1e-12)
        assert found.gain == pytest.approx(0, abs=1e-12)
        assert found.gain_lower == pytest.approx(0, abs=1e-9)
        assert found.effective_n == pytest.approx(200)


@pytest.mark.parametrize("method", ["ips", "snips"])
def test_pieces_give_what_the_whole_gives(method):
    log = a_log(3 * N_GROUPS // 2)
    whole = estimate([rows_of(*log)], method, Options(bound="bootstrap"))
    cuts = [0, 1, 7, 5000, len(log[0])]
    pieces = (rows_of(*(column[i:j] for column in log)) for i, j in itertools.pairwise(cuts))
    parts = estimate(pieces, method, Options(bound="bootstrap"))
    np.testing.assert_allclose(parts[:9], whole[:9], rtol=1e-10)


def test_standard_errors_match_numpy_and_the_delta_method():
    reward, propensity, target = a_log(500)
    weight = target / propensity
    plain = weight * reward
    assert ips(reward, propensity, target).standard_error == pytest.approx(plain.std(ddof=1) / math.sqrt(500))
    ratio = snips(reward, propensity, target)
    residual = (plain - ratio.value * weight) / weight.mean()
    assert ratio.standard_error == pytest.approx(residual.std(ddof=1) / math.sqrt(500))


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        ([0.5, 0.0], "row 1: the propensity is 0.0"),
        ([0.5, math.nan], "row 1: the propensity is missing"),
        ([1.5, 0.5], "row 0: the propensity is 1.5"),
        ([0.5, None], "row 1: the propensity is missing"),
    ],
)
def test_a_propensity_of_zero_or_none_is_refused_by_row(propensity, message):
    with pytest.raises(InvalidInput, match=message):
        ips([1.0, 0.0], propensity, [0.5, 0.5])


def test_other_refusals():
    with pytest.raises(InvalidInput, match="no rows"):
        ips([], [], [])
    with pytest.raises(InvalidInput, match="row 1: the target is 2"):
        ips([1, 0], [0.5, 0.5], [0.5, 2])
    with pytest.raises(InvalidInput, match="row 0: the reward is inf"):
        ips([math.inf], [0.5], [0.5])
    with pytest.raises(InvalidInput, match="shape"):
        ips([1, 0], [0.5], [0.5, 0.5])
    with pytest.raises(InvalidInput, match="did you mean 'snips'"):
        estimate([rows_of([1], [1], [1])], "snip")
    with pytest.raises(InvalidInput, match="reward model"):
        estimate([rows_of([1], [1], [1])], "direct_method")
    with pytest.raises(InvalidInput, match="ratio"):
        snips([1], [1], [1], bound="hoeffding")
    with pytest.raises(InvalidInput, match="says nothing"):
        snips([1], [1], [0])
    with pytest.raises(InvalidInput, match="level"):
        ips([1], [1], [1], level=95)
    with pytest.raises(InvalidInput, match="limit"):
        estimate([rows_of([1], [1], [1])], "clipped_ips", Options(limit=0))


def test_one_row_has_no_bound_worth_having():
    for bound in ("t", "bernstein"):
        assert ips([1.0], [0.5], [0.5], bound=bound).lower == -math.inf
