"""Interleaving methods, and the functions that mix rankings and credit clicks by any of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import is_permutation
from rankloop.core.registry import build as build_any
from rankloop.core.registry import category
from rankloop.core.session import checked_feedback
from rankloop.core.types import Clicks, Floats, Ints, item_indices


class Mixed(NamedTuple):
    """A list made of several rankings, with all that `credit` needs.

    Attributes:
      ranking: The list to show.
      rankings: The rankings that it was made of, (n_rankers, n_items).
      teams: The ranker of each position, −1 if the method does not say.
    """

    ranking: Ints  # to be shown
    rankings: Ints  # (n_rankers, n_items): what it was made of
    teams: Ints  # which ranker gave each position, −1 where the method does not say


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

    Raises:
      InvalidInput: If the parts of the mixed list do not fit together.
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


def require_two(rankings: Ints, name: str) -> None:
    """Raise `InvalidInput` unless there are two rankings.

    Args:
      rankings: The rankings.
      name: The method's name, for the message.
    """
    if len(rankings) != 2:
        raise InvalidInput(
            f"{name} compares two rankings, got {len(rankings)}: multileave by team_draft or probabilistic"
        )
