"""Shops whose truth is known, as tables of their own logs."""

import numpy as np
import pyarrow as pa

EXAMINED = 1.0 / np.arange(1, 7) ** 0.7


def shop(kind: str, n_pages: int = 1000, n_products: int = 60, seed: int = 0, moved: float = 0.3) -> pa.Table:
    """Six products of sixty on a page. Cheap products of a good brand attract, unless clicks are `noise`.

    Today's order: in `helps` by stock, which nobody cares for; in `best` by what attracts; both a little shuffled.
    """
    rng = np.random.default_rng(seed)
    price, stock, brand = rng.random(n_products), rng.random(n_products), rng.integers(0, 3, n_products)
    wanted = 0.1 + 0.5 * (1 - price) + 0.25 * (brand == 1)
    attraction = np.full(n_products, 0.3) if kind == "noise" else wanted * 0.9
    rows = []
    for page in range(n_pages):
        query = int(rng.integers(10))
        candidates = (np.arange(12) * 5 + query) % n_products
        chosen = rng.choice(candidates, 6, replace=False)
        score = attraction[chosen] if kind == "best" else stock[chosen]
        order = chosen[np.argsort(-score + moved * score.std() * rng.normal(size=6), kind="stable")]
        for position, item in enumerate(order.tolist()):
            click = rng.random() < EXAMINED[position] * attraction[item]
            bought = click and rng.random() < 0.2
            rows.append(
                {
                    "session": f"s{page // 2}",
                    "query": f"query {query}",
                    "position": position + 1,
                    "product": f"p{item}",
                    "clicked": int(click),
                    "purchased": int(bought),
                    "price": round(10 + 90 * float(price[item]), 2),
                    "stock": round(float(stock[item]), 3),
                    "brand": f"brand {brand[item]}",
                    "true_attraction": float(attraction[item]),
                }
            )
    return pa.Table.from_pylist(rows)
