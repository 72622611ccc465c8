"""Interleaving methods, and the functions that mix rankings and credit clicks by any of them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import is_permutation
from rankloop.core.registry import build as build_any
from rankloop.core.registry import category
from rankloop.core.session import checked_feedback
from rankloop.core.statistics import beta_cdf, beta_quantile, sign_p_value
from rankloop.core.types import Clicks, Floats, Ints, finite_floats, item_indices, whole_number


class Mixed(NamedTuple):
    """A list made of several rankings, with all that `credit` needs."""

    ranking: Ints  # the list to show
    rankings: Ints  # (n_rankers, n_items): the rankings that it was made of
    teams: Ints  # the ranker of each position, −1 if the method does not say


@runtime_checkable
class Interleaving(Protocol):
    """A method that mixes rankings of the same items; it draws a number of doubles that depends on their shape only."""

    def mix(self, rankings: Ints, rng: Generator) -> Mixed:
        """Return one list from rankings of shape (n_rankers, n_items)."""

    def credit(self, mixed: Mixed, clicks: Clicks) -> Floats:
        """Return what each ranker earns by these clicks; the ranker with more is preferred."""


category("interleaving", Interleaving)


def interleave(method: Any, a: ArrayLike, b: ArrayLike, rng: Generator) -> Mixed:
    """Mix two rankings of the same items into one list.

    Args:
      method: The name of a method, such as "team_draft", or its spec.
      a: The first ranking.
      b: The second ranking.
      rng: The source of random numbers.

    Examples:
      >>> mixed = interleave("team_draft", [0, 1, 2], [2, 1, 0], np.random.default_rng(0))
      >>> credit("team_draft", mixed, Clicks(mixed.ranking[:1], np.ones(1))).sum()
      np.float64(1.0)
    """
    return multileave(method, [a, b], rng)


def multileave(method: Any, rankings: Sequence[ArrayLike] | Ints, rng: Generator) -> Mixed:
    """Mix any number of rankings of the same items into one list.

    Args:
      method: The name of a method, or its spec.
      rankings: The rankings.
      rng: The source of random numbers.
    """
    mixing: Interleaving = build_any(method, "interleaving")
    return mixing.mix(_same_items(rankings), rng)


def credit(method: Any, mixed: Mixed, clicks: Clicks) -> Floats:
    """Return what each ranker earns by the clicks on a mixed list.

    Args:
      method: The name of the method that mixed the list, or its spec.
      mixed: The mixed list.
      clicks: The clicks on it.
    """
    crediting: Interleaving = build_any(method, "interleaving")
    ranking, teams = item_indices(mixed.ranking, "the mixed ranking"), item_indices(mixed.teams, "teams")
    rankings = _same_items(mixed.rankings)
    if len(teams) != len(ranking) or np.any((teams < -1) | (teams >= len(rankings))):
        raise InvalidInput(f"teams must name one of the {len(rankings)} rankers, or -1, for each of the items")
    checked = checked_feedback(Clicks(clicks[0], clicks[1]), ranking, rankings.shape[1], None)
    return crediting.credit(Mixed(ranking, rankings, teams), cast(Clicks, checked))


def _same_items(rankings: Sequence[ArrayLike] | Ints) -> Ints:
    """Rankings from outside as (n_rankers, n_items)."""
    if not isinstance(rankings, Sequence | np.ndarray) or getattr(rankings, "ndim", 1) < 1:
        raise InvalidInput(f"interleaving needs a list of rankings, got {type(rankings).__name__}")
    table = [item_indices(ranking, "a ranking") for ranking in rankings]
    if len(table) < 2:
        raise InvalidInput(f"interleaving needs at least two rankings, got {len(table)}")
    for index, ranking in enumerate(table):
        if not is_permutation(ranking, len(table[0])):
            raise InvalidInput(f"ranking {index} does not contain each of the items 0 … {len(table[0]) - 1} once")
    return np.array(table)


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
        return low / (1 - low), high / (1 - high) if high < 1 else float("inf")


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
        raise InvalidInput(f"credits must list the result of `credit` for each list, got {type(credits).__name__}")
    counts = {1: 0, 0: 0, -1: 0}
    for credit_of_list in credits:
        earned = finite_floats(credit_of_list, 1, "the credit of a list")
        if max(first, second) >= len(earned):
            raise InvalidInput(f"rankers {first} and {second}: a list has credit for {len(earned)} rankers only")
        difference = float(earned[first] - earned[second])
        counts[(difference > 0) - (difference < 0)] += 1
    return Comparison(counts[1], counts[0], counts[-1])
