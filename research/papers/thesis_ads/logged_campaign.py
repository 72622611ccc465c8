"""A simulated campaign whose visitors are logged under a policy, and on which a policy has a true click rate."""

import numpy as np
from numpy.random import Generator

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.campaign import Campaign, sigmoid
from rankloop.bandits.policies import Policy
from rankloop.core.kernels import normals
from rankloop.core.types import Floats, Ints


def choose(probabilities: Floats, rng: Generator) -> Ints:
    """Draw one ad per row."""
    edges = np.cumsum(probabilities, axis=1)
    choices = (rng.random(len(edges))[:, None] * edges[:, -1:] >= edges).sum(axis=1)
    return np.asarray(np.minimum(choices, probabilities.shape[1] - 1), dtype=np.int64)


class LoggedCampaign(Campaign):
    """The stream `campaign` for many visitors at once."""

    def click_probabilities(self, contexts: Floats) -> Floats:
        """Return the probability of a click, (n_visitors, n_ads)."""
        return sigmoid(self.offsets + contexts @ self.tastes.T)

    def log(self, policy: Policy, n: int, rng: Generator) -> AdLog:
        """Return what a policy would log with `n` visitors."""
        contexts = normals(rng, n, self.n_context)
        shown = policy.probabilities(contexts)
        ads = choose(shown, rng)
        chosen = np.arange(n), ads
        clicks = (rng.random(n) < self.click_probabilities(contexts)[chosen]).astype(np.float64)
        return AdLog(contexts, ads, clicks, shown[chosen], len(self.rates))

    def value(self, policy: Policy, n: int, rng: Generator) -> float:
        """Return the policy's true click rate over `n` visitors, without the noise of clicks."""
        contexts = normals(rng, n, self.n_context)
        return float((policy.probabilities(contexts) * self.click_probabilities(contexts)).sum(axis=1).mean())
