"""Users who grade items as they are, users who click what seems relevant to them, and users who mean the opposite."""

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least, check_not_negative, check_probability
from rankloop.core.kernels import kernel, normals, ranking_of
from rankloop.core.protocols import FeedbackModel
from rankloop.core.registry import register
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Relevances
from rankloop.simulate.users.click_users import clicks_at, seen_positions


@register("full")
class Full:
    """Grades of all items: the full information against which weaker feedback is judged. Draws nothing."""

    shown: ClassVar[int | None] = None
    depth: ClassVar[int | None] = None

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        """The grade of every item, in the order of the ranking."""
        return Relevances(ranking, relevance[ranking])


@register("top_k")
class TopK:
    """Grades of the first `depth` items of the ranking, as they are. Draws nothing.

    Use it for raters who judge a few items: the learner must show an item near the top to learn about it.
    Reference: Chaudhuri and Tewari (2015), Online Ranking with Top-1 Feedback.
    """

    depth: int = 1
    shown: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_at_least(1, depth=self.depth)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Relevances:
        """The grades of the items in the first `depth` positions."""
        items = ranking[: self.depth].copy()
        return Relevances(items, relevance[items])


@kernel
def _read(
    ranking: Ints, relevance: Floats, draws: Floats, low: float, high: float, max_clicks: int
) -> tuple[Ints, Floats]:
    """Click the first items that seem relevant: a grade above 0, or another where low ≤ draw < high, a mistake."""
    clicked, n_clicks = np.zeros(len(draws), np.int64), 0
    for position in range(len(draws)):
        mistaken = low <= draws[position] < high
        if (relevance[ranking[position]] > 0.0) != mistaken and n_clicks < max_clicks:
            clicked[position] = 1
            n_clicks += 1
    return clicks_at(ranking, clicked)


@register("first_relevant")
class FirstRelevant:
    """Reads from the top, clicks the first item judged relevant (a grade above 0), and stops.

    Each judgment is right with probability `accuracy`. Draws one double per position that could be read.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 4.2.
    """

    accuracy: float = 0.8
    shown: int | None = None
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_probability("accuracy", self.accuracy)
        check_at_least(1, shown=self.shown)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """At most one click."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        items, weights = _read(ranking, relevance, draws, self.accuracy, 1.0, 1)
        return Clicks(items, weights)


@register("noisy_reader")
class NoisyReader:
    """Reads the first `shown` items and clicks up to `max_clicks` of them that seem relevant (a grade above 0).

    Each judgment is wrong with probability `noise`. Draws one double per position that is read.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, section 8.
    """

    noise: float = 0.2
    shown: int = 10
    max_clicks: int = 5
    depth: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_probability("noise", self.noise)
        check_at_least(1, shown=self.shown, max_clicks=self.max_clicks)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        draws = rng.random(seen_positions(self.shown, len(ranking)))
        items, weights = _read(ranking, relevance, draws, 0.0, self.noise, self.max_clicks)
        return Clicks(items, weights)


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
        check_not_negative("sd", self.sd)
        check_at_least(1, shown=self.shown, max_clicks=self.max_clicks)

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Clicks:
        """The clicked items, from the top."""
        errors = normals(rng, seen_positions(self.shown, len(ranking)))
        items, weights = _best_of_seen(ranking, relevance, self.sd, self.max_clicks, errors)
        return Clicks(items, weights)


@register("adversarial")
class Adversarial:
    """People like `inner`, but each time with probability `share` they behave as if the grades were turned round.

    The best item of the query then counts as its worst: grade r becomes max + min − r. Draws one double, then those
    of `inner`. Use it to see how many spammers or competitors a learner survives.
    """

    inner: FeedbackModel = NoisyReader()
    share: float = 0.2

    def __post_init__(self) -> None:
        check_probability("share", self.share)

    @property
    def shown(self) -> int | None:
        return self.inner.shown

    @property
    def depth(self) -> int | None:
        return self.inner.depth

    def observe(self, ranking: Ints, relevance: Floats, rng: Generator) -> Feedback:
        """What `inner` reveals, of the grades or of their opposite."""
        if rng.random() < self.share and len(relevance):
            relevance = relevance.max() + relevance.min() - relevance
        return self.inner.observe(ranking, relevance, rng)
