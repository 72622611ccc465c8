"""Business rules on top of a learned order: one product is pinned, sold-out ones are hidden, brands alternate.

python examples/07_rules.py
"""

import random

from rankloop import Ranker
from rankloop.rules import AtMost, Boost, Rules

rng = random.Random(3)
products = {
    f"p-{number}": {
        "brand": rng.choice(["Acme", "Acme", "Bolt", "Cozy"]),
        "price": round(rng.lognormvariate(8, 0.8)),  # cents
        "stock": rng.choice([0, 5, 9]),
        "new": rng.random() < 0.2,
    }
    for number in range(60)
}
rules = Rules(
    pin=("p-7",),
    stock="stock",
    boost=(Boost(field="new", by=2),),
    at_most=(AtMost(field="brand", n=2, within=5),),
)


def main() -> None:
    fields = {"brand": "category", "price": "number", "stock": "number", "new": "flag"}
    ranker = Ranker("click_regression", features=fields, shown=5)
    for _ in range(500):
        candidates = {product: products[product] for product in rng.sample(sorted(products), 30)}
        page = rules.apply(ranker.rank(candidates).ids, candidates)
        clicks = [product for product in page.ids[:5] if products[product]["price"] < 2500 and rng.random() < 0.5]
        ranker.learn({product: candidates[product] for product in page.ids}, order=page.ids, clicks=clicks)
    for product in page.ids[:5]:
        rules_of = [rule for rule, touched in page.touched.items() if product in touched]
        print(product, products[product], *rules_of)


if __name__ == "__main__":
    main()
