"""Clicks or purchases? A shop whose cheap items are clicked and whose good items are bought.

python examples/06_outcomes.py
"""

import random

from rankloop import Ranker

PURCHASE = {"purchase": {"weight": 20, "window": "7d"}}


def purchases_per_page(ranker: Ranker, rng: random.Random, pages: int = 1500) -> float:
    """Return the purchases per page among the last 500 pages."""
    bought = []
    for _ in range(pages):
        page = {f"p-{number}": {"cheap": rng.random(), "good": rng.random()} for number in range(8)}
        shown = ranker.rank(page)
        clicks = [item for item in shown.ids[:4] if rng.random() < 0.6 * page[item]["cheap"]]
        orders = [item for item in clicks if rng.random() < page[item]["good"] ** 3]
        ranker.learn(shown, clicks=clicks)
        if orders and ranker.outcomes:  # days later
            ranker.learn(shown, outcomes={"purchase": dict.fromkeys(orders, 1)})
        bought.append(len(orders))
    return sum(bought[-500:]) / 500


def main() -> None:
    features = ["cheap", "good"]
    for name, outcomes in (("clicks", {}), ("clicks and purchases", PURCHASE)):
        ranker = Ranker("newton_pairs", features=features, shown=4, outcomes=outcomes)
        print(f"learned from {name}: {purchases_per_page(ranker, random.Random(3)):.2f} purchases per page")


if __name__ == "__main__":
    main()
