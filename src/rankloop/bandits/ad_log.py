"""A log of single choices as arrays: context, shown ad, its probability, and the reward."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Bools, Floats, Ints, finite_floats, item_indices, whole_number
from rankloop.logs.choice_log import ChoiceLog, rows_of
from rankloop.logs.context import Encoding

MAX_CONTEXT = 1e100  # squares and sums of numbers up to this stay finite
MAX_TRAINING_ROWS = 500_000
MAX_ADS = 100_000


class AdLog(NamedTuple):
    """Shown ads with contexts and rewards, one row per impression; ads count from 0."""

    contexts: Floats  # (n, n_context)
    ads: Ints
    rewards: Floats
    propensities: Floats  # the probability with which the ad was shown
    n_ads: int

    def take(self, rows: ArrayLike) -> "AdLog":
        """Return the log of some rows, given by a mask or by numbers."""
        kept = np.asarray(rows)
        return AdLog(self.contexts[kept], self.ads[kept], self.rewards[kept], self.propensities[kept], self.n_ads)


def ad_log(
    contexts: ArrayLike, ads: ArrayLike, rewards: ArrayLike, propensities: ArrayLike | None = None, n_ads: int = 0
) -> AdLog:
    """Make a log from arrays.

    Args:
      contexts: One row of features per impression.
      ads: The number of the shown ad, from 0.
      rewards: What it earned.
      propensities: The probability with which it was shown; None: 1 / n_ads.
      n_ads: The number of ads; 0: the largest in `ads`, plus 1.
    """
    features, shown = finite_floats(contexts, 2, "contexts"), item_indices(ads, "ads")
    earned = finite_floats(rewards, 1, "rewards")
    n_ads = whole_number(n_ads, "n_ads", 0) or int(shown.max(initial=-1)) + 1
    if n_ads > MAX_ADS:
        raise InvalidInput(f"n_ads is too large: there may be at most {MAX_ADS:,} ads")
    uniform = np.full(len(shown), 1.0 / max(n_ads, 1))
    logged = uniform if propensities is None else finite_floats(propensities, 1, "propensities")
    if features.shape[1] == 0:
        raise InvalidInput("contexts have no features; give at least one column")
    if np.abs(features).max(initial=0.0) > MAX_CONTEXT:
        raise InvalidInput(f"contexts have numbers beyond {MAX_CONTEXT:g}; scale them")
    if not len(features) == len(shown) == len(earned) == len(logged):
        raise InvalidInput("contexts, ads, rewards and propensities differ in length")
    impossible = np.flatnonzero((logged <= 0.0) | (logged > 1.0))
    if len(impossible):
        raise InvalidInput(
            f"row {impossible[0]}: the propensity is {logged[impossible[0]]}; it must be above 0 and at most 1"
        )
    if len(shown) == 0 or shown.min() < 0 or shown.max() >= n_ads:
        raise InvalidInput(f"ads are numbers from 0 to {n_ads - 1}, at least one row of them")
    return AdLog(features, shown, earned, logged, n_ads)


def training_rows(log: ChoiceLog, encoding: Encoding, seed: int, share: float) -> AdLog:
    """Return the rows of a random share of the log, up to half a million.

    Args:
      log: The log.
      encoding: The ads and the columns of the context.
      seed: Of the random share.
      share: The probability of each row.
    """
    parts: list[AdLog] = []
    for rows, training in split_rows(log, encoding, seed, share):
        parts.append(rows.take(training))
        if sum(len(part.ads) for part in parts) >= MAX_TRAINING_ROWS:
            break
    if not parts:
        raise InvalidInput(f"{log.name} has no rows")
    contexts, ads, rewards, propensities = (np.concatenate([part[column] for part in parts]) for column in range(4))
    return AdLog(contexts, ads, rewards, propensities, len(encoding.ads))


def split_rows(log: ChoiceLog, encoding: Encoding, seed: int, share: float) -> Iterator[tuple[AdLog, Bools]]:
    """Yield every piece of the log with a mask of its training rows, the same ones in every pass.

    Args:
      log: The log.
      encoding: The ads and the columns of the context.
      seed: Of the random share.
      share: The probability of each row to be for training.
    """
    rng, where = default_rng(seed), log.name
    for piece in log.pieces():
        training = rng.random(len(piece.reward)) < share
        # Checked before rows are left out, so that an error names the row of the file.
        rows_of(piece.reward, piece.propensity, np.zeros(len(piece.reward)), first_row=piece.first_row, where=where)
        ads, contexts = encoding.ads_of(piece, where), encoding.contexts_of(piece)
        yield AdLog(contexts, ads, piece.reward, piece.propensity, len(encoding.ads)), training


class RewardModel(NamedTuple):
    """The expected reward base[a] + weights[a] · x of ad a for context x, clipped to the range of logged rewards."""

    base: Floats
    weights: Floats  # (n_ads, n_context)
    least: float
    most: float

    def predict(self, contexts: Floats) -> Floats:
        """Return the expected rewards, (n_visitors, n_ads)."""
        return np.clip(self.base + contexts @ self.weights.T, self.least, self.most)


def fit_reward_model(log: AdLog, ridge: float = 10.0) -> RewardModel:
    """Fit a ridge regression per ad; the mean of each ad is shrunk to the mean of all.

    Args:
      log: The shown ads and their rewards.
      ridge: The strength of both shrinkages, in rows.
    """
    overall, n_context = float(log.rewards.mean()), log.contexts.shape[1]
    centre = log.contexts.mean(axis=0)
    base, weights = np.full(log.n_ads, overall), np.zeros((log.n_ads, n_context))
    for ad in range(log.n_ads):
        is_ad = log.ads == ad
        rows, rewards = log.contexts[is_ad] - centre, log.rewards[is_ad]
        base[ad] = (rewards.sum() + ridge * overall) / (len(rewards) + ridge)
        gram = rows.T @ rows + ridge * np.eye(n_context)
        weights[ad] = np.linalg.solve(gram, rows.T @ (rewards - base[ad]))
    return RewardModel(base - weights @ centre, weights, float(log.rewards.min()), float(log.rewards.max()))
