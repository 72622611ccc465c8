"""Several labels as a list: the scores are the same, and the slopes of joint losses do not grow with the labels."""

import numpy as np
import pytest

from research.bounds.generalisation import rerm
from research.bounds.multi_label import LIPSCHITZ, every_weights_excess, joint_slopes, lifted, minimiser_excess


def value(loss, scores, labels):
    if loss == "hamming":
        return np.logaddexp(0.0, -(2 * labels - 1) * scores).mean()
    if loss == "listwise":
        return -(np.exp(labels) / np.exp(labels).sum()) @ (scores - np.log(np.exp(scores).sum()))
    pairs = [np.log1p(np.exp(b - a)) for a in scores[labels > 0] for b in scores[labels == 0]]
    return np.mean(pairs)


def test_labels_are_items_of_a_list():
    rng = np.random.default_rng(0)
    inputs, weights = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    rows = lifted(inputs, 5)
    np.testing.assert_allclose((rows @ weights.ravel()).reshape(4, 5), inputs @ weights.T)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.repeat(np.linalg.norm(inputs, axis=1), 5))


@pytest.mark.parametrize("loss", LIPSCHITZ)
def test_slopes_are_right_and_bounded(loss):
    rng = np.random.default_rng(1)
    for n_labels in (2, 5, 40):
        for scale in (0.3, 3.0, 30.0):
            scores, labels = scale * rng.normal(size=n_labels), (rng.random(n_labels) < 0.4).astype(float)
            labels[:2] = 0.0, 1.0
            slopes = joint_slopes(loss, scores, labels)
            assert np.abs(slopes).sum() <= LIPSCHITZ[loss] + 1e-12
            if scale < 10.0:
                numeric = [
                    (value(loss, scores + step, labels) - value(loss, scores - step, labels)) / 2e-6
                    for step in 1e-6 * np.eye(n_labels)
                ]
                np.testing.assert_allclose(slopes, numeric, atol=1e-6)


@pytest.mark.parametrize(("loss", "least"), [("hamming", 0.99), ("label_ranking", 1.99), ("listwise", 1.9)])
def test_the_constants_are_nearly_attained(loss, least):
    """One true label among many, ranked last with certainty: for `listwise` with large labels."""
    labels = np.array([1.0, 0.0, 0.0, 0.0]) * (20.0 if loss == "listwise" else 1.0)
    scores = np.array([-20.0, 20.0, 20.0, 20.0]) if loss != "listwise" else np.array([-50.0, 50.0, 0.0, 0.0])
    assert np.abs(joint_slopes(loss, scores, labels)).sum() >= least


def test_bounds_do_not_grow_with_the_labels():
    assert minimiser_excess("hamming", 2.0, 1.0, 400) == rerm(1.0, 2.0, 1.0, 400)
    few, many = (
        every_weights_excess("label_ranking", 2.0, 1.0, 10**5, n_labels, largest=4.0, delta=0.05)
        for n_labels in (10, 1000)
    )
    assert few < many < 1.3 * few
