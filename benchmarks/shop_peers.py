"""Who ranks in the shop: the peers, each with the options that its documentation shows, and the orders to compare with.

All get raw rows, the same fields and the same crosses. Step sizes and the like are the best of a grid on seeds that
are not reported; `GRIDS` in `bench_shop.py` has what was tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from research.shop.columns import Kept, by_field
from research.shop.players import CROSSED_FIELDS, Popularity, RandomOrder, VowpalWabbit, best_first
from research.shop.world import CONTEXT, FEATURES, SHOWN, VISITS_A_DAY, Fields, Visit


class Oracle:
    """Knows what nobody can: the visit is told beforehand."""

    visit: Visit

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        return self.visit.best()

    def learn(self, order: Sequence[int], clicks: list[int]) -> None: ...


class ContextualBandit(VowpalWabbit):
    """`--cb_explore_adf`: the first item is drawn and learned from, the others follow by their probabilities."""

    def __init__(self, seed: int, arguments: str = "--squarecb --gamma_scale 100") -> None:
        super().__init__(f"--cb_explore_adf {arguments}", seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        self.lines = [f"shared {self.shared}", *self.items]
        self.probabilities = self.workspace.predict(self.lines)
        drawn = self.random.choices(range(len(candidates)), self.probabilities)[0]
        return [drawn, *(item for item in best_first(self.probabilities) if item != drawn)]

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        first, cost = order[0], -int(0 in clicks)
        lines = self.lines.copy()
        lines[first + 1] = f"0:{cost}:{self.probabilities[first]} {lines[first + 1]}"
        self.workspace.learn(lines)


class ConditionalBandit(VowpalWabbit):
    """`--ccb_explore_adf`: a slot for each position of the page; what an item is worth does not depend on the slot."""

    def __init__(self, seed: int, arguments: str = "--epsilon 0 -l 2 --power_t 0.3") -> None:
        super().__init__(f"--ccb_explore_adf --ccb_no_slot_index --random_seed {seed} {arguments}", seed)

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        self.lines = [f"ccb shared {self.shared}", *(f"ccb action {item}" for item in self.items)]
        slots = self.workspace.predict([*self.lines, *(f"ccb slot |o {p}" for p in range(SHOWN))])
        self.chosen = [slot[0] for slot in slots]
        return [item for item, _ in self.chosen]

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        lines = [
            f"ccb slot {item}:{-int(position in clicks)}:{probability} |o {position}"
            for position, (item, probability) in enumerate(self.chosen)
        ]
        self.workspace.learn([*self.lines, *lines])


class River:
    """A logistic regression on dicts with FTRL.

    A plain function makes the crosses: river's own products of transformers give the same columns more slowly.
    """

    def __init__(self, seed: int, alpha: float = 0.3, beta: float = 1.0, l2: float = 1.0) -> None:
        from river import linear_model, optim

        optimizer = optim.FTRLProximal(alpha=alpha, beta=beta, l1=0.0, l2=l2)
        self.model: Any = linear_model.LogisticRegression(optimizer, intercept_lr=0.05)
        self.product = Kept(lambda row: dict(by_field(row, FEATURES)))

    def encode(self, candidates: list[Fields], context: Fields) -> None:
        asker = dict(by_field(context, CONTEXT))
        self.items = [self.crossed(self.product(row) | asker) for row in candidates]

    @staticmethod
    def crossed(fields: dict[str, Any]) -> dict[str, float]:
        row = {f"{field}={name}": value for field, named in fields.items() for name, value in named}
        for left, right in CROSSED_FIELDS:
            for a, x in fields[left]:
                for b, y in fields[right]:
                    row[f"{left}={a}*{right}={b}"] = x * y
        return row

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        predict = self.model.predict_proba_one
        return best_first([predict(item)[True] for item in self.items])

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        for position, item in enumerate(order[:SHOWN]):
            self.model.learn_one(self.items[item] | {f"position={position}": 1.0}, position in clicks)


class LightGBM:
    """Trees that are grown anew every night from all pages so far, with `position`; a random order on the first day.

    Dense columns: numbers, codes of categories, words that query and title share, and the product's click rate."""

    codes = ("brand", "category")

    def __init__(self, seed: int, n_trees: int = 200, n_leaves: int = 15, rate: float = 0.05) -> None:
        self.options = {
            "objective": "lambdarank",
            "num_leaves": n_leaves,
            "learning_rate": rate,
            "lambdarank_truncation_level": SHOWN,
            "num_threads": 1,
            "verbosity": -1,
            "seed": seed,
        }
        self.n_trees, self.random, self.popularity = n_trees, RandomOrder(seed), Popularity(seed)
        self.model: Any = None
        self.code: dict[str, dict[str | None, int]] = defaultdict(dict)
        self.log: list[tuple[Any, Any]] = []
        self.product = Kept(self._product)

    def _product(self, row: Fields) -> tuple[list[float], set[str]]:
        rating = np.nan if row["rating"] is None else row["rating"]
        numbers = [row["price"], rating, row["age_days"], row["discount"], row["in_stock"], len(row["tags"])]
        return [*(self._code(name, row[name]) for name in self.codes), *numbers], set(row["title"].split())

    def _code(self, field: str, name: str | None) -> int:
        codes = self.code["category" if field == "section" else field]
        return codes.setdefault(name, len(codes))

    def encode(self, candidates: list[Fields], context: Fields) -> None:
        self.popularity.rank(candidates, context)
        asker = [self._code(name, context[name]) for name in ("segment", "device", "section")]
        words = set((context["query"] or "").split())
        products = [self.product(row) for row in candidates]
        self.rows = np.array(
            [
                [*asker, *numbers, len(words & title), self.popularity.rate(row["sku"])]
                for (numbers, title), row in zip(products, candidates)
            ]
        )

    def rank(self, candidates: list[Fields], context: Fields) -> list[int]:
        self.encode(candidates, context)
        if self.model is None:
            return self.random.rank(candidates, context)
        return best_first(self.model.predict(self.rows, num_threads=1))

    def learn(self, order: Sequence[int], clicks: list[int]) -> None:
        self.popularity.learn(order, clicks)
        clicked = np.zeros(SHOWN)
        clicked[clicks] = 1.0
        self.log.append((self.rows[list(order[:SHOWN])], clicked))
        if len(self.log) % VISITS_A_DAY == 0:
            self.refit()

    def refit(self) -> None:
        import lightgbm

        rows, clicked = (np.concatenate(parts) for parts in zip(*self.log))
        n_pages = len(self.log)
        table = lightgbm.Dataset(
            rows,
            clicked,
            group=[SHOWN] * n_pages,
            position=np.tile(np.arange(SHOWN), n_pages),
            categorical_feature=list(range(5)),
            free_raw_data=True,
        )
        self.model = lightgbm.train(self.options, table, self.n_trees)
