"""The sorted AUC loss against the sum over all pairs, finite differences and scikit-learn's AUC."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.bandits.auc_policy import _reservoir_position
from rankloop.bandits.auc_ranker import LOSSES, AUCRanker, StepSize, _steepness, objective, stepped
from rankloop.core.errors import InvalidInput

sk = pytest.importorskip("sklearn.metrics")
numbers = st.floats(-3, 3, allow_nan=False, width=16)  # coarse, so that ties and exact margins occur
scores = arrays(np.float64, st.integers(1, 40), elements=numbers)


def over_all_pairs(clicked, unclicked, loss):
    """(1/nm) Σ Σ ℓ(clicked − unclicked) and its slopes, pair by pair."""
    t = clicked[:, None] - unclicked[None, :]
    gap = np.maximum(0.0, 1.0 - t)
    value, slope = {
        "hinge": (gap, -(gap > 0).astype(float)),
        "squared_hinge": (gap**2, -2.0 * gap),
        "logistic": (np.logaddexp(0.0, -t), -1.0 / (1.0 + np.exp(t))),
    }[loss]
    return value.mean(), slope.sum(axis=1) / t.size, -slope.sum(axis=0) / t.size


def loss_and_slopes(clicked, unclicked, loss):
    """With a feature of its own for every example, weights are scores and the gradient is the slope in each of them."""
    n, rows = len(clicked), np.eye(len(clicked) + len(unclicked))
    value, grad = objective(rows[:n], rows[n:], loss, 0.0)(np.concatenate([clicked, unclicked]))
    return value, grad[:n], grad[n:]


@pytest.mark.parametrize("loss", LOSSES)
@given(clicked=scores, unclicked=scores)
def test_the_sum_over_all_pairs(loss, clicked, unclicked):
    for found, expected in zip(
        loss_and_slopes(clicked, unclicked, loss), over_all_pairs(clicked, unclicked, loss), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("largest", [0.0, 100.0, 600.0])
def test_scores_of_which_one_is_far_away_share_a_cell(loss, largest):
    rng = np.random.default_rng(3)
    clicked, unclicked = np.append(rng.normal(size=40), largest), rng.normal(size=700)
    for found, expected in zip(
        loss_and_slopes(clicked, unclicked, loss)[1:], over_all_pairs(clicked, unclicked, loss)[1:], strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("sizes", [(30, 3000), (3000, 30)])
def test_large_sets_and_far_scores(loss, sizes):
    rng = np.random.default_rng(0)
    clicked, unclicked = rng.normal(1000.5, 1, sizes[0]), rng.normal(1000, 1, sizes[1])
    for found, expected in zip(
        loss_and_slopes(clicked, unclicked, loss), over_all_pairs(clicked, unclicked, loss), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_hinge_of_scaled_scores_is_one_minus_auc():
    """Scores far apart make the hinge count wrong pairs: ℓ(t) / |t| tends to the indicator."""
    rng = np.random.default_rng(1)
    clicked, unclicked = rng.permutation(60)[:20], rng.permutation(np.arange(0.5, 80))[:50]
    labels = np.r_[np.ones(20), np.zeros(50)]
    value = sum(loss_and_slopes(clicked[i : i + 1] * 1.0, unclicked * 1.0, "hinge")[2].sum() for i in range(20)) / 20
    near = [((clicked[:, None] - unclicked) < 1).mean(), ((clicked[:, None] - unclicked) < 0).mean()]
    assert value == pytest.approx(near[0])
    assert 1 - sk.roc_auc_score(labels, np.r_[clicked, unclicked]) == pytest.approx(near[1])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_by_finite_differences(loss):
    rng = np.random.default_rng(2)
    clicked, unclicked, w = rng.normal(size=(7, 4)), rng.normal(size=(30, 4)), rng.normal(size=4)
    of = objective(clicked, unclicked, loss, 0.3)
    step = 1e-6 * np.eye(4)
    slopes = [(of(w + s)[0] - of(w - s)[0]) / 2e-6 for s in step]
    np.testing.assert_allclose(of(w)[1], slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_steepness_is_minus_the_derivative(loss):
    for margin in (-5.0, -0.3, 0.2, 0.9, 1.5, 40.0):
        _, slope, _ = over_all_pairs(np.array([margin]), np.array([0.0]), loss)
        assert _steepness(margin, LOSSES[loss]) == pytest.approx(-slope[0], abs=1e-12)


def sparse_clicks(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * [1, 2, 5, 1, 1, 1] + 7
    w = np.array([1.0, -0.5, 0.2, 0, 0, 0])
    return X, (rng.random(n) < 1 / (1 + np.exp(4 - (X - 7) @ w))).astype(int)


@pytest.mark.parametrize("loss", LOSSES)
def test_both_solvers_reach_the_same_objective(loss):
    X, y = sparse_clicks()
    Z = (X - X.mean(0)) / X.std(0)
    of = objective(Z[y == 1], Z[y == 0], loss, 0.05)
    full = AUCRanker(loss=loss, regularisation=0.05, solver="full").fit(X, y)
    sampled = AUCRanker(loss=loss, regularisation=0.05, solver="sgd", n_pairs=300_000).fit(X, y)
    best, near = of(full.coef_ * X.std(0))[0], of(sampled.coef_ * X.std(0))[0]
    assert best <= near <= best + 0.002
    assert np.linalg.norm(of(full.coef_ * X.std(0))[1]) < (1e-3 if loss != "hinge" else 0.05)


def test_the_ranker_ranks_and_beats_probability():
    X, y = sparse_clicks()
    held_out = sparse_clicks(seed=9)
    for ranker in (AUCRanker(), AUCRanker(loss="squared_hinge"), AUCRanker(solver="sgd", n_pairs=10**5)):
        assert sk.roc_auc_score(held_out[1], ranker.fit(X, y).decision_function(held_out[0])) > 0.75


def test_conventions_and_refusals():
    X, y = sparse_clicks(200)
    ranker = AUCRanker(regularisation=0.5)
    assert ranker.get_params()["regularisation"] == 0.5
    assert ranker.set_params(loss="hinge") is ranker
    with pytest.raises(InvalidInput, match="did you mean 'regularisation'"):
        ranker.set_params(regularization=1.0)
    with pytest.raises(InvalidInput, match="call fit first"):
        ranker.decision_function(X)
    with pytest.raises(InvalidInput, match="both clicked"):
        ranker.fit(X, np.zeros(200))
    with pytest.raises(InvalidInput, match="loss"):
        AUCRanker(loss="square").fit(X, y)
    with pytest.raises(InvalidInput, match="at least one clicked"):
        objective(X[:0], X, "hinge", 0.0)
    shifted = AUCRanker(solver="full").fit(X + 100, y)
    np.testing.assert_allclose(
        shifted.decision_function(X + 100), AUCRanker(solver="full").fit(X, y).decision_function(X), atol=1e-4
    )


def test_labels_and_features_that_are_no_numbers_to_learn_from():
    X, y = sparse_clicks(200)
    with pytest.raises(InvalidInput, match="y: nan at entry 3"):
        AUCRanker().fit(X, np.where(np.arange(200) == 3, np.nan, y))
    for scale in (True, False):
        with pytest.raises(InvalidInput, match="column 1 of X holds numbers up to 1e\\+200"):
            AUCRanker(scale=scale).fit(X * [1, 1e200 / np.abs(X[:, 1]).max(), 1, 1, 1, 1], y)


def test_the_streaming_step_is_a_gradient_step():
    rng = np.random.default_rng(4)
    w, x, others = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(5, 3))
    of = objective(x[None], others, "logistic", 0.0)
    np.testing.assert_allclose(stepped(w, x, others, 1.0, StepSize(0.2, 0.0, 0)), w - 0.2 * of(w)[1], rtol=1e-12)
    of = objective(others, x[None], "logistic", 0.0)
    np.testing.assert_allclose(
        stepped(w, x, others, -1.0, StepSize(0.2, 0.5, 0)), (w - 0.2 * of(w)[1]) / 1.2, rtol=1e-12
    )


def test_the_reservoir_is_a_uniform_sample():
    rng = np.random.default_rng(5)
    counts, repeats = np.zeros(12), 6000
    for _ in range(repeats):
        kept = np.full(4, -1)
        for seen, draw in enumerate(rng.random(12)):
            position = _reservoir_position(seen, 4, draw)
            if position >= 0:
                kept[position] = seen
        counts[kept] += 1
    error = np.sqrt(repeats * (1 / 3) * (2 / 3))
    assert np.abs(counts - repeats / 3).max() < 4.5 * error
