"""Outcomes: what came of a shown item beside clicks, such as a purchase or revenue, as a ranker declares them."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rankloop.adapter import Id, named_values
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, Rejected
from rankloop.core.learner import from_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Clicks

Key = TypeVar("Key")  # an item, by its id or its number
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,39}")
SECONDS_OF_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MAX_WINDOW_DAYS = 90
MAX_OUTCOMES = 16
MAX_OUTCOME_WEIGHT = 1e6
DEFAULT_MAX_CLICK_WEIGHT = 20.0  # a heavier click is refused, so that a few cannot reorder everything
DEFAULT_WINDOW = "7d"
RESERVED_NAMES = ("clicks", "relevances", "preferred", "reward")


class DeclaredOutcome(NamedTuple):
    """An outcome: one of it counts as much as `weight` clicks, and is accepted `window` seconds after the ranking."""

    weight: float
    window: float


class DeclaredOutcomes(dict[str, DeclaredOutcome]):
    """The declared outcomes of a ranker, by name; those of weight 0 are reported only."""

    def to_plain(self) -> dict[str, dict[str, float]]:
        """Return what `declared_outcomes` reads."""
        return {name: outcome._asdict() for name, outcome in self.items()}

    def check_learned_by(self, learner: AnyLearner) -> None:
        """Refuse outcomes that a learner would not learn from."""
        if any(outcome.weight for outcome in self.values()) and not from_layers(learner, "weighs_clicks", False):
            raise Rejected(
                "outcomes",
                "this learner does not weigh clicks, so it cannot learn from outcomes: use click_regression, "
                "newton_pairs, 3pr, fair_pairs, pairrank, pdgd or click_residuals, or declare the outcomes with "
                "weight 0 to report them",
            )

    def weights(self, values: Mapping[str, Mapping[Key, float]], max_click_weight: float) -> dict[Key, float]:
        """Return by item how many clicks its outcomes count as, given values by outcome and item.

        Each outcome counts `weight · value`, at most `max_click_weight`, or `weight` where that is more: one order of a
        huge amount must not reorder everything.
        """
        weights = defaultdict[Key, float](float)
        for name, by_item in values.items():
            weight = self[name].weight
            for item, value in by_item.items():
                counted = min(weight * value, max(weight, max_click_weight))
                if counted > 0:
                    weights[item] += counted
        return weights

    def max_weight(self, max_click_weight: float = DEFAULT_MAX_CLICK_WEIGHT) -> float:
        """Return the largest weight of a click with all its outcomes; 1 if no outcome is learned."""
        return 1.0 + sum(max(outcome.weight, max_click_weight) for outcome in self.values() if outcome.weight)

    def item_values(
        self, values: Any, number: Mapping[Any, int], key: Callable[[Id], Any] = lambda id: id
    ) -> dict[str, dict[int, float]]:
        """Return numbers by outcome and id, as in `{"purchase": {"b": 1}}`, by item; see `named_values`."""
        if not isinstance(values, Mapping) or not all(isinstance(by_id, Mapping) for by_id in values.values()):
            raise Rejected("outcomes", 'must be numbers by outcome and id, as in {"purchase": {"b": 1}}')
        by_item = dict[str, dict[int, float]]()
        for name, by_id in values.items():
            if name not in self:
                declared = ", ".join(self) or "none; declare them when the ranker is created"
                raise Rejected("outcomes", f"{name!r:.60} is not declared; the outcomes of this ranker are {declared}")
            try:
                items, amounts = named_values("clicks", by_id, number, key)
            except (IncompatibleFeedback, InvalidInput) as error:
                raise Rejected(f"outcomes.{name}", str(error)) from None
            if not all(math.isfinite(amount) and amount >= 0 for amount in amounts):
                raise Rejected(f"outcomes.{name}", "every number must be finite and not negative")
            by_item[name] = dict(zip(items, amounts))
        return by_item

    def add_to(self, clicks: Any, values: Any, number: Mapping[Any, int]) -> Clicks:
        """Return clicks with the weights of outcomes added; other feedback than clicks is refused."""
        if not isinstance(clicks, Clicks):
            raise IncompatibleFeedback("give outcomes alone or together with clicks, not with other feedback")
        added = self.weights(self.item_values(values, number), DEFAULT_MAX_CLICK_WEIGHT)
        weights = dict(zip(clicks.items.tolist(), clicks.weights.tolist()))
        weights |= {item: weights.get(item, 0.0) + weight for item, weight in added.items()}
        return Clicks(np.array(list(weights), np.int64), np.array(list(weights.values()), np.float64))


def declared_outcomes(plain: Any) -> DeclaredOutcomes:
    """Return declared outcomes, as in `{"purchase": {"weight": 20, "window": "7d"}}`."""
    if not isinstance(plain, Mapping) or len(plain) > MAX_OUTCOMES:
        raise Rejected("outcomes", f'must be at most {MAX_OUTCOMES} by name, as in {{"purchase": {{"weight": 20}}}}')
    outcomes = DeclaredOutcomes()
    for name, settings in plain.items():
        field = f"outcomes.{name!s:.40}"
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
            raise Rejected("outcomes", f"{name!r:.60} must be of a to z, 0 to 9 and _, and no kind of feedback")
        if not isinstance(settings, Mapping) or not {"weight", "window"}.issuperset(settings):
            raise Rejected(field, f"must have weight and window only, got {settings!r:.80}")
        weight = settings.get("weight", 1.0)
        if type(weight) not in (int, float) or not 0 <= weight <= MAX_OUTCOME_WEIGHT:
            raise Rejected(f"{field}.weight", f"must be from 0 to {MAX_OUTCOME_WEIGHT:g}, got {weight!r:.60}")
        window = settings.get("window", DEFAULT_WINDOW)
        try:
            seconds = float(window[:-1]) * SECONDS_OF_UNIT[window[-1:]] if isinstance(window, str) else float(window)
        except (KeyError, TypeError, ValueError):
            seconds = 0.0
        if not 0 < seconds <= MAX_WINDOW_DAYS * SECONDS_OF_UNIT["d"]:
            reason = f'must be seconds, or as "12h" or "7d", at most {MAX_WINDOW_DAYS}d, got {window!r:.60}'
            raise Rejected(f"{field}.window", reason)
        outcomes[name] = DeclaredOutcome(float(weight), seconds)
    return outcomes
