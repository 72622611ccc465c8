"""Business rules on top of a learned order: pin, exclude, stock, boost, spread and at most n of a kind.

They are applied in this order, without randomness; the last one therefore always holds.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rankloop.adapter import Id
from rankloop.core.errors import InvalidInput

OUT_OF_STOCK = frozenset(["0", "0.0", "false", "no", "out"])
ValueOf = Callable[[int, str], Any]  # the value of an item, by its index and the name of a field


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all rules."""

    field: str  # of the items


class Boost(Rule, frozen=True, kw_only=True):
    """Move items up by `by` positions if a field has a value; without a value, if the field is true or above 0."""

    value: str | float | bool | None = None
    by: int = 1

    def __post_init__(self) -> None:
        if self.by < 1:
            raise InvalidInput(f"boost: by must be a number of positions from 1, got {self.by}")

    def fits(self, value: Any) -> bool:
        """Return whether an item with this value is moved up."""
        if self.value is None:
            return bool(value) and not _is_out(value)
        return self.value in _parts(value) or str(self.value) in map(str, _parts(value))


class Spread(Rule, frozen=True, kw_only=True):
    """Spread the values of a field by maximal marginal relevance (MMR).

    The next item has the largest (1 − `weight`) · (1 − position / n) − `weight` · s, where s is 1 if one of the last
    `window` items has the same value, and 0 otherwise. After the first `within` items the order stays as it is.
    """

    weight: float = 0.5
    window: int = 3
    within: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1 or self.window < 1 or self.within < 1:
            raise InvalidInput("spread: weight must be from 0 to 1, window and within numbers of items from 1")


class AtMost(Rule, frozen=True, kw_only=True):
    """Show at most `n` items with the same value of a field among the first `within`; others follow after them."""

    n: int
    within: int = 10

    def __post_init__(self) -> None:
        if self.n < 1 or self.within < 1:
            raise InvalidInput("at_most: n and within must be numbers of items from 1")


