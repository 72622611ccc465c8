"""rankloop in the shop without fields: the few columns that one makes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log1p

from rankloop import Ranker
from research.shop.world import SHOWN, Fields


class ByHand:
    """Seven numbers per product, without the visitor, the brand or memory of a product: all that 0.1 takes readily."""

    names = ("log_price", "rating", "unrated", "log_age", "discount", "in_stock", "matches")

    def __init__(self, seed: int, learner: str = "fair_pairs") -> None:
        self.ranker = Ranker(learner, features=self.names, shown=SHOWN, seed=seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        words = set((context["query"] or "").split())
        self.impression = self.ranker.rank({i: self._numbers(row, words) for i, row in enumerate(candidates)})
        return [int(item) for item in self.impression.ids]

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        self.ranker.learn(self.impression, clicks=[order[position] for position in clicks])

    def _numbers(self, row: Fields, words: set[str]) -> dict[str, float]:
        unrated = row["rating"] is None
        rating = 0.0 if unrated else row["rating"] - 3.9
        matches = len(words & set(row["title"].split()))
        numbers = (log(row["price"]) - 8.2, rating, unrated, log1p(row["age_days"]) / 5, row["discount"])
        return dict(zip(self.names, map(float, (*numbers, row["in_stock"], matches))))
