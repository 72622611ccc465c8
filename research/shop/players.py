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
    """Orders the candidates, best first (numbers of candidates, at least a page), then hears which positions of the
    page were clicked."""

    def rank(self, candidates: list[Fields], context: Fields) -> Sequence[int]: ...
    def learn(self, order: Sequence[int], clicks: list[int]) -> None: ...


def best_first(scores: Any) -> list[int]:
    order: list[int] = np.argsort(-np.asarray(scores), kind="stable").tolist()
    return order


class RandomOrder:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        return self.random.sample(range(len(candidates)), len(candidates))

    def learn(self, order: Sequence[int], clicks: list[int]) -> None: ...


class Popularity:
    """The click rate of each product so far, as if it had been shown `prior` times at the rate of all."""

    def __init__(self, seed: int, prior: float = 10.0) -> None:
        self.prior = prior
        self.shown, self.clicked = defaultdict[str, int](int), defaultdict[str, int](int)
        self.n_shown, self.n_clicked = 1, 0

    def rate(self, sku: str) -> float:
        return (self.clicked[sku] + self.prior * self.n_clicked / self.n_shown) / (self.shown[sku] + self.prior)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.skus = [row["sku"] for row in candidates]
        return best_first([self.rate(sku) for sku in self.skus])

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        for position, item in enumerate(order[:SHOWN]):
            self.shown[self.skus[item]] += 1
            self.clicked[self.skus[item]] += position in clicks
        self.n_shown, self.n_clicked = self.n_shown + SHOWN, self.n_clicked + len(clicks)


class VowpalWabbit:
    """What its three ways share: a letter for each field, `-q` for each cross, text that is made once per product."""

    common = " ".join(f"-q {FIELD_LETTERS[a]}{FIELD_LETTERS[b]}" for a, b in CROSSED_FIELDS)

    def __init__(self, arguments: str, seed: int, bits: int = 22) -> None:
        from vowpalwabbit import Workspace

        self.workspace: Any = Workspace(f"{arguments} {self.common} -b {bits} --quiet")
        self.random = random.Random(seed)
        self.text = Kept(lambda row: as_text(row, FEATURES))

    def encode(self, candidates: list[Fields], context: Fields) -> None:
        self.shared, self.items = as_text(context, CONTEXT), [self.text(row) for row in candidates]


class Logistic(VowpalWabbit):
    """A logistic regression of the click on everything and the position; the greatest probability first."""

    def __init__(self, seed: int, arguments: str = "--ftrl --ftrl_alpha 0.3 --ftrl_beta 1 --l2 1") -> None:
        super().__init__(f"--loss_function logistic {arguments}", seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        predict, shared = self.workspace.predict, self.shared
        return best_first([predict(f"{shared} {item}") for item in self.items])

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
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
        self.impression = self.ranker.rank({row["sku"]: row for row in candidates}, context=context)
        number = {row["sku"]: item for item, row in enumerate(candidates)}
        return [number[sku] for sku in self.impression.ids]

    def encode(self, candidates: list[Fields], context: Fields) -> object:
        encoder = self.ranker.encoders[1]
        return encoder.rows([row["sku"] for row in candidates], candidates, context)

    def forget(self) -> None:
        """As if no row had been met; words and brands have been."""
        self.ranker.encoders[1]._known.clear()

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        ids = self.impression.ids
        self.ranker.learn(self.impression, clicks=[ids[position] for position in clicks])
