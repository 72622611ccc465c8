"""Random numbers of the streams: all of them are made from `rng.random` doubles."""

from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from rankloop.core.types import Floats

SMALLEST = 2.0**-54  # half of the smallest positive double that rng.random returns


def normals(rng: Generator, *shape: int) -> Floats:
    """Standard normal numbers by the inverse distribution function; 0, which the uniform can give, stays finite."""
    values: Floats = _quantiles()(np.maximum(rng.random(shape), SMALLEST))
    return values


@cache
def _quantiles() -> Any:
    from scipy.special import ndtri  # takes a tenth of a second: not for who starts a service

    return ndtri


def unit_vector(rng: Generator, length: int) -> Floats:
    """A uniformly random direction."""
    direction = normals(rng, length)
    scaled: Floats = direction / np.sqrt(np.sum(direction**2))
    return scaled


def grades_by_share(latent: Floats, shares: tuple[float, ...]) -> Floats:
    """Grades 0, 1, … by ascending latent value, grade g being given to a part shares[g] of the items."""
    cuts = np.quantile(latent, np.cumsum(shares)[:-1] / np.sum(shares))
    return np.searchsorted(cuts, latent, side="left").astype(np.float64)
