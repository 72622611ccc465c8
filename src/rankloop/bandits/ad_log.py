"""A log of single choices as arrays: who visited, which ad was shown with which probability, what came of it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints, finite_floats, item_indices, whole_number
from rankloop.logs.choice_log import ChoiceLog, rows_of
from rankloop.logs.context import Encoding

MAX_CONTEXT = 1e100  # squares and sums of numbers up to this stay finite
MAX_TRAINING_ROWS = 500_000
MAX_ADS = 100_000
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class AdLog(NamedTuple):
    """What was shown to whom, and what came of it; ads count from 0."""

    contexts: Floats  # (n, n_context)
    ads: Ints
    rewards: Floats
    propensities: Floats  # with which the ad was shown
    n_ads: int

    def take(self, rows: ArrayLike) -> "AdLog":
        """The log of these rows (a mask or numbers)."""
        chosen = np.asarray(rows)
        return AdLog(
            self.contexts[chosen], self.ads[chosen], self.rewards[chosen], self.propensities[chosen], self.n_ads
        )


def ad_log(
    contexts: ArrayLike, ads: ArrayLike, rewards: ArrayLike, propensities: ArrayLike | None = None, n_ads: int = 0
) -> AdLog:
    """Check and copy what comes from outside; without propensities every ad had the same."""
    people, shown = finite_floats(contexts, 2, "contexts"), item_indices(ads, "ads")
    earned = finite_floats(rewards, 1, "rewards")
    n_ads = whole_number(n_ads, "n_ads", 0) or int(shown.max(initial=-1)) + 1
    if n_ads > MAX_ADS:
        raise InvalidInput(f"n_ads is too large: at most {MAX_ADS:,} ads can be chosen from")
    uniform = np.full(len(shown), 1.0 / max(n_ads, 1))
    logged = uniform if propensities is None else finite_floats(propensities, 1, "propensities")
    if people.shape[1] == 0:
        raise InvalidInput("contexts have no features: there is nothing to choose an ad by")
    if np.abs(people).max(initial=0.0) > MAX_CONTEXT:
        raise InvalidInput(f"contexts have numbers beyond {MAX_CONTEXT:g}, which cannot be scaled")
    if not len(people) == len(shown) == len(earned) == len(logged):
        raise InvalidInput("contexts, ads, rewards and propensities differ in length")
    impossible = np.flatnonzero((logged <= 0.0) | (logged > 1.0))
    if len(impossible):
        raise InvalidInput(
            f"row {impossible[0]}: the propensity is {logged[impossible[0]]}; what was shown had one above 0, at most 1"
        )
    if len(shown) == 0 or shown.min() < 0 or shown.max() >= n_ads:
        raise InvalidInput(f"ads are numbers from 0 to {n_ads - 1}, at least one row of them")
    return AdLog(people, shown, earned, logged, n_ads)


def training_rows(log: ChoiceLog, encoding: Encoding, seed: int, share: float) -> AdLog:
    """The rows of a random `share` of the log, up to half a million."""
    parts: list[AdLog] = []
    for rows, training in split_rows(log, encoding, seed, share):
        parts.append(rows.take(training))
        if sum(len(part.ads) for part in parts) >= MAX_TRAINING_ROWS:
            break
    if not parts:
        raise InvalidInput(f"{log.name} has no rows")
    return AdLog(
        np.concatenate([part.contexts for part in parts]),
        np.concatenate([part.ads for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.propensities for part in parts]),
        len(encoding.ads),
    )


def split_rows(log: ChoiceLog, encoding: Encoding, seed: int, share: float) -> Iterator[tuple[AdLog, Mask]]:
    """Every piece of the log, and which of its rows are for training: the same ones in every pass."""
    rng, where = default_rng(seed), log.name
    for piece in log.pieces():
        training = rng.random(len(piece.reward)) < share
        # checked before rows are left out, so that a fault is named by its row in the file
        rows_of(piece.reward, piece.propensity, np.zeros(len(piece.reward)), first_row=piece.first_row, where=where)
        ads, contexts = encoding.ads_of(piece, where), encoding.contexts_of(piece)
        yield AdLog(contexts, ads, piece.reward, piece.propensity, len(encoding.ads)), training
