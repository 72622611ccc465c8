"""Who ranks in the shop: at random, by popularity, rankloop, and VowpalWabbit where it is installed.

All get raw rows, the same fields and the same crosses.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rankloop.ranker import Ranker
from research.shop.columns import FIELD_LETTERS, Kept, as_text
from research.shop.world import CONTEXT, CROSSES, FEATURES, SHOWN, Fields

CROSSED_FIELDS = [cross.split("*") for cross in CROSSES]


class Arm(Protocol):
    """Ranker in the simulated shop.

    It ranks the candidates of a page and learns from the clicks.
    """

    def rank(self, candidates: list[Fields], context: Fields) -> Sequence[int]:
        """Return the order of the candidates, best first."""

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        """Learn from the clicks on the last page."""


def best_first(scores: Any) -> list[int]:
    """Return the order by falling scores."""
    order: list[int] = np.argsort(-np.asarray(scores), kind="stable").tolist()
    return order


class RandomOrder:
    """Baseline that shows a random order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        """Return a random order."""
        return self.random.sample(range(len(candidates)), len(candidates))

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        """Ignore the clicks."""


class Popularity:
    """The click rate of each product so far, as if it had been shown `prior` times at the rate of all."""

    def __init__(self, seed: int, prior: float = 10.0) -> None:
        self.prior = prior
        self.shown, self.clicked = defaultdict[str, int](int), defaultdict[str, int](int)
        self.n_shown, self.n_clicked = 1, 0

    def rate(self, sku: str) -> float:
        """Return the smoothed click rate of a product."""
        return (self.clicked[sku] + self.prior * self.n_clicked / self.n_shown) / (self.shown[sku] + self.prior)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        """Return the order by click rate."""
        self.skus = [row["sku"] for row in candidates]
        return best_first([self.rate(sku) for sku in self.skus])

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        """Count impressions and clicks."""
        for position, item in enumerate(order[:SHOWN]):
            self.shown[self.skus[item]] += 1
            self.clicked[self.skus[item]] += position in clicks
        self.n_shown, self.n_clicked = self.n_shown + SHOWN, self.n_clicked + len(clicks)


class VowpalWabbit:
    """Common part of the three learners of VowpalWabbit: a letter for each field, `-q` for each cross, cached texts."""

    common = " ".join(f"-q {FIELD_LETTERS[a]}{FIELD_LETTERS[b]}" for a, b in CROSSED_FIELDS)

    def __init__(self, arguments: str, seed: int, bits: int = 22) -> None:
        from vowpalwabbit import Workspace

        self.workspace: Any = Workspace(f"{arguments} {self.common} -b {bits} --quiet")
        self.random = random.Random(seed)
        self.text = Kept(lambda row: as_text(row, FEATURES))

    def encode(self, candidates: list[Fields], context: Fields) -> None:
        """Return the context and the candidates as VowpalWabbit reads them."""
        self.shared, self.items = as_text(context, CONTEXT), [self.text(row) for row in candidates]


class Logistic(VowpalWabbit):
    """A logistic regression of the click on everything and the position; the greatest probability first."""

    def __init__(self, seed: int, arguments: str = "--ftrl --ftrl_alpha 0.3 --ftrl_beta 1 --l2 1") -> None:
        super().__init__(f"--loss_function logistic {arguments}", seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        """Return the order by predicted click probability."""
        self.encode(candidates, context)
        predict, shared = self.workspace.predict, self.shared
        return best_first([predict(f"{shared} {item}") for item in self.items])

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        """Learn from the clicks on the last page."""
        for position, item in enumerate(order[:SHOWN]):
            label = 1 if position in clicks else -1
            self.workspace.learn(f"{label} |o {position} {self.shared} {self.items[item]}")


class Rankloop:
    """The rows go in as they are; the crosses are those of all sides."""

    def __init__(self, seed: int, learner: str = "click_regression") -> None:
        self.ranker = Ranker(
            learner,
            features=FEATURES,
            context=CONTEXT,
            crosses=list(CROSSES),
            shown=SHOWN,
            seed=seed,
        )

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        """Return the order of the ranker."""
        self.impression = self.ranker.rank({row["sku"]: row for row in candidates}, context=context)
        number = {row["sku"]: item for item, row in enumerate(candidates)}
        return [number[sku] for sku in self.impression.ids]

    def encode(self, candidates: list[Fields], context: Fields) -> object:
        """Return the encoded candidates."""
        encoder = self.ranker.encoders[1]
        return encoder.rows([row["sku"] for row in candidates], candidates, context)

    def forget(self) -> None:
        """As if no row had been met; words and brands have been."""
        self.ranker.encoders[1]._known.clear()

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        """Learn from the clicks on the last page."""
        ids = self.impression.ids
        self.ranker.learn(self.impression, clicks=[ids[position] for position in clicks])
