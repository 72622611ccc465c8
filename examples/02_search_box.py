"""A search box that learns from clicks, with item ids and feature names.

python examples/02_search_box.py
"""

import random

from rankloop import Ranker

ranker = Ranker("newton_pairs", features=["title_match", "age_days", "sponsored"], seed=0)
draws = random.Random(0)


def page() -> dict[str, dict[str, float]]:
    """Return ten results with features; `sponsored` is left out where it is 0."""
    results = {}
    for name in "abcdefghij":
        results[name] = {"title_match": draws.random(), "age_days": draws.random()}
        if draws.random() < 0.2:
            results[name]["sponsored"] = 1.0
    return results


def simulate_clicks(results: dict[str, dict[str, float]], order: list[str]) -> list[str]:
    """Simulate clicks: on the first five results, if they match, are fresh and are not sponsored, with some noise."""
    utility = {id: f["title_match"] - 0.5 * f["age_days"] - f.get("sponsored", 0.0) for id, f in results.items()}
    return [id for id in order[:5] if utility[id] + draws.gauss(0, 0.2) > 0.4]


for _ in range(2000):
    results = page()
    shown = ranker.rank(results)
    ranker.learn(shown, clicks=simulate_clicks(results, [str(id) for id in shown.ids]))

print("learned weights:", {name: round(weight, 2) for name, weight in ranker.weights.items()})
print("missing feature values (counted as 0):", ranker.missing)
