"""People who compare what they see, with noise, and click the best of it."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_positions
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel, ranking_of
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Floats, Ints
from rankloop.simulate.users.click_model import clicks_at, seen_positions

SMALLEST = 2.0**-54  # below the smallest positive draw: keeps the normal of a 0 finite


@kernel
def _best_of_seen(ranking: Ints, relevance: Floats, sd: float, max_clicks: int, normals: Floats) -> tuple[Ints, Floats]:
    impressions = relevance[ranking[: len(normals)]] + sd * normals
    clicked = np.zeros(len(normals), np.int64)
    for position in ranking_of(impressions)[:max_clicks]:
        clicked[position] = 1
    return clicks_at(ranking, clicked)


@register("gaussian_grader")
class GaussianGrader:
    """Adds N(0, `sd`²) to the grades of the first `shown` items and clicks the `max_clicks` that then seem best.

    Draws one double per position that is seen. They always click: what they reveal is which items seem better.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 8.
    """

    sd: float = 1.0
    shown: int = 10
    max_clicks: int = 5
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.sd < np.inf:
            raise InvalidInput(f"sd = {self.sd} is a standard deviation: finite and at least 0")
        check_positions("shown", self.shown)
        check_positions("max_clicks", self.max_clicks)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        from scipy.special import ndtri  # takes a tenth of a second: not for who starts a service

        normals = ndtri(np.maximum(rng.random(seen_positions(self.shown, len(ranking))), SMALLEST))
        return Clicks(*_best_of_seen(ranking, relevance, self.sd, self.max_clicks, normals))
