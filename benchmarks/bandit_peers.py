"""The peers as players of rounds, each in the fastest way that its documentation shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bandit_loop import Rounds
from rankloop import Query


class VowpalWabbit:
    """`--cb_explore_adf`: text made beforehand, one prediction and one learned round at a time; costs from −1 to 0."""

    def __init__(self, arguments: str, lines: Callable[[Query], list[str]], max_reward: float = 1.0) -> None:
        self.arguments, self.lines, self.max_reward = arguments, lines, max_reward

    def __call__(self, rounds: Rounds, seed: int) -> VowpalWabbit:
        from vowpalwabbit import Workspace

        self.workspace, self.random = Workspace(f"{self.arguments} --quiet"), random.Random(seed)
        self.texts = [self.lines(query) for query, _ in rounds]
        self.shared = int(self.texts[0][0].startswith("shared"))
        return self

    def choose(self, t: int) -> int:
        self.probabilities = self.workspace.predict(self.texts[t])
        return self.random.choices(range(len(self.probabilities)), self.probabilities)[0]

    def learn(self, t: int, item: int, reward: float) -> None:
        lines = self.texts[t].copy()
        lines[item + self.shared] = (
            f"0:{-reward / self.max_reward}:{self.probabilities[item]} {lines[item + self.shared]}"
        )
        self.workspace.learn(lines)


class MABWiser:
    """A policy over arms that share the context; every arm is shown once first, as it demands."""

    def __init__(self, policy: str, **options: float) -> None:
        self.policy, self.options = policy, options

    def __call__(self, rounds: Rounds, seed: int) -> MABWiser:
        from mabwiser.mab import MAB, LearningPolicy

        self.n_arms = len(rounds[0][1])
        policy = getattr(LearningPolicy, self.policy)(**self.options)
        self.mab = MAB(list(range(self.n_arms)), policy, seed=seed)
        self.contexts = [np.append(query.context, 1.0)[None] for query, _ in rounds]
        return self

    def choose(self, t: int) -> int:
        return t if t < self.n_arms else int(self.mab.predict(self.contexts[t]))

    def learn(self, t: int, item: int, reward: float) -> None:
        self.mab.partial_fit([item], [reward], self.contexts[t])


class RiverBandit:
    """river's contextual policy: a Bayesian linear regression per arm."""

    def __init__(self, **options: float) -> None:
        self.options = options

    def __call__(self, rounds: Rounds, seed: int) -> RiverBandit:
        from river.bandit import LinUCBDisjoint

        self.policy: Any = LinUCBDisjoint(seed=seed, **self.options)
        self.arms = list(range(len(rounds[0][1])))
        self.contexts = [dict(enumerate([*query.context.tolist(), 1.0])) for query, _ in rounds]
        return self

    def choose(self, t: int) -> int:
        return int(self.policy.pull(self.arms, self.contexts[t]))

    def learn(self, t: int, item: int, reward: float) -> None:
        self.policy.update(item, self.contexts[t], reward)


class RiverRegression:
    """A regression of the reward on an item's features; the best item, or any with probability epsilon."""

    def __init__(self, epsilon: float, step: float) -> None:
        self.epsilon, self.step = epsilon, step

    def __call__(self, rounds: Rounds, seed: int) -> RiverRegression:
        from river import linear_model, optim

        self.model: Any = linear_model.LinearRegression(optim.Adam(self.step))
        self.random = random.Random(seed)
        self.items = [[dict(enumerate(features)) for features in query.features.tolist()] for query, _ in rounds]
        return self

    def choose(self, t: int) -> int:
        items = self.items[t]
        if self.random.random() < self.epsilon:
            return self.random.randrange(len(items))
        scores = [self.model.predict_one(item) for item in items]
        return scores.index(max(scores))

    def learn(self, t: int, item: int, reward: float) -> None:
        self.model.learn_one(self.items[t][item], reward)
