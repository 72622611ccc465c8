"""Health of a ranker (click rate, drift alarm, exploration), its largest weights, and explanations of scores."""

import math
from collections.abc import Sequence
from typing import Any

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.learner import from_layers
from rankloop.core.session import row_in_range
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import Explanation, explain_item, explanation_of_weights, named_weights
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.drift import click_rate_drift
from rankloop.service.records import Ranked

MAX_WEIGHTS = 100
MAX_ITEMS_NAMED = 20  # of an impression, whose names are looked up


def health_of(counters: Counters, config: RankerConfig, state: Any, refused: int) -> dict[str, Any]:
    """Return click rates, grades, exploration, drift, and the numbers that the learner reports.

    Args:
      counters: The counts of the ranker.
      config: Its configuration.
      state: The state that is served.
      refused: The number of updates refused because they would have made the state non-finite.
    """
    z_score, alarm = click_rate_drift(counters)
    reports: dict[str, Any] = {}  # the numbers that the learner names, such as the swap probability
    for path in config.learner.reports:
        value: Any = state
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and getattr(value, "ndim", 0) == 0:
            reports[path.rsplit(".", 1)[-1]] = finite(float(value))
    if "swap" in reports:
        reports["swap_probability"] = reports["swap"]
    return {
        "refused": refused,
        "explored_share": _ratio(counters.explored_sum, counters.explorable),
        "ctr": _ratio(counters.clicked, counters.clickable),
        "ctr_recent": counters.recent_click_rate if counters.clickable else None,
        "ctr_by_position": [clicked / shown for clicked, shown in zip(counters.clicked_at, counters.shown_at) if shown],
        "ndcg": _ratio(counters.ndcg_sum, counters.graded),
        "click_rate_z_score": z_score,
        "drift_alarm": alarm,
        **reports,
    }


def clicks_of(counters: Counters) -> dict[str, float | None]:
    """Return the click rate of the first item and the mean position of a click, counted from 1."""
    clicks, positions = sum(counters.clicked_at), enumerate(counters.clicked_at, 1)
    return {
        "ctr_first": _ratio(counters.clicked_at[0], counters.shown_at[0]),
        "click_position": _ratio(sum(position * count for position, count in positions), clicks),
    }


def weights_of(config: RankerConfig, state: Any, max_weights: int = MAX_WEIGHTS) -> dict[str, float]:
    """Return the largest weights by feature name; empty if the learner is not linear in the features.

    Args:
      config: The ranker's configuration.
      state: The state that is served.
      max_weights: How many weights to return.
    """
    weights = from_layers(state, "weights", ())
    if len(weights) != config.problem.n_features:
        return {}
    names = _feature_names(config)
    largest = sorted(range(len(weights)), key=lambda i: -abs(float(weights[i])))[:max_weights]
    return {names[i]: float(weights[i]) for i in largest}


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for infinity and NaN."""
    return value if math.isfinite(value) else None


def _ratio(value: float, total: float) -> float | None:
    return value / total if total else None


def _feature_names(config: RankerConfig) -> Sequence[str]:
    return config.problem.feature_names or [f"feature_{i}" for i in range(config.problem.n_features)]


# The functions below run on threads, so they build encoders of their own: the event loop uses those of the ranker.


def explanation_of(config: RankerConfig, state: Any, ranked: Ranked, id: str) -> dict[str, Any]:
    """Return the contribution of each value of an item to its score now, the largest first.

    Args:
      config: The ranker's configuration.
      state: The state that is served.
      ranked: The impression that showed the item.
      id: The item.
    """
    item = next((i for i, other in enumerate(ranked.ids) if str(other) == id), None)
    if item is None:
        raise NotFound(f"{id!r:.80} is not among the items of this impression")
    explanation = _explained(config, state, ranked, item)
    return {
        "impression": ranked.impression,
        "id": explanation.id,
        "position": ranked.order.index(item) if item in ranked.order else None,
        "score": explanation.score,
        "rules": [rule for rule, items in ranked.rules.items() if item in items],
        "contributions": [part._asdict() for part in explanation.contributions],
    }


def recent_weights(config: RankerConfig, state: Any, recent: Sequence[Ranked]) -> dict[str, Any]:
    """Return the largest weights by name; with a schema, of the names that occur in recent impressions.

    Args:
      config: The ranker's configuration.
      state: The state that is served.
      recent: Recent impressions, the oldest first.
    """
    if config.schema is None:
        dense_weights = weights_of(config, state).items()
        return {"weights": [{"name": name, "weight": weight} for name, weight in dense_weights]}
    version = config.schema.version
    items = [_top_items(ranked, config) for ranked in recent if ranked.schema == version]
    named = named_weights(Encoder(config.schema), from_layers(state, "table"), items)
    if not items:  # the largest weights of hashed columns by their numbers: only impressions tell which names they have
        columns, values = from_layers(state, "table").used()
        weights = [(float(row[0]), int(each)) for each, row in zip(columns, values) if each < config.schema.n_hashed]
        largest_unnamed = sorted(weights, key=lambda part: -abs(part[0]))[:MAX_WEIGHTS]
        named |= {f"column {column}": (weight, ()) for weight, column in largest_unnamed if weight}
    largest = sorted(named.items(), key=lambda part: -abs(part[1][0]))[:MAX_WEIGHTS]
    names = ("name", "weight", "shares_column_with")
    impressions = [(each.impression, each.query_id, [each.ids[i] for i in each.order]) for each in reversed(recent)]
    return {
        "weights": [dict(zip(names, (name, *values))) for name, values in largest],
        "impressions": [dict(zip(("impression", "query_id", "ranking"), values)) for values in impressions],
    }


def _top_items(ranked: Ranked, config: RankerConfig) -> tuple[list[Id], RawValues]:
    """Return the items at the top of an impression, with their values."""
    values = config.logged_values(ranked)
    top = ranked.order[: config.problem.shown or MAX_ITEMS_NAMED][:MAX_ITEMS_NAMED]
    return [ranked.ids[i] for i in top], values._replace(rows=[values.rows[i] for i in top])


def _explained(config: RankerConfig, state: Any, ranked: Ranked, item: int) -> Explanation:
    id = ranked.ids[item]
    if ranked.schema:
        values = config.logged_values(ranked)
        encoder = Encoder(config.encoders[ranked.schema].schema)
        table, trust = from_layers(state, "table"), memory_trust(config.learner, state)
        return explain_item(encoder, table, id, values.rows[item], values, trust)
    weights = weights_of(config, state, config.problem.n_features)
    if not weights:
        raise InvalidInput("this learner has no weight per feature, so its scores cannot be explained by contributions")
    ordered = {name: weights[name] for name in _feature_names(config)}
    row = row_in_range(state, ranked.all_features[item])
    return explanation_of_weights(id, ordered, row.tolist())
