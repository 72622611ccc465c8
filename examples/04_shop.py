"""A shop that learns: products and visitors as they are, clicks that come back, and why an item stands where it does.

python examples/04_shop.py
"""

import random

from rankloop import Ranker

BRANDS, SEGMENTS = ["Acme", "Bolt", "Cozy", "Dune"], ["runner", "student", "parent"]
rng = random.Random(7)
products = {
    f"p-{number}": {
        "brand": rng.choice(BRANDS),
        "price": round(rng.lognormvariate(8, 0.8)),  # cents
        "title": rng.choice(["red", "blue", "light", "warm"]) + " " + rng.choice(["shoes", "jacket", "socks"]),
        "rating": rng.choice([None, 3.0, 4.0, 4.5, 5.0]),
    }
    for number in range(400)
}
taste = {(segment, brand): rng.gauss(0, 1) for segment in SEGMENTS for brand in BRANDS}
quality = {product: rng.gauss(0, 0.7) for product in products}  # what no field tells


def wanted(visitor: dict[str, str], product: str) -> bool:
    """Whether this visitor clicks on the product once it is seen."""
    row = products[product]
    like = taste[visitor["segment"], row["brand"]] + quality[product] - (row["price"] > 5000)
    like += 1.5 * (visitor["query"] in row["title"])
    return rng.random() < 1 / (1 + 2.71828 ** (2 - like))


def main() -> None:
    ranker = Ranker(
        "click_regression",
        features={"sku": "id", "brand": "category", "price": "number", "title": "words", "rating": "number"},
        context={"segment": "category", "query": "words"},
        crosses=["segment*brand", "segment*price", "query*title"],
        shown=5,
    )
    learned, by_chance = [], []
    for _ in range(4000):
        visitor = {"segment": rng.choice(SEGMENTS), "query": rng.choice(["shoes", "jacket", "socks"])}
        candidates = rng.sample(sorted(products), 20)
        shown = ranker.rank({product: products[product] for product in candidates}, context=visitor)
        clicks = [product for product in shown.ids[:5] if wanted(visitor, product)]
        ranker.learn(shown, clicks=clicks)
        learned.append(len(clicks))
        by_chance.append(sum(wanted(visitor, product) for product in candidates[:5]))
    print(f"clicks per page, any order:      {sum(by_chance) / 4000:.2f}")
    print(f"clicks per page, first 500:      {sum(learned[:500]) / 500:.2f}")
    print(f"clicks per page, last 500:       {sum(learned[-500:]) / 500:.2f}")
    print(f"\nWhy {shown.ids[0]} was first for a {visitor['segment']} who looks for {visitor['query']}:")
    for part in ranker.explain(shown, shown.ids[0]).contributions[:6]:
        print(f"  {part.contribution:+.2f}  {part.name}")


if __name__ == "__main__":
    main()
