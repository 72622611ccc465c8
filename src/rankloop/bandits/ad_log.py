"""A log of single choices as arrays: context, shown ad, its probability, and the reward."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Bools, Floats, Ints
from rankloop.logs.choice_log import ChoiceLog, rows_of
from rankloop.logs.context import Encoding

MAX_TRAINING_ROWS = 500_000


class RewardModel(NamedTuple):
    """The expected reward base[a] + weights[a] · x of ad a for context x, clipped to the range of logged rewards."""

    base: Floats
    weights: Floats  # (n_ads, n_context)
    least: float
    most: float

    def predict(self, contexts: Floats) -> Floats:
        """Return the expected rewards, (n_visitors, n_ads)."""
        return np.clip(self.base + contexts @ self.weights.T, self.least, self.most)


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

    def reward_model(self, ridge: float = 10.0) -> RewardModel:
        """Fit a ridge regression per ad; the mean of an ad is shrunk to that of all, by as many rows as `ridge`."""
        overall, n_context = float(self.rewards.mean()), self.contexts.shape[1]
        centre = self.contexts.mean(axis=0)
        base, weights = np.full(self.n_ads, overall), np.zeros((self.n_ads, n_context))
        for ad in range(self.n_ads):
            is_ad = self.ads == ad
            rows, rewards = self.contexts[is_ad] - centre, self.rewards[is_ad]
            base[ad] = (rewards.sum() + ridge * overall) / (len(rewards) + ridge)
            gram = rows.T @ rows + ridge * np.eye(n_context)
            weights[ad] = np.linalg.solve(gram, rows.T @ (rewards - base[ad]))
        return RewardModel(base - weights @ centre, weights, float(self.rewards.min()), float(self.rewards.max()))


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