class RuledOrder(NamedTuple):
    """An order after the rules."""

    ids: list[Id]
    touched: dict[str, list[Id]]  # by rule the items that it has pinned, removed or moved
    could_change: bool  # False if the rules leave every order of these items as it is


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rules of a ranker.

    Examples:
      >>> rules = Rules(pin=("new",), at_most=(AtMost(field="brand", n=1, within=3),))
      >>> brands = {"a": "Acme", "b": "Acme", "c": "Bolt", "new": "Zeta"}
      >>> page = rules.apply(["a", "b", "c", "new"], {id: {"brand": brand} for id, brand in brands.items()})
      >>> page.ids
      ['new', 'a', 'c', 'b']
      >>> page.touched
      {'pin': ['new'], 'at_most': ['b', 'c']}
    """

    pin: tuple[Id, ...] = ()  # shown first, in this order, where they are among the candidates
    exclude: tuple[Id, ...] = ()  # never shown
    stock: str = ""  # a field; items whose value is 0, false, "no" or "out" are not shown unless all are out
    boost: tuple[Boost, ...] = ()
    spread: tuple[Spread, ...] = ()
    at_most: tuple[AtMost, ...] = ()

    @property
    def fields(self) -> set[str]:
        """The fields of items that the rules read."""
        return {rule.field for rule in (*self.boost, *self.spread, *self.at_most)}.union(filter(None, [self.stock]))

    def apply(self, ids: Sequence[Id], rows: Mapping[Id, Mapping[str, Any]]) -> RuledOrder:
        """Apply all rules to an order, such as the ids of `Ranker.rank`.

        Learn from the page with `Ranker.learn(candidates, order=page.ids, clicks=...)`, as users saw it.

        Args:
          ids: Best first.
          rows: The values of each item by name.
        """

        def value_of(item: int, field: str) -> Any:
            return rows[ids[item]].get(field)

        pinned, left_out = self.choose(ids, value_of)
        absent = set(pinned).union(*left_out.values())
        order = [*pinned, *(item for item in range(len(ids)) if item not in absent)]
        ranked, touched = self.arrange(order, len(pinned), value_of)
        touched = ({"pin": pinned} if pinned else {}) | left_out | touched
        named = {rule: [ids[item] for item in items] for rule, items in touched.items()}
        return RuledOrder([ids[item] for item in ranked], named, self.could_change(order, len(pinned), value_of))

    def choose(self, ids: Sequence[Id], value_of: ValueOf) -> tuple[list[int], dict[str, list[int]]]:
        """Return the candidates that are shown first, and by rule those that are not shown."""
        number = {str(id): item for item, id in enumerate(ids)}
        excluded = [number[str(id)] for id in self.exclude if str(id) in number]
        left = [item for item in range(len(ids)) if item not in set(excluded)]
        out = [item for item in left if self.stock and _is_out(value_of(item, self.stock))]
        out = [] if len(out) == len(left) else out
        left = [item for item in left if item not in set(out)]
        pinned = [number[str(id)] for id in self.pin if number.get(str(id)) in left][: max(len(left) - 1, 0)]
        parts = {"exclude": excluded, "stock": out}
        return list(dict.fromkeys(pinned)), {rule: items for rule, items in parts.items() if items}

    def arrange(self, order: Sequence[int], n_pinned: int, value_of: ValueOf) -> tuple[list[int], dict[str, list[int]]]:
        """Return an order after boosts, spreads and limits, and by rule the items that each has moved.

        The first `n_pinned` items stay where they are, but count for limits.
        """
        pinned, ranked, touched = list(order[:n_pinned]), list(order[n_pinned:]), dict[str, list[int]]()
        steps: list[tuple[str, Callable[..., list[int]], Any]] = [("boost", _apply_boosts, self.boost)]
        steps += [("spread", _apply_spread, rule) for rule in self.spread]
        for name, apply, rule in [*steps, ("at_most", _apply_limits, self.at_most)]:
            after = apply(ranked, pinned, rule, value_of)
            moved = [item for item, other in zip(ranked, after) if item != other]
            if moved:
                touched[name] = sorted({*touched.get(name, ()), *moved})
            ranked = after
        return pinned + ranked, touched

    def could_change(self, order: Sequence[int], n_pinned: int, value_of: ValueOf) -> bool:
        """Return whether boosts, spreads or limits change some order of these items, after the pinned ones."""
        # If they change none, the probability of the shown order is that of the policy.
        if len({_total_boost(item, self.boost, value_of) for item in order[n_pinned:]}) > 1:
            return True
        limits = [(rule.field, 1) for rule in self.spread if rule.weight]
        limits += [(rule.field, rule.n) for rule in self.at_most]
        for field, limit in limits:
            counts = Counter(part for item in order for part in _parts(value_of(item, field)))
            if max(counts.values(), default=0) > limit:
                return True
        return False


def _total_boost(item: int, rules: Sequence[Boost], value_of: ValueOf) -> int:
    return sum(rule.by for rule in rules if rule.fits(value_of(item, rule.field)))


def _apply_boosts(items: list[int], pinned: list[int], rules: Sequence[Boost], value_of: ValueOf) -> list[int]:
    boosts = [_total_boost(item, rules, value_of) for item in items]
    # Half a position more, so that an item stands before the one whose position it gets.
    places = {item: p - boost - 0.5 * (boost > 0) for p, (item, boost) in enumerate(zip(items, boosts))}
    return sorted(items, key=places.__getitem__)


def _apply_spread(items: list[int], pinned: list[int], rule: Spread, value_of: ValueOf) -> list[int]:
    """Choose items one by one, by relevance minus similarity to those chosen last."""
    parts = {item: set(_parts(value_of(item, rule.field))) for item in (*pinned, *items)}
    relevance = {item: 1.0 - position / len(items) for position, item in enumerate(items)}
    order, left = list(pinned), list(items)
    while left and len(order) < rule.within:
        last = set[Any]().union(*(parts[item] for item in order[-rule.window :]))
        gains = [(1 - rule.weight) * relevance[item] - rule.weight * bool(parts[item] & last) for item in left]
        order.append(left.pop(gains.index(max(gains))))
    return order[len(pinned) :] + left


def _apply_limits(items: list[int], pinned: list[int], rules: Sequence[AtMost], value_of: ValueOf) -> list[int]:
    """Fill positions with the first item that no limit forbids there, as long as there is one."""
    fields = {rule.field for rule in rules}
    values = {
        item: [(field, part) for field in fields for part in _parts(value_of(item, field))] for item in pinned + items
    }
    order, left = list(pinned), list(items)
    while left and (limits := [rule for rule in rules if len(order) < rule.within]):
        counts = Counter(value for item in order for value in values[item])
        full = {value for value in counts for rule in limits if value[0] == rule.field and counts[value] >= rule.n}
        item = next((item for item in left if full.isdisjoint(values[item])), left[0])
        left.remove(item)
        order.append(item)
    return order[len(pinned) :] + left


def _parts(value: Any) -> list[Any]:
    """Return the values of a field; a missing value is none."""
    return [] if value is None else value if isinstance(value, list) else [value]


def _is_out(value: Any) -> bool:
    return value is not None and str(value).lower() in OUT_OF_STOCK
