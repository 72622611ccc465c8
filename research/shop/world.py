"""A simulated shop: products and visitors as shops have them, and clicks that fall off by position.

A product is a plain dict of raw values, a visitor one too; what makes users click is known to the simulation alone.
Part of it no field tells (the product's own quality), part only fields together (a segment's taste for a brand).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from rankloop.core.types import Floats, Ints

Fields = dict[str, Any]
N_CANDIDATES, SHOWN, VISITS_A_DAY = 50, 10, 1000
N_LIVE, N_CHURN = 5000, 48_000  # products on the shelves at once, and those that come by in CHURN_VISITS
CHURN_VISITS = 30_000
EXAMINATION_BY_POSITION = (1.0 + np.arange(SHOWN)) ** -0.7  # by position

SEGMENTS = ("bargain", "family", "student", "professional", "luxury", "senior")
DEVICES = ("phone", "tablet", "desktop")
TAGS = ("eco", "gift", "handmade", "imported", "limited", "local", "organic", "outlet", "premium", "vegan")
N_BRANDS, N_CATEGORIES, N_NOUNS, N_ADJECTIVES = 40, 8, 8, 30
N_WORDS = N_CATEGORIES * N_NOUNS + N_ADJECTIVES


def made_up(n: int, syllables: int) -> list[str]:
    """Different made-up words."""
    rng, words = default_rng(0), dict[str, None]()
    while len(words) < n:
        parts = zip(rng.integers(0, 12, syllables), rng.integers(0, 5, syllables))
        words["".join("bdfgklmnprst"[i] + "aeiou"[j] for i, j in parts)] = None
    return list(words)


WORDS = made_up(N_WORDS, 3)

# What all sides are told: the kinds of the fields, and which of them matter together.
FEATURES = {
    "sku": "id",
    "title": "words",
    "brand": "category",
    "category": "category",
    "price": "number",
    "rating": "number",
    "age_days": "number",
    "discount": "number",
    "in_stock": "flag",
    "tags": "category",
}
CONTEXT = {"segment": "category", "device": "category", "query": "words", "section": "category"}
CROSSES = (
    "segment*brand",
    "segment*price",
    "segment*discount",
    "device*category",
    "section*category",
    "query*category",
    "query*title",
)

# What a segment pays: from where on it is too dear, how much that matters, and what a discount is worth to it.
TOO_DEAR = np.log([1500.0, 4000.0, 2000.0, 10_000.0, 40_000.0, 5000.0])
EXPENSIVE_DISLIKE = np.array([1.3, 0.9, 1.2, 0.7, 0.4, 0.8])
TOO_CHEAP = np.log([100.0, 800.0, 100.0, 2500.0, 9000.0, 1000.0])
CHEAP_DISLIKE = np.array([0.0, 0.4, 0.0, 0.7, 1.2, 0.5])
OF_DISCOUNT = np.array([4.0, 2.5, 3.0, 1.0, 0.0, 1.5])
BASE, SCALE = -2.8, 0.85  # of the utility: such that a random page gets .57 clicks and the best one 1.86
IN_SECTION, SAME_WORD, OUT_OF_STOCK, NEW = 1.5, 1.5, -1.2, 0.5


class Visit(NamedTuple):
    """Somebody comes by: the candidates, who asks, and what they will do, whatever is shown."""

    candidates: list[Fields]
    context: Fields
    attraction: Floats  # the probability of a click on each candidate once it is examined
    draws: Floats  # of each candidate
    position_draws: Floats

    def clicks(self, order: Sequence[int]) -> list[int]:
        """Positions that are clicked when the candidates are shown in this order."""
        page = np.asarray(order[:SHOWN])
        is_examined = self.position_draws[: len(page)] < EXAMINATION_BY_POSITION[: len(page)]
        clicked: list[int] = np.flatnonzero(is_examined & (self.draws[page] < self.attraction[page])).tolist()
        return clicked

    def expected(self, order: Sequence[int]) -> float:
        """Return the expected number of clicks on a page in this order."""
        page = np.asarray(order[:SHOWN])
        return float(EXAMINATION_BY_POSITION[: len(page)] @ self.attraction[page])

    def best(self) -> list[int]:
        """The order that gets the most clicks."""
        order: list[int] = np.argsort(-self.attraction, kind="stable").tolist()
        return order


class Tastes:
    """Preferences of the segments; every shop has its own."""

    def __init__(self, rng: Generator) -> None:
        self.brands = rng.normal(0, 0.9, (len(SEGMENTS), N_BRANDS))
        self.categories = rng.normal(0, 0.5, (len(DEVICES), N_CATEGORIES))
        self.tags = rng.normal(0, 0.3, len(TAGS))
        words = rng.normal(0, 0.12, (N_WORDS, N_WORDS)) + SAME_WORD * np.eye(N_WORDS)
        self.words = np.hstack([words, np.zeros((N_WORDS, 1))])  # of a query's word for a title's; the last is no word


class Products:
    """Everything that is ever sold; product n has slot[n] of the shelves from its arrival until that is taken again."""

    def __init__(self, n_products: int, n_live: int, rng: Generator) -> None:
        n = n_products
        later = rng.integers(0, n_live, n - n_live)
        self.slot = np.concatenate([np.arange(n_live), later])
        category_of_slot = rng.permutation(np.arange(n_live) % N_CATEGORIES)
        self.category = category_of_slot[self.slot]
        common = (1.0 + np.arange(N_BRANDS)) ** -0.7
        self.brand = rng.choice(N_BRANDS, n, p=common / common.sum())
        level = rng.permutation(np.linspace(7.6, 8.8, N_CATEGORIES))[self.category]
        self.price = np.round(np.exp(level + rng.standard_t(4, n) * 0.7)).clip(50, 5_000_000).astype(int)  # cents
        self.rating = np.round(np.clip(rng.normal(3.9, 0.6, n), 1, 5), 1)
        self.rated = rng.random(n) < 0.8
        self.discount = np.where(rng.random(n) < 0.3, rng.choice([0.05, 0.1, 0.15, 0.2, 0.3, 0.5], n), 0.0)
        self.in_stock = rng.random(n) < 0.93
        self.tags = rng.random((n, len(TAGS))) < 0.15
        self.words = self._titles(rng)
        self.quality = rng.normal(0, 0.5, n)
        age = np.round(rng.exponential(120.0, n)).astype(int)
        self.age = np.where(np.arange(n) < n_live, age, 0)  # days when it arrived

    def _titles(self, rng: Generator) -> Ints:
        """Two or three nouns of the category and two to five adjectives; short titles end in no word."""
        n = len(self.category)
        nouns = rng.permuted(np.tile(np.arange(N_NOUNS), (n, 1)), axis=1)[:, :3] + N_NOUNS * self.category[:, None]
        adjectives = rng.permuted(np.tile(np.arange(N_ADJECTIVES), (n, 1)), axis=1)[:, :5] + N_CATEGORIES * N_NOUNS
        nouns[rng.random(n) < 0.5, 2] = N_WORDS
        adjectives[np.arange(5) >= rng.integers(2, 6, n)[:, None]] = N_WORDS
        return np.hstack([nouns, adjectives])


class Shop:
    """Visits, one after the other: the same for the same seed, whoever ranks.

    With more products than `n_live` they come and go: `n_products` in `CHURN_VISITS` visits.
    """

    def __init__(self, seed: int, n_products: int = N_LIVE, n_live: int = N_LIVE) -> None:
        tastes, products, popularity, self.visitors = SeedSequence(seed).spawn(4)
        self.tastes = Tastes(default_rng(tastes))
        self.products = Products(n_products, n_live, default_rng(products))
        self.popularity = np.exp(default_rng(popularity).normal(0, 1.2, n_live))  # of a slot among the candidates
        self.n_live = n_live

    def visits(self, n: int) -> Iterator[Visit]:
        """Yield visits."""
        rng, shelves = default_rng(self.visitors), Shelves(self.products, self.n_live)
        for t in range(n):
            if t % VISITS_A_DAY == 0:
                shelves.open(t // VISITS_A_DAY)
            shelves.stock(t)
            yield self._visit(shelves, rng)

    def _visit(self, shelves: "Shelves", rng: Generator) -> Visit:
        segment, device, section = (int(rng.integers(n)) for n in (len(SEGMENTS), len(DEVICES), N_CATEGORIES))
        query = _query(section, rng)
        context = {
            "segment": SEGMENTS[segment],
            "device": DEVICES[device],
            "query": " ".join(WORDS[word] for word in query) or None,
            "section": None if query else f"section {section}",
        }
        likely = self.popularity * np.where(self.products.category[: self.n_live] == section, 10.0, 1.0)
        waits = -np.log(rng.random(self.n_live)) / likely
        numbers = shelves.product[np.argpartition(waits, N_CANDIDATES)[:N_CANDIDATES]]
        utility = self.utility(numbers, shelves.age(numbers), segment, device, section, query)
        attraction = 1 / (1 + np.exp(-(BASE + SCALE * utility)))
        candidates = [shelves.row(number) for number in numbers.tolist()]
        return Visit(candidates, context, attraction, rng.random(N_CANDIDATES), rng.random(SHOWN))

    def utility(self, numbers: Ints, age: Ints, segment: int, device: int, section: int, query: list[int]) -> Floats:
        """Return a visitor's utility of products."""
        products, tastes = self.products, self.tastes
        price, category = np.log(products.price[numbers]), products.category[numbers]
        dear = EXPENSIVE_DISLIKE[segment] * np.maximum(price - TOO_DEAR[segment], 0.0)
        cheap = CHEAP_DISLIKE[segment] * np.maximum(TOO_CHEAP[segment] - price, 0.0)
        rating = np.where(products.rated[numbers], 0.5 * (products.rating[numbers] - 3.9), -0.2)
        utilities: Floats = (
            products.quality[numbers]
            + tastes.brands[segment, products.brand[numbers]]
            + tastes.categories[device, category]
            + products.tags[numbers] @ tastes.tags
            + OF_DISCOUNT[segment] * products.discount[numbers]
            + OUT_OF_STOCK * ~products.in_stock[numbers]
            + NEW * np.exp(-age / 14.0)
            + IN_SECTION * (category == section)
            + tastes.words[query][:, products.words[numbers]].sum(axis=(0, 2))
            + rating
            - dear
            - cheap
        )
        return utilities


