"""Users who grade items as they are, users who click relevant items with errors, and users who mean the opposite."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import NotNegative, PositiveCount, Probability
from rankloop.core.kernels import kernel, normals, ranking_of
from rankloop.core.protocols import FeedbackModel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Relevances
from rankloop.simulate.users.click_users import clicks_at


@register("full")
class Full:
    """Reveal the grades of all items: the full information with which weaker feedback is compared."""

    shown: ClassVar[int | None] = None
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        return Relevances(ranking, relevance[ranking])


@register("top_k")
class TopK:
    """Reveal the grades of the first `depth` items of the ranking.

    Use it for raters who judge a few items: the learner must show an item near the top to learn about it.

    Args:
      depth: The number of items that are graded.

    References:
      Chaudhuri and Tewari (2015), Online Ranking with Top-1 Feedback.
    """

    depth: PositiveCount = 1
    shown: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        items = ranking[: self.depth].copy()
        return Relevances(items, relevance[items])


@kernel
def _read(ranking: Ints, relevance: Floats, draws: Floats, low: float, high: float, limit: int) -> tuple[Ints, Floats]:
    """Click the first items judged relevant; a judgment is wrong if low ≤ its draw < high."""
    clicked, n_clicks = np.zeros(len(draws), np.int64), 0
    for position in range(len(draws)):
        mistaken = low <= draws[position] < high
        if (relevance[ranking[position]] > 0.0) != mistaken and n_clicks < limit:
            clicked[position] = 1
            n_clicks += 1
    return clicks_at(ranking, clicked)


@register("first_relevant")
class FirstRelevant:
    """Read from the top, click the first item judged relevant (a grade above 0), and stop.

    Draws one double per position that could be read.

    Args:
      accuracy: The probability with which a judgment is right.
      shown: The number of positions that can be read; all if None.

    References:
      Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 4.2.
    """

    accuracy: Probability = 0.8
    shown: PositiveCount | None = None
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        items, weights = _read(ranking, relevance, rng.random(len(ranking[: self.shown])), self.accuracy, 1.0, 1)
        return Clicks(items, weights)


@register("noisy_reader")
class NoisyReader:
    """Read the first `shown` items and click up to `max_clicks` of them that seem relevant (a grade above 0).

    Draws one double per position that is read.

    Args:
      noise: The probability with which a judgment is wrong.
      shown: The number of positions that are read.
      max_clicks: The largest number of clicks.

    References:
      Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 8.
    """

    noise: Probability = 0.2
    shown: PositiveCount = 10
    max_clicks: PositiveCount = 5
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        draws = rng.random(len(ranking[: self.shown]))
        items, weights = _read(ranking, relevance, draws, 0.0, self.noise, self.max_clicks)
        return Clicks(items, weights)


@kernel
def _best_of_seen(ranking: Ints, relevance: Floats, sd: float, max_clicks: int, normals: Floats) -> tuple[Ints, Floats]:
    """Click the items with the highest grade plus error, in shown order."""
    impressions = relevance[ranking[: len(normals)]] + sd * normals
    clicked = np.zeros(len(normals), np.int64)
    for position in ranking_of(impressions)[:max_clicks]:
        clicked[position] = 1
    return clicks_at(ranking, clicked)


@register("gaussian_grader")
class GaussianGrader:
    """Add N(0, `sd`²) to the grades of the first `shown` items and click the `max_clicks` best.

    Draws one double per position that is seen. These users always click: they reveal which items seem better.

    Args:
      sd: The standard deviation of the errors.
      shown: The number of positions that are seen.
      max_clicks: The number of clicks.

    References:
      Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 8.
    """

    sd: NotNegative = 1.0
    shown: PositiveCount = 10
    max_clicks: PositiveCount = 5
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        errors = normals(rng, len(ranking[: self.shown]))
        items, weights = _best_of_seen(ranking, relevance, self.sd, self.max_clicks, errors)
        return Clicks(items, weights)


@register("adversarial")
class Adversarial:
    """Users like `inner` who behave with probability `share` as if the grades were reversed.

    The best item of the query then counts as its worst: grade r becomes max + min − r. Draws one double, then those of
    `inner`. Use it to see how many spammers or competitors a learner tolerates.

    Args:
      inner: The users without an adversary.
      share: The probability with which the grades are reversed.
    """

    inner: FeedbackModel = NoisyReader()
    share: Probability = 0.2

    @property
    def shown(self) -> int | None:
        return self.inner.shown

    @property
    def depth(self) -> int | None:
        return self.inner.depth

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Feedback:
        if rng.random() < self.share and len(relevance):
            relevance = relevance.max() + relevance.min() - relevance
        return self.inner.observe(ranking, relevance, rng)
