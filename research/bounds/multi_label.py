"""Bounds of chapter IV of the thesis for several labels at once: a label is an item of a list.

K labels with weights W (K × d) on an input x are a list of K items, item k with the features x ⊗ e_k of length ‖x‖, and
one vector of weights of length ‖W‖_F. So Theorems 35, 36 and 38 hold for every joint loss of the scores, with G the
largest sum of its absolute slopes. The losses here have G ≤ 2, whatever K is. docs/theory/further.md says more.
"""

import numpy as np

from rankloop.core.types import Floats
from research.bounds.generalisation import rerm, uniform

LIPSCHITZ = {"hamming": 1.0, "label_ranking": 2.0, "listwise": 2.0}  # G of each loss


def lifted(inputs: Floats, n_labels: int) -> Floats:
    """Return the features x ⊗ e_k of every input and label, (n_inputs · n_labels, n_labels · d).

    Args:
      inputs: One row x for each input.
      n_labels: K.
    """
    n_inputs, size = inputs.shape
    rows = np.zeros((n_inputs, n_labels, n_labels, size))
    for label in range(n_labels):
        rows[:, label, label] = inputs
    return rows.reshape(n_inputs * n_labels, n_labels * size)


def joint_slopes(loss: str, scores: Floats, labels: Floats) -> Floats:
    """Return the slopes of a joint loss in the scores of the labels.

    `hamming` is the mean over labels of ln(1 + e^−±s), `label_ranking` the mean over pairs of a true and a false label
    of ln(1 + e^−(s_true − s_false)), `listwise` the cross entropy of softmax(labels) and softmax(scores).

    Args:
      loss: Its name.
      scores: The scores.
      labels: 1 for the true labels, 0 for the others.
    """
    if loss == "hamming":
        signs = 2.0 * labels - 1.0
        return np.asarray(-signs / (1.0 + np.exp(signs * scores)) / len(scores))
    if loss == "listwise":
        return _softmax(scores) - _softmax(labels)
    is_pair = np.greater.outer(labels, labels)
    steep = np.where(is_pair, -1.0 / (1.0 + np.exp(np.subtract.outer(scores, scores))), 0.0) / max(1, is_pair.sum())
    return np.asarray(steep.sum(axis=1) - steep.sum(axis=0))


def minimiser_excess(loss: str, radius: float, longest: float, n_inputs: int) -> float:
    """Return Theorem 36 for ‖W‖_F ≤ radius: the expected excess of the regularised minimiser, for any number of labels.

    Args:
      loss: Its name.
      radius: The bound of ‖W‖_F.
      longest: The length of the longest input.
      n_inputs: The number of inputs.
    """
    return rerm(LIPSCHITZ[loss], radius, longest, n_inputs)


def every_weights_excess(
    loss: str, radius: float, longest: float, n_inputs: int, n_labels: int, *, largest: float, delta: float
) -> float:
    """Return Theorem 38 for ‖W‖_F ≤ radius; the number of labels enters by log₂(2Kn + 1) only.

    Args:
      loss: Its name.
      radius: The bound of ‖W‖_F.
      longest: The length of the longest input.
      n_inputs: The number of inputs.
      n_labels: K.
      largest: The largest loss.
      delta: The probability to fail.
    """
    return uniform(LIPSCHITZ[loss], radius, longest, n_inputs, n_labels, largest, delta)


def _softmax(values: Floats) -> Floats:
    odds = np.exp(values - values.max())
    return np.asarray(odds / odds.sum())
