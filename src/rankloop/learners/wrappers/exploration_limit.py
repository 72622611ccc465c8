"""A limit on how far exploration may move items."""

import inspect
from typing import Any, ClassVar

from numpy.random import Generator

from rankloop.core.checks import Count
from rankloop.core.errors import InvalidInput
from rankloop.core.learner import Wrapper
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Examples, register
from rankloop.core.types import Decision, Floats, Ints, Limit, Query, R


@register("explore_at_most")
class ExploreAtMost(Wrapper):
    """Limit the exploration of `inner`: no item is shown more than `places` positions from where `predict` has it.

    At each position an item that may not fall further is taken; otherwise `inner` draws among those that may rise this
    far, P(item) ∝ its probability without the limit. `log_prob` stays exact, and `inner` learns from the limited
    probabilities.

    Args:
      inner: A learner that draws its ranking position by position, such as `pdgd`.
      places: The number of positions by which an item may move, up or down.
      keep_first: If true, the predicted first item stays first.

    Examples:
      >>> from rankloop.simulate.play import play_mean
      >>> round(play_mean("explore_at_most(inner='pdgd', places=1)", "web_search", "dcm", "nDCG@10"), 3)
      0.549
    """

    inner: AnyLearner
    places: Count = 2
    keep_first: bool = False

    examples: ClassVar[Examples] = (
        {"inner": "pdgd", "places": 1},
        {"inner": "pdgd", "places": 0},
        {"inner": "pdgd", "places": 2, "keep_first": True},
    )

    def __post_init__(self) -> None:
        if "limit" not in inspect.signature(self.inner.rank).parameters:
            name = type(self.inner).__name__
            raise InvalidInput(f"{name} does not draw its ranking position by position, so it has no limit; pdgd has")

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[R]:
        return self._sequential.rank(state, query, rng, Limit(self.places, self.keep_first))  # type: ignore[no-any-return]

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return float(self._sequential.log_prob(state, query, ranking, Limit(self.places, self.keep_first)))

    def with_table_entries(self, state: Any, entries: Floats) -> Any:
        """Return the inner state with the weights and the evidence of these columns."""
        return self._sequential.with_table_entries(state, entries)

    def table_entries_of(self, state: Any) -> Floats | None:
        """Return weights and evidence, if `inner` sets its step sizes itself."""
        return self._sequential.table_entries_of(state)  # type: ignore[no-any-return]

    @property
    def _sequential(self) -> Any:
        return self.inner
