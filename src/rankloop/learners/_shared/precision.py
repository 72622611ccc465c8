"""The information of pairs about weights: a precision matrix and its inverse, or their diagonals."""

import numpy as np

from rankloop.core.kernels import kernel, reassociated
from rankloop.core.types import Floats

MIN_RIDGE, MAX_RIDGE = 1e-150, 1e150  # its inverse is a number too
MAX_GAIN = 1e6  # a step that shrinks a variance by more than this has lost digits: the inverse is rebuilt at once
MIN_PIVOT_SHARE = 1e-12  # a pivot below this share of its diagonal is rounding error


@reassociated
def dot(left: Floats, right: Floats) -> float:
    """Return left · right.

    Args:
      left: A vector.
      right: A vector of the same length.
    """
    total = 0.0
    for j in range(len(left)):
        total += left[j] * right[j]
    return total


@kernel
def spread_of(covariance: Floats, x: Floats) -> float:
    """Return xᵀ Σ x, the variance of w · x.

    Args:
      covariance: Σ, a symmetric matrix or its diagonal.
      x: A vector.
    """
    total = 0.0
    if covariance.ndim == 1:
        for i in range(len(x)):
            total += covariance[i] * x[i] * x[i]
    else:
        for i in range(len(x)):
            if x[i] != 0.0:
                total += x[i] * (covariance[i, i] * x[i] + 2.0 * dot(covariance[i, i + 1 :], x[i + 1 :]))
    return total


@kernel
def times(covariance: Floats, x: Floats) -> Floats:
    """Return Σ x.

    Args:
      covariance: Σ, a symmetric matrix.
      x: A vector.
    """
    product = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] != 0.0:
            for j in range(len(x)):
                product[j] += x[i] * covariance[i, j]
    return product


@kernel
def surprise_of(weights: Floats, x: Floats) -> float:
    """Return 1 − σ(w · x), the probability that the weights gave to the other order of a pair.

    Args:
      weights: The weights.
      x: The features of the winner less those of the loser.
    """
    surprise: float = 1.0 / (1.0 + np.exp(dot(weights, x)))
    return surprise


@kernel
def sherman_morrison(covariance: Floats, product: Floats, information: float, gain: float) -> bool:
    """Update the inverse Σ in place for information · x xᵀ more, and return true if it lost digits.

    Args:
      covariance: Σ.
      product: Σ x.
      information: The factor of x xᵀ.
      gain: information · xᵀ Σ x.
    """
    scaled = product * np.sqrt(information / (1.0 + gain))
    lost = gain > MAX_GAIN
    for i in range(len(scaled)):
        for j in range(len(scaled)):
            covariance[i, j] -= scaled[i] * scaled[j]
        lost = lost or not covariance[i, i] >= 0.0
    return lost


@kernel
def inform(precision: Floats, covariance: Floats, x: Floats, weight: float, surprise: float) -> tuple[Floats, bool]:
    """Add the information of one pair to the precision and its inverse, in place.

    Args:
      precision: Λ, a matrix or its diagonal.
      covariance: Λ⁻¹.
      x: The features of the winner less those of the loser.
      weight: The weight of the pair.
      surprise: 1 − σ(w · x).

    Returns:
      The step of the weights, weight · surprise · Σ x with the new Σ, and true if the inverse has lost digits.
    """
    information = weight * surprise * (1.0 - surprise)
    if precision.ndim == 1:
        for i in range(len(x)):
            precision[i] += information * x[i] * x[i]
            covariance[i] = 1.0 / precision[i]
        return weight * surprise * covariance * x, False
    for i in range(len(x)):
        if x[i] != 0.0:
            of_row = information * x[i]
            for j in range(len(x)):
                precision[i, j] += of_row * x[j]
    product = times(covariance, x)
    gain = information * max(dot(x, product), 0.0)
    lost = sherman_morrison(covariance, product, information, gain)
    return weight * surprise / (1.0 + gain) * product, lost


@kernel
def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix by Cholesky, in loops along its rows, or that of a diagonal."""
    n = len(matrix)
    if matrix.ndim == 1:
        return 1.0 / matrix
    upper = matrix.copy()  # becomes U with Uᵀ U = matrix
    for k in range(n):
        upper[k, k] = np.sqrt(max(upper[k, k], MIN_PIVOT_SHARE * matrix[k, k]))
        for j in range(k + 1, n):
            upper[k, j] /= upper[k, k]
        for i in range(k + 1, n):
            if upper[k, i] != 0.0:
                for j in range(i, n):
                    upper[i, j] -= upper[k, i] * upper[k, j]
    lower = np.zeros((n, n))  # (Uᵀ)⁻¹
    for i in range(n):
        for k in range(i):
            if upper[k, i] != 0.0:
                for j in range(k + 1):
                    lower[i, j] -= upper[k, i] * lower[k, j]
        lower[i, i] = 1.0
        for j in range(i + 1):
            lower[i, j] /= upper[i, i]
    inverse = np.zeros((n, n))
    for k in range(n):
        for i in range(k + 1):
            if lower[k, i] != 0.0:
                for j in range(k + 1):
                    inverse[i, j] += lower[k, i] * lower[k, j]
    return inverse


@kernel
def forget(precision: Floats, ridge: float, kept: float) -> None:
    """Replace Λ by kept · Λ + (1 − kept) · ridge · I, in place.

    Args:
      precision: Λ, a matrix or its diagonal.
      ridge: The precision of a weight without evidence.
      kept: The share of the evidence that is kept.
    """
    if precision.ndim == 1:
        for i in range(len(precision)):
            precision[i] = kept * precision[i] + (1.0 - kept) * ridge
    else:
        for i in range(len(precision)):
            for j in range(len(precision)):
                precision[i, j] *= kept
            precision[i, i] += (1.0 - kept) * ridge


@kernel
def pulled_back(weights: Floats, origin: Floats, covariance: Floats, ridge: float) -> Floats:
    """Return w − ridge · Σ (w − origin): the weights after so much evidence was replaced by the ridge.

    Args:
      weights: w.
      origin: The weights without evidence.
      covariance: Σ, the new inverse.
      ridge: The ridge that was added.
    """
    away = weights - origin
    if covariance.ndim == 1:
        return weights - ridge * covariance * away
    return weights - ridge * times(covariance, away)
