"""Health of a ranker out of its counts and its state, and why an item stands where it does, by name."""

import math
from collections.abc import Sequence
from typing import Any

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.learner import from_layers
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import Contribution, Explanation, explained, named_weights
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.named_values import logged_values
from rankloop.service.records import Ranked

MAX_WEIGHTS = 100
MAX_NAMES = 100
MAX_ITEMS = 20  # of an impression whose names are told


def health_of(counters: Counters, config: RankerConfig, state: Any, refused: int) -> dict[str, Any]:
    """Clicks, grades, exploration, drift, and what the learner itself finds worth watching."""
    return {
        "refused": refused,
        "explored_share": ratio(counters.explored, counters.explorable),
        "ctr": ratio(counters.clicked, counters.counted),
        "ctr_recent": counters.fast if counters.counted else None,
        "ctr_by_position": [clicked / shown for clicked, shown in zip(counters.clicked_at, counters.shown_at) if shown],
        "ndcg": ratio(counters.ndcg, counters.graded),
        "drift": counters.drift(),
        **_reports(config, state),
    }


def clicks_of(counters: Counters) -> dict[str, float | None]:
    """Where people click: how often on the first item, and at which position on average."""
    first = ratio(counters.clicked_at[0], counters.shown_at[0])
    return {"ctr_first": first, "click_position": counters.click_position()}


def weights_of(config: RankerConfig, state: Any, most: int = MAX_WEIGHTS) -> dict[str, float]:
    """The largest weights, by name, where the learner is linear in the features."""
    weights = from_layers(state, "weights", ())
    problem = config.problem
    if len(weights) != problem.n_features:
        return {}
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    largest = sorted(range(len(weights)), key=lambda i: -abs(float(weights[i])))[:most]
    return {names[i]: float(weights[i]) for i in largest}


def ratio(value: float, of: float) -> float | None:
    return value / of if of else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reports(config: RankerConfig, state: Any) -> dict[str, Any]:
    """Affirmativeness, swap probability and the like."""
    found: dict[str, Any] = {}
    for path in config.learner.reports:
        value: Any = state
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and getattr(value, "ndim", 0) == 0:
            found[path.rsplit(".", 1)[-1]] = finite(float(value))
    if "swap" in found:
        found["swap_probability"] = found["swap"]
    return found


# Encoders are made anew below: this runs on threads, and those of the ranker are busy.


def explanation_of(
    config: RankerConfig, state: Any, catalogue: ItemCatalogue | None, ranked: Ranked, id: str
) -> dict[str, Any]:
    """What each value of an item adds to its score now, the largest first."""
    item = next((i for i, known in enumerate(ranked.ids) if str(known) == id), None)
    if item is None:
        raise NotFound(f"{id!r:.80} is not among the items of this impression")
    found = _explained(config, state, catalogue, ranked, item)
    return {
        "impression": ranked.impression,
        "id": found.id,
        "position": ranked.order.index(item) if item in ranked.order else None,
        "score": found.score,
        "contributions": [part._asdict() for part in found.contributions],
    }


def recent_weights(
    config: RankerConfig, state: Any, catalogue: ItemCatalogue | None, recent: Sequence[Ranked], most: int = MAX_NAMES
) -> dict[str, Any]:
    """The largest weights by name; with a schema those of the names in recent impressions."""
    if config.schema is None:
        weights = weights_of(config, state, most)
        return {"weights": [{"name": name, "weight": weight} for name, weight in weights.items()]}
    version = config.schema.version
    known = [_seen(ranked, config, catalogue) for ranked in recent if ranked.schema == version]
    named = named_weights(Encoder(config.schema), from_layers(state, "table"), known)
    largest = list(named.items())[:most]
    return {
        "weights": [
            {"name": name, "weight": weight, "shares_column_with": sharing} for name, (weight, sharing) in largest
        ],
        "impressions": [_named(ranked) for ranked in reversed(recent)],
    }


def _seen(ranked: Ranked, config: RankerConfig, catalogue: ItemCatalogue | None) -> tuple[list[Id], RawValues]:
    """The items at the top of an impression, with their values."""
    values = logged_values(ranked, config, catalogue)
    seen = ranked.order[: config.problem.shown or MAX_ITEMS][:MAX_ITEMS]
    return [ranked.ids[i] for i in seen], values._replace(rows=[values.rows[i] for i in seen])


def _explained(
    config: RankerConfig, state: Any, catalogue: ItemCatalogue | None, ranked: Ranked, item: int
) -> Explanation:
    id = ranked.ids[item]
    if ranked.schema:
        values = logged_values(ranked, config, catalogue)
        encoder = Encoder(config.encoders[ranked.schema].schema)
        table, trust = from_layers(state, "table"), memory_trust(config.learner, state)
        return explained(encoder, table, id, values.rows[item], values.context, values.at, trust)
    weights = weights_of(config, state, config.problem.n_features)
    if not weights:
        raise InvalidInput("this learner has no weight per feature, so its scores are no sums of contributions")
    names = config.problem.feature_names or [f"feature_{i}" for i in range(config.problem.n_features)]
    row = config.with_base_score(ranked.all_features)[item].tolist()
    parts = [Contribution(name, value, weights[name], value * weights[name]) for name, value in zip(names, row)]
    parts.sort(key=lambda part: (-abs(part.contribution), part.name))
    return Explanation(id, float(sum(part.contribution for part in parts)), parts)


def _named(ranked: Ranked) -> dict[str, Any]:
    shown: list[Id] = [ranked.ids[i] for i in ranked.order]
    return {"impression": ranked.impression, "query_id": ranked.query_id, "ranking": shown}
