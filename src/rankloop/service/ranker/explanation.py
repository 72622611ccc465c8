"""Why an item stands where it does, and what counts most: by name, from the values that are in the log.

Encoders are made anew here: this runs on threads, and those of the ranker are busy.
"""

from collections.abc import Sequence
from typing import Any

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.learner import from_layers
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import Contribution, Explanation, explained, named_weights
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.service.log.events import Ranked
from rankloop.service.ranker.health import weights_of
from rankloop.service.ranker.runtime import RankerRuntime
from rankloop.service.ranker.trainer import logged_values

MAX_NAMES = 100
MAX_ITEMS = 20  # of an impression whose names are told


def explanation_of(runtime: RankerRuntime, ranked: Ranked, id: str) -> dict[str, Any]:
    """What each value of an item adds to its score now, the largest first."""
    item = next((i for i, known in enumerate(ranked.ids) if str(known) == id), None)
    if item is None:
        raise NotFound(f"{id!r:.80} is not among the items of this impression")
    found = _explained(runtime, ranked, item)
    return {
        "impression": ranked.impression,
        "id": found.id,
        "position": ranked.order.index(item) if item in ranked.order else None,
        "score": found.score,
        "contributions": [part._asdict() for part in found.contributions],
    }


def recent_weights(runtime: RankerRuntime, recent: Sequence[Ranked], most: int = MAX_NAMES) -> dict[str, Any]:
    """The largest weights by name; with a schema those of the names in recent impressions."""
    config, state = runtime.config, runtime.published.state
    if config.schema is None:
        weights = weights_of(config, state, most)
        return {"weights": [{"name": name, "weight": weight} for name, weight in weights.items()]}
    version = config.schema.version
    known = [_seen(ranked, runtime) for ranked in recent if ranked.schema == version]
    named = named_weights(Encoder(config.schema), from_layers(state, "cells"), known)
    largest = list(named.items())[:most]
    return {
        "weights": [
            {"name": name, "weight": weight, "shares_column_with": sharing} for name, (weight, sharing) in largest
        ],
        "impressions": [_named(ranked) for ranked in reversed(recent)],
    }


def _seen(ranked: Ranked, runtime: RankerRuntime) -> tuple[list[Id], RawValues]:
    """The items at the top of an impression, with their values."""
    values = logged_values(ranked, runtime.config, runtime.catalogue)
    seen = ranked.order[: runtime.config.problem.shown or MAX_ITEMS][:MAX_ITEMS]
    return [ranked.ids[i] for i in seen], values._replace(rows=[values.rows[i] for i in seen])


def _explained(runtime: RankerRuntime, ranked: Ranked, item: int) -> Explanation:
    config, state, id = runtime.config, runtime.published.state, ranked.ids[item]
    if ranked.schema:
        values = logged_values(ranked, config, runtime.catalogue)
        encoder = Encoder(config.encoders[ranked.schema].schema)
        cells, trust = from_layers(state, "cells"), memory_trust(config.learner, state)
        return explained(encoder, cells, id, values.rows[item], values.context, values.at, trust)
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
