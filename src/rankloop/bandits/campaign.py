"""Simulated ad campaigns: visitors, ads that few of them click, and the reward of the shown ad."""

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator, default_rng

from rankloop.core.checks import Count, NotNegative, PositiveCount
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import normals
from rankloop.core.registry import Examples, register
from rankloop.core.types import Floats, Ints, Problem, Query, Reward

# Clicks per impression of the five most shown offers: table 5.2 of the thesis.
CLICK_RATES = {"hotel": (0.081, 0.082, 0.078, 0.077, 0.055), "bank": (0.0017, 0.0040, 0.0045, 0.0030, 0.0023)}
WORLD_SEED = 2016  # every run has the same campaign and other visitors
QUADRATURE_NODES, QUADRATURE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + e^−value) of each value."""
    probabilities: Floats = 1.0 / (1.0 + np.exp(-values))
    return probabilities


def _offset(rate: float, taste: float) -> float:
    """Return the b with E σ(b + taste · z) = rate for standard normal z, by bisection."""
    low, high = -60.0 - 9.0 * taste, 60.0 + 9.0 * taste
    for _ in range(100):
        middle = 0.5 * (low + high)
        mean = float(QUADRATURE_WEIGHTS @ sigmoid(middle + taste * QUADRATURE_NODES)) / float(QUADRATURE_WEIGHTS.sum())
        low, high = (middle, high) if mean < rate else (low, middle)
    return low


@register("campaign")
class Campaign:
    """Visitors x ~ N(0, I) who click ad a with probability σ(b_a + taste · θ_a · x).

    θ_a is a fixed random direction of length 1, and b_a is set so that the ad has its mean click rate. A query is a
    visitor's context with a fixed set of ads; the relevance of an ad is 1 if the visitor would click it, else 0.

    Use it for learners of `Reward` (users: `first_item_reward`), in place of logs that are not public.

    Args:
      domain: The click rates: `hotel` 5 to 8 %, `bank` 0.2 to 0.45 %.
      n_context: The number of features of a visitor.
      informative: The number of features on which clicks depend, the first ones.
      taste: The influence of the features.
      click_rates: The mean click rate of each ad, in place of the domain's.
      world: Another number gives other directions θ_a.

    References:
      Chaudhuri (2016), Learning to Rank: Online Learning, Statistical Theory and Applications, chapter 5.
    """

    domain: Literal["hotel", "bank"] = "hotel"
    n_context: PositiveCount = 20
    informative: PositiveCount = 5
    taste: NotNegative = 1.0
    click_rates: tuple[float, ...] = ()
    world: Count = 0

    examples: ClassVar[Examples] = ({}, {"domain": "bank", "n_context": 6}, {"click_rates": (0.2, 0.5)})

    def __post_init__(self) -> None:
        if self.informative > self.n_context:
            raise InvalidInput(f"informative = {self.informative} exceeds n_context = {self.n_context}")
        if any(not 0.0 < rate < 1.0 for rate in self.click_rates):
            raise InvalidInput(f"click_rates = {self.click_rates} must be probabilities between 0 and 1")

    @property
    def rates(self) -> tuple[float, ...]:
        """Return the mean click rate of each ad."""
        return self.click_rates or CLICK_RATES[self.domain]

    @property
    def problem(self) -> Problem:
        return Problem(n_features=0, n_items=len(self.rates), n_context=self.n_context)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        n_ads = len(self.rates)
        while True:
            context = normals(rng, self.n_context)
            click_probabilities = sigmoid(self.offsets + self.tastes @ context)
            clicks = (rng.random(n_ads) < click_probabilities).astype(np.float64)
            yield Query("", np.zeros((n_ads, 0)), context), clicks

    @cached_property
    def tastes(self) -> Floats:
        """Return taste · θ_a, one row per ad."""
        directions = np.zeros((len(self.rates), self.n_context))
        rng = default_rng(WORLD_SEED + self.world)
        directions[:, : self.informative] = normals(rng, len(self.rates), self.informative)
        directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
        return self.taste * directions

    @cached_property
    def offsets(self) -> Floats:
        """Return b_a with E σ(b_a + taste · z) = the ad's click rate, for standard normal z."""
        return np.array([_offset(rate, self.taste) for rate in self.rates])


@register("first_item_reward")
class FirstItemReward:
    """Reward the first item by its relevance; nothing is revealed of the others.

    Use it with streams whose relevance is a click or a purchase, such as `campaign`, and learners of `Reward`.
    """

    shown: ClassVar[int | None] = 1
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Reward:
        return Reward(float(relevance[ranking[0]]))