class Shelves:
    """Products on sale at a time."""

    def __init__(self, products: Products, n_live: int) -> None:
        self.products, self.n_live, self.there = products, n_live, n_live
        self.product = np.arange(n_live)  # by slot
        self.since = np.zeros(len(products.slot), dtype=int)  # the day of arrival

    def open(self, day: int) -> None:
        """Ages change over night: every product has a new row."""
        self.day, self.rows = day, dict[int, Fields]()

    def stock(self, t: int) -> None:
        """Replace products by those that arrived until visit t."""
        n_new = len(self.products.slot) - self.n_live
        arrived = slice(self.there, self.n_live + min(n_new * t // CHURN_VISITS, n_new))
        self.product[self.products.slot[arrived]] = np.arange(arrived.start, arrived.stop)
        self.since[arrived], self.there = self.day, arrived.stop

    def age(self, numbers: Any) -> Any:
        """Return the age of products."""
        return self.products.age[numbers] + self.day - self.since[numbers]

    def row(self, number: int) -> Fields:
        """One dict per product and day."""
        if number not in self.rows:
            products = self.products
            self.rows[number] = {
                "sku": f"sku-{number:05d}",
                "title": " ".join(WORDS[word] for word in products.words[number] if word < N_WORDS),
                "brand": f"brand {products.brand[number]}",
                "category": f"section {products.category[number]}",
                "price": int(products.price[number]),
                "rating": float(products.rating[number]) if products.rated[number] else None,
                "age_days": int(self.age(number)),
                "discount": float(products.discount[number]),
                "in_stock": bool(products.in_stock[number]),
                "tags": [tag for tag, has in zip(TAGS, products.tags[number]) if has],
            }
        return self.rows[number]


def _query(section: int, rng: Generator) -> list[int]:
    """Most visitors search for a noun of the section, half of them with an adjective; the others look around in it."""
    searches, adjectives = rng.random() < 0.7, rng.random() < 0.5
    noun, adjective = section * N_NOUNS + rng.integers(N_NOUNS), N_CATEGORIES * N_NOUNS + rng.integers(N_ADJECTIVES)
    words = [int(noun), int(adjective)] if adjectives else [int(noun)]
    return words if searches else []
