"""Health of a ranker (click rate, drift alarm, exploration), its largest weights, and explanations of scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.adapter import Id, RawValues
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.learner import from_layers
from rankloop.core.types import Ints, Query
from rankloop.features.encoder import Encoder
from rankloop.features.explanation import LearnedWeights
from rankloop.learners.wrappers.trusted_memory import memory_trust
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.counters import Counters
from rankloop.service.domain.drift_alarm import click_rate_drift
from rankloop.service.records import Ranked

MAX_WEIGHTS = 100
MAX_EXAMPLES = 3  # lists of which a preview of a rollback shows both orders
MAX_EXAMPLE_IDS = 10  # at the top of each
MAX_ITEMS_NAMED = 20  # of an impression, whose names are looked up


class StateView(NamedTuple):
    """A state of a ranker, as operators look at it."""

    config: RankerConfig
    state: Any

    def health(self, counters: Counters, refused: int) -> dict[str, Any]:
        """Return click rates, grades, exploration, drift, and the numbers that the learner reports.

        `refused` is the number of updates that would have made the state non-finite.
        """
        z_score, alarm = click_rate_drift(counters)
        reports: dict[str, Any] = {}  # the numbers that the learner names, such as the swap probability
        for path in self.config.learner.reports:
            value: Any = self.state
            for name in path.split("."):
                value = getattr(value, name, None)
            if value is not None and getattr(value, "ndim", 0) == 0:
                reports[path.rsplit(".", 1)[-1]] = finite(float(value))
        if "swap" in reports:
            reports["swap_probability"] = reports["swap"]
        shown_and_clicked = zip(counters.shown_at, counters.clicked_at)
        return {
            "refused": refused,
            "explored_share": _ratio(counters.explored_sum, counters.explorable),
            "ctr": _ratio(counters.clicked, counters.clickable),
            "ctr_recent": counters.recent_click_rate if counters.clickable else None,
            "ctr_by_position": [clicked / shown for shown, clicked in shown_and_clicked if shown],
            "ndcg": _ratio(counters.ndcg_sum, counters.graded),
            "click_rate_z_score": z_score,
            "drift_alarm": alarm,
            **reports,
        }

    def weights(self, max_weights: int = MAX_WEIGHTS) -> dict[str, float]:
        """Return the largest weights by feature name; empty if the learner is not linear in the features."""
        try:
            weights = self._learned_weights().by_feature()
        except InvalidInput:
            return {}
        return dict(sorted(weights.items(), key=lambda part: -abs(part[1]))[:max_weights])

    def _learned_weights(self) -> LearnedWeights:
        return LearnedWeights(self.state, self.config.problem, memory_trust(self.config.learner, self.state))

    # The methods below run on threads, so they build encoders of their own: the event loop uses those of the ranker.

    def explanation(self, ranked: Ranked, id: str) -> dict[str, Any]:
        """Return the contribution of each value of an item of an impression to its score now, the largest first."""
        item = next((i for i, other in enumerate(ranked.ids) if str(other) == id), None)
        if item is None:
            raise NotFound(f"{id!r:.80} is not among the items of this impression")
        weights = self._learned_weights()
        if ranked.schema:
            values, encoder = self.config.logged_values(ranked), Encoder(self.config.encoders[ranked.schema].schema)
            explanation = weights.explanation_of_values(encoder, ranked.ids[item], values.rows[item], values)
        else:
            explanation = weights.explanation(ranked.ids[item], ranked.all_features[item])
        return {
            "impression": ranked.impression,
            "id": explanation.id,
            "position": ranked.order.index(item) if item in ranked.order else None,
            "score": explanation.score,
            "rules": [rule for rule, items in ranked.rules.items() if item in items],
            "contributions": [part._asdict() for part in explanation.contributions],
        }

    def recent_weights(self, recent: Sequence[Ranked]) -> dict[str, Any]:
        """Return the largest weights by name; with a schema, of the names in recent impressions, the oldest first."""
        schema = self.config.schema
        if schema is None:
            return {"weights": [{"name": name, "weight": weight} for name, weight in self.weights().items()]}
        items = [self._top_items(ranked) for ranked in recent if ranked.schema == schema.version]
        named = self._learned_weights().by_value(Encoder(schema), items)
        if not items:  # the weights of hashed columns by their numbers: only impressions tell which names they have
            columns, values = from_layers(self.state, "table").used()
            weights = [(float(row[0]), int(each)) for each, row in zip(columns, values) if each < schema.n_hashed]
            largest_unnamed = sorted(weights, key=lambda part: -abs(part[0]))[:MAX_WEIGHTS]
            named |= {f"column {column}": (weight, ()) for weight, column in largest_unnamed if weight}
        top = sorted(named.items(), key=lambda part: -abs(part[1][0]))[:MAX_WEIGHTS]
        return {
            "weights": [{"name": name, "weight": weight, "shares_column_with": names} for name, (weight, names) in top],
            "impressions": [
                {"impression": each.impression, "query_id": each.query_id, "ranking": [each.ids[i] for i in each.order]}
                for each in reversed(recent)
            ],
        }

    def difference(self, then: Any, queries: Mapping[str, Query]) -> dict[str, Any]:
        """Compare the orders that this and another state give to recent queries by impression, with examples."""
        predict, config = self.config.learner.predict, self.config
        then = config.fitted(then)
        orders = {name: (predict(self.state, query), predict(then, query)) for name, query in queries.items()}
        correlations = [_rank_correlation(first, second) for first, second in orders.values()]
        changed = [name for name, (first, second) in orders.items() if not np.array_equal(first, second)]
        examples = []
        for name in changed[:MAX_EXAMPLES]:
            now_ids, then_ids = ([queries[name].item_ids[i] for i in order[:MAX_EXAMPLE_IDS]] for order in orders[name])
            examples.append({"impression": name, "query_id": queries[name].id, "now": now_ids, "then": then_ids})
        return {
            "lists": len(orders),
            "changed": len(changed),
            "rank_correlation": float(np.mean(correlations)) if correlations else None,
            "examples": examples,
        }

    def _top_items(self, ranked: Ranked) -> tuple[list[Id], RawValues]:
        """Return the items at the top of an impression, with their values."""
        values = self.config.logged_values(ranked)
        top = ranked.order[: self.config.problem.shown or MAX_ITEMS_NAMED][:MAX_ITEMS_NAMED]
        return [ranked.ids[i] for i in top], values._replace(rows=[values.rows[i] for i in top])


def clicks_of(counters: Counters) -> dict[str, float | None]:
    """Return the click rate of the first item and the mean position of a click, counted from 1."""
    clicks, positions = sum(counters.clicked_at), enumerate(counters.clicked_at, 1)
    return {
        "ctr_first": _ratio(counters.clicked_at[0], counters.shown_at[0]),
        "click_position": _ratio(sum(position * count for position, count in positions), clicks),
    }


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for infinity and NaN."""
    return value if math.isfinite(value) else None


def _ratio(value: float, total: float) -> float | None:
    return value / total if total else None


def _rank_correlation(first: Ints, second: Ints) -> float:
    """Return Spearman's correlation of the positions of n items in two rankings, 1 − 6 Σ d² / (n (n² − 1))."""
    n_items = len(first)
    if n_items < 2:
        return 1.0
    differences = np.argsort(first) - np.argsort(second)
    return float(1.0 - 6.0 * (differences**2).sum() / (n_items * (n_items**2 - 1)))
