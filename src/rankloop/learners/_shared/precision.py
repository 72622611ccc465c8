"""What pairs of items tell about weights: a precision and its inverse, whole matrices or their diagonals."""

import numpy as np

from rankloop.core.kernels import kernel, reassociated
from rankloop.core.types import Floats

MIN_RIDGE, MAX_RIDGE = 1e-150, 1e150  # its inverse is a number too
SHARP = 1e6  # a step that shrinks a variance by more than this has lost digits: the inverse is rebuilt at once
FLAT = 1e-12  # a pivot below this share of its diagonal is rounding error


@reassociated
def dot(left: Floats, right: Floats) -> float:
    """left · right."""
    total = 0.0
    for j in range(len(left)):
        total += left[j] * right[j]
    return total


@kernel
def spread_of(covariance: Floats, x: Floats) -> float:
    """xᵀ Σ x, the variance of w · x; of a matrix the upper triangle is read."""
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
    """Σ x of a symmetric matrix."""
    product = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] != 0.0:
            for j in range(len(x)):
                product[j] += x[i] * covariance[i, j]
    return product


@kernel
def surprise_of(weights: Floats, x: Floats) -> float:
    """1 − σ(w · x): how little the weights expected the winner of a pair, x being winner − loser."""
    surprise: float = 1.0 / (1.0 + np.exp(dot(weights, x)))
    return surprise


@kernel
def sherman_morrison(covariance: Floats, product: Floats, information: float, gain: float) -> bool:
    """The inverse Σ after information · x xᵀ was added to the matrix, in place; tells whether it has lost digits.

    `product` is Σ x, and `gain` information · xᵀ Σ x.
    """
    scaled = product * np.sqrt(information / (1.0 + gain))
    lost = gain > SHARP
    for i in range(len(scaled)):
        for j in range(len(scaled)):
            covariance[i, j] -= scaled[i] * scaled[j]
        lost = lost or not covariance[i, i] >= 0.0
    return lost


@kernel
def inform(precision: Floats, covariance: Floats, x: Floats, weight: float, surprise: float) -> tuple[Floats, bool]:
    """Add the information of one pair to the precision and its inverse, in place.

    Gives the step of the weights, weight · surprise · Σ x with the new Σ, and whether the inverse has lost digits.
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
    """The inverse of a positive definite matrix by Cholesky, in loops along its rows; of a diagonal, entry by entry."""
    n = len(matrix)
    if matrix.ndim == 1:
        return 1.0 / matrix
    upper = matrix.copy()  # becomes U with Uᵀ U = matrix
    for k in range(n):
        upper[k, k] = np.sqrt(max(upper[k, k], FLAT * matrix[k, k]))
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
    """kept · Λ + (1 − kept) · ridge · I, in place."""
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
    """w − ridge · Σ (w − origin): where weights go when evidence gives way to so much ridge; Σ is the new inverse."""
    away = weights - origin
    if covariance.ndim == 1:
        return weights - ridge * covariance * away
    return weights - ridge * times(covariance, away)
