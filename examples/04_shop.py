"""A shop that learns from clicks: fields of products and users, and an explanation of one position.

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
quality = {product: rng.gauss(0, 0.7) for product in products}  # not visible in the fields


def is_clicked(user: dict[str, str], product: str) -> bool:
    """Simulate whether a user clicks a product that they see."""
    row = products[product]
    utility = taste[user["segment"], row["brand"]] + quality[product] - (row["price"] > 5000)
    utility += 1.5 * (user["query"] in row["title"])
    return rng.random() < 1 / (1 + 2.71828 ** (2 - utility))


def main() -> None:
    ranker = Ranker(
        "click_regression",
        features={"sku": "id", "brand": "category", "price": "number", "title": "words", "rating": "number"},
        context={"segment": "category", "query": "words"},
        crosses=["segment*brand", "segment*price", "query*title"],
        shown=5,
    )
    learned, unordered = [], []
    for _ in range(4000):
        user = {"segment": rng.choice(SEGMENTS), "query": rng.choice(["shoes", "jacket", "socks"])}
        candidates = rng.sample(sorted(products), 20)
        shown = ranker.rank({product: products[product] for product in candidates}, context=user)
        clicks = [product for product in shown.ids[:5] if is_clicked(user, product)]
        ranker.learn(shown, clicks=clicks)
        learned.append(len(clicks))
        unordered.append(sum(is_clicked(user, product) for product in candidates[:5]))
    print(f"clicks per page, random order:   {sum(unordered) / 4000:.2f}")
    print(f"clicks per page, first 500:      {sum(learned[:500]) / 500:.2f}")
    print(f"clicks per page, last 500:       {sum(learned[-500:]) / 500:.2f}")
    print(f"\nWhy {shown.ids[0]} was first for a {user['segment']} who searches for {user['query']}:")
    for part in ranker.explain(shown, shown.ids[0]).contributions[:6]:
        print(f"  {part.contribution:+.2f}  {part.name}")


if __name__ == "__main__":
    main()
