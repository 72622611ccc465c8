"""Items and clicks with names: what an engineer who owns a search box writes."""

import random

from rankloop import Ranker

ranker = Ranker("newton_pairs", features=["title_match", "age_days", "sponsored"], seed=0)
visitors = random.Random(0)


def page() -> dict[str, dict[str, float]]:
    """Ten results; `sponsored` is left out where it is 0."""
    results = {}
    for name in "abcdefghij":
        results[name] = {"title_match": visitors.random(), "age_days": visitors.random()}
        if visitors.random() < 0.2:
            results[name]["sponsored"] = 1.0
    return results


def click(results: dict[str, dict[str, float]], order: list[str]) -> list[str]:
    """People read the first five and click what matches, is fresh and is not sponsored, with some noise."""
    liked = {id: f["title_match"] - 0.5 * f["age_days"] - f.get("sponsored", 0.0) for id, f in results.items()}
    return [id for id in order[:5] if liked[id] + visitors.gauss(0, 0.2) > 0.4]


for _ in range(2000):
    results = page()
    shown = ranker.rank(results)
    ranker.learn(shown, clicks=click(results, [str(id) for id in shown.ids]))

print("what the clicks taught:", {name: round(weight, 2) for name, weight in ranker.weights.items()})
print("features that were missing and counted as 0:", ranker.missing)
