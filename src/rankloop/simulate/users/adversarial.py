"""People of whom some mean the opposite of what they reveal."""

from numpy.random import Generator

from rankloop.core.checks import check_probability
from rankloop.core.protocols import FeedbackModel
from rankloop.core.registry import register
from rankloop.core.types import Feedback, Floats, Ints
from rankloop.simulate.users.noisy_reader import NoisyReader


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
