"""The information of pairs about weights, as the inverse of a precision matrix."""

from functools import partial
from typing import Annotated

import numpy as np

from rankloop.core.checks import check_between
from rankloop.core.kernels import kernel, reassociated
from rankloop.core.types import Floats

Ridge = Annotated[float, partial(check_between, 1e-150, 1e150)]  # its inverse is a number too
MIN_PIVOT_SHARE = 1e-12  # a pivot below this share of its diagonal is rounding error
MAX_GAIN = 1e6  # a step that shrinks a variance by more than this has lost digits: the inverse is rebuilt at once


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
def cholesky(matrix: Floats) -> Floats:
    """Return U with Uᵀ U = matrix for a positive definite matrix, in loops along its rows; only its upper triangle."""
    upper, n = matrix.copy(), len(matrix)
    for k in range(n):
        upper[k, k] = np.sqrt(max(upper[k, k], MIN_PIVOT_SHARE * matrix[k, k]))
        for j in range(k + 1, n):
            upper[k, j] /= upper[k, k]
        for i in range(k + 1, n):
            if upper[k, i] != 0.0:
                for j in range(i, n):
                    upper[i, j] -= upper[k, i] * upper[k, j]
    return upper


@kernel
def shifted_solution(precision: Floats, moment: Floats, normals: Floats) -> Floats:
    """Return mean + U⁻¹ · normals, Uᵀ U = precision: a draw as in Agrawal and Goyal (2013); normals of 0: the mean.

    Args:
      precision: A positive definite matrix.
      moment: precision · mean.
      normals: One number per weight.
    """
    upper, values, n = cholesky(precision), moment.copy(), len(moment)
    for i in range(n):
        for k in range(i):
            values[i] -= upper[k, i] * values[k]
        values[i] /= upper[i, i]
    values += normals
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            values[i] -= upper[i, k] * values[k]
        values[i] /= upper[i, i]
    return values


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
