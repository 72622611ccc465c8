"""Quantiles and distribution functions of the normal, beta and Student distributions."""

from math import erfc, exp, lgamma, log, log1p, sqrt

import numpy as np

from rankloop.core.compilation import kernel
from rankloop.core.types import Floats

MAX_FRACTION_TERMS = 500
MAX_BISECTIONS = 200
SMALLEST_DENOMINATOR = 1e-300


@kernel
def _horner(coefficients: Floats, x: float) -> float:
    total = 0.0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


# Rational approximations of Wichura (1988), algorithm AS 241 (PPND16), highest power first.
CENTRE_NUMERATOR = np.array(
    [2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0]
)  # fmt: skip
CENTRE_DENOMINATOR = np.array(
    [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0]
)  # fmt: skip
MIDDLE_NUMERATOR = np.array(
    [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0]
)  # fmt: skip
MIDDLE_DENOMINATOR = np.array(
    [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0]
)  # fmt: skip
TAIL_NUMERATOR = np.array(
    [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0]
)  # fmt: skip
TAIL_DENOMINATOR = np.array(
    [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0]
)  # fmt: skip


@kernel
def normal_quantiles(probabilities: Floats) -> Floats:
    """Return the standard normal quantile of each probability, which must lie strictly between 0 and 1."""
    quantiles = np.empty(len(probabilities))
    for i in range(len(probabilities)):
        p = probabilities[i]
        distance = p - 0.5
        if abs(distance) <= 0.425:
            r = 0.180625 - distance * distance
            quantiles[i] = distance * _horner(CENTRE_NUMERATOR, r) / _horner(CENTRE_DENOMINATOR, r)
            continue
        r = np.sqrt(-np.log(p if distance < 0.0 else 1.0 - p))
        if r <= 5.0:
            size = _horner(MIDDLE_NUMERATOR, r - 1.6) / _horner(MIDDLE_DENOMINATOR, r - 1.6)
        else:
            size = _horner(TAIL_NUMERATOR, r - 5.0) / _horner(TAIL_DENOMINATOR, r - 5.0)
        quantiles[i] = -size if distance < 0.0 else size
    return quantiles


@kernel
def normal_cdf(x: float) -> float:
    """Return P(X ≤ x) for a standard normal X."""
    return 0.5 * erfc(-x / sqrt(2.0))


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's continued fraction.

    Args:
      x: A number from 0 to 1.
      a: The first shape, above 0.
      b: The second shape, above 0.

    Returns:
      P(X ≤ x) for X from the beta distribution with these shapes.
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges slowly, the mirrored one is quick
        return 1.0 - beta_cdf(1.0 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    ratio, c, d = 1.0, 1.0, 0.0
    for term in range(MAX_FRACTION_TERMS):
        m = term // 2
        if term == 0:
            numerator = 1.0
        elif term % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + numerator * d
        d = 1.0 / (d if abs(d) > SMALLEST_DENOMINATOR else SMALLEST_DENOMINATOR)
        c = 1.0 + numerator / c
        c = c if abs(c) > SMALLEST_DENOMINATOR else SMALLEST_DENOMINATOR
        ratio *= c * d
        if abs(1.0 - c * d) < 1e-16:
            break
    return front * (ratio - 1.0)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p, by bisection.

    Args:
      p: A probability from 0 to 1.
      a: The first shape, above 0.
      b: The second shape, above 0.

    Returns:
      The quantile, from 0 to 1.
    """
    low, high = 0.0, 1.0
    for _ in range(MAX_BISECTIONS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if beta_cdf(middle, a, b) < p else (low, middle)
    return (low + high) / 2.0


def chi_square_tail(x: float, degrees: float) -> float:
    """Return P(X > x) for the chi-square distribution, by the series or the continued fraction of the gamma function.

    Args:
      x: A number from 0.
      degrees: Degrees of freedom, above 0.
    """
    shape, half = degrees / 2.0, x / 2.0
    if half <= 0.0:
        return 1.0
    front = exp(shape * log(half) - half - lgamma(shape))
    if half < shape + 1.0:
        term = total = 1.0 / shape
        for k in range(1, MAX_FRACTION_TERMS):
            term *= half / (shape + k)
            total += term
        return max(0.0, 1.0 - front * total)
    fraction = 0.0
    for k in range(MAX_FRACTION_TERMS, 0, -1):  # from the inside: k (shape − k) / (half + 2k + 1 − shape + …)
        fraction = k * (shape - k) / (half + 2.0 * k + 1.0 - shape + fraction)
    return front / (half + 1.0 - shape + fraction)


def student_cdf(t: float, degrees: float) -> float:
    """Return P(T ≤ t) for Student's distribution.

    Args:
      t: A number.
      degrees: Degrees of freedom, above 0.

    Returns:
      The probability.
    """
    tail = 0.5 * beta_cdf(degrees / (degrees + t * t), degrees / 2.0, 0.5)
    return tail if t < 0.0 else 1.0 - tail


def student_quantile(p: float, degrees: float) -> float:
    """Return the t with P(T ≤ t) = p for Student's distribution.

    Args:
      p: A probability strictly between 0 and 1.
      degrees: Degrees of freedom, above 0.

    Returns:
      The quantile.
    """
    x = beta_quantile(2.0 * min(p, 1.0 - p), degrees / 2.0, 0.5)
    size: float = (degrees * (1.0 - x) / x) ** 0.5
    return -size if p < 0.5 else size
