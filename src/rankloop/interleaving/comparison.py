"""Wins, ties and losses of one ranker against another, and whether they can be chance."""

from collections.abc import Iterable
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.statistics import beta_cdf, beta_quantile, sign_p_value
from rankloop.core.types import Floats, finite_floats, whole_number


class Comparison(NamedTuple):
    """The numbers of lists on which the first ranker earned more, as much, and less than the second."""

    wins: int
    ties: int
    losses: int

    @property
    def win_ratio(self) -> float:
        """Wins per loss: 1 is a draw. Infinite without a loss, nan when nothing was decided."""
        if self.losses == 0:
            return float("inf") if self.wins else float("nan")
        return self.wins / self.losses

    @property
    def p_value(self) -> float:
        """The two-sided binomial sign test that wins and losses are equally likely; ties are left out."""
        fewer, more = sorted((self.wins, self.losses))
        return min(1.0, 2.0 * beta_cdf(0.5, more, fewer + 1)) if more else 1.0

    @property
    def p_value_at_any_time(self) -> float:
        """A p-value that may be looked at after every list, and the experiment ended when it is small enough.

        If wins and losses are equally likely, it is ever below p with a probability of at most p, however often one
        looks (`core.statistics`).
        """
        return sign_p_value(self.wins, self.losses)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """An exact (Clopper–Pearson) interval of the win ratio."""
        if not 0.0 < confidence < 1.0:
            raise InvalidInput(f"confidence = {confidence} must lie between 0 and 1, as 0.95 does")
        tail = (1 - confidence) / 2
        low = beta_quantile(tail, self.wins, self.losses + 1) if self.wins else 0.0
        high = beta_quantile(1 - tail, self.wins + 1, self.losses) if self.losses else 1.0
        return _odds(low), _odds(high)


def compare(credits: Iterable[Floats], first: int = 0, second: int = 1) -> Comparison:
    """Count over many mixed lists how the credit of two rankers compares.

    Args:
      credits: The credit of each list, as `credit` returns it.
      first: The index of the first ranker.
      second: The index of the second ranker.
    """
    for name, ranker in (("first", first), ("second", second)):
        whole_number(ranker, name, 0)
    if not isinstance(credits, Iterable) or getattr(credits, "ndim", 1) < 1:
        raise InvalidInput(f"credits are what `credit` gave for each list, got {type(credits).__name__}")
    counts = {1: 0, 0: 0, -1: 0}
    for credit_of_list in credits:
        earned = finite_floats(credit_of_list, 1, "the credit of a list")
        if max(first, second) >= len(earned):
            raise InvalidInput(f"rankers {first} and {second} are compared, but {len(earned)} earned credit")
        difference = float(earned[first] - earned[second])
        counts[(difference > 0) - (difference < 0)] += 1
    return Comparison(counts[1], counts[0], counts[-1])


def _odds(share: float) -> float:
    return share / (1 - share) if share < 1 else float("inf")
