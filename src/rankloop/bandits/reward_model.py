"""A reward model for off-policy estimators: least squares of the reward on the context, per ad."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankloop.core.types import Floats

if TYPE_CHECKING:
    from rankloop.bandits.ad_log import AdLog


class RewardModel(NamedTuple):
    """The expected reward base[a] + weights[a] · x of ad a for context x, clipped to the range of logged rewards."""

    base: Floats
    weights: Floats  # (n_ads, n_context)
    least: float
    most: float

    def predict(self, contexts: Floats) -> Floats:
        """Return the expected rewards, (n_visitors, n_ads)."""
        return np.clip(self.base + contexts @ self.weights.T, self.least, self.most)


def fit_reward_model(log: "AdLog", ridge: float = 10.0) -> RewardModel:
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
    least, most = float(log.rewards.min()), float(log.rewards.max())
    return RewardModel(base - weights @ centre, weights, least, most)
