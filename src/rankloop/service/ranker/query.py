"""From a request to a query: ids, features by place or by name, pins and exclusions."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import all_finite
from rankloop.core.rankings import discounts, ranking_of
from rankloop.core.types import Floats, Ints, Query
from rankloop.logs.context import POSITION
from rankloop.service.errors import Rejected, TooLarge
from rankloop.service.ranker.config import Plan, with_base_score
from rankloop.service.requests import MAX_ID_LENGTH, UNFIT_ID, Id, Item, RankBody, is_fit


class Asked(NamedTuple):
    """A checked request: `query` holds the items at `asked` among `ids`; the pinned stand before them."""

    ids: list[Id]
    features: Floats  # of all ids, as given
    query: Query
    asked: list[int] | None
    pinned: list[int]
    hidden: set[int]  # ranked with the others, as a fixed set demands, but not shown


def asked_of(body: RankBody, plan: Plan, most_items: int) -> Asked:
    """The query of a request, or `Rejected` with the field that is wrong."""
    if len(body.items) > most_items:
        raise TooLarge(f"items: {len(body.items)} items, the limit is {most_items}")
    if len(body.query_id) > MAX_ID_LENGTH:
        raise Rejected("query_id", f"longer than {MAX_ID_LENGTH} characters")
    ids, features = _candidates(body, plan)
    number = {str(id): i for i, id in enumerate(ids)}
    excluded = set(_numbers(body.excluded, number, "excluded"))
    pinned = _numbers(body.pinned, number, "pinned")
    if excluded.intersection(pinned):
        raise Rejected("pinned", "an item is both pinned and excluded")
    context = _context(body, plan)
    fixed = bool(plan.items)
    away = excluded.union(pinned)
    asked = None if fixed or not away else [i for i in range(len(ids)) if i not in away]
    if len(away) == len(ids):
        raise Rejected("items", "nothing is left to rank after pins and exclusions")
    rows = features if asked is None else features[asked]
    query = Query(body.query_id, with_base_score(rows, plan), context)
    return Asked(ids, features, query, asked, pinned, excluded if fixed else set())


def shown_order(asked: Asked, ranking: Ints) -> list[int]:
    """What people see: the pinned, then the ranked, without the hidden."""
    order: list[int] = ranking.tolist()
    if asked.asked is not None:
        order = [asked.asked[i] for i in order]
    if asked.pinned or asked.hidden:
        away = asked.hidden.union(asked.pinned)
        order = asked.pinned + [i for i in order if i not in away]
    return order


def is_plain(asked: Asked, plan: Plan) -> bool:
    """Whether what people see is the learner's ranking, place by place, so that propensity and lesson are right.

    Items left out beforehand change nothing. A pin in a list that is seen as a whole shifts every place alike; in a
    list that is seen in part it pushes items out of sight, of which the learner knows nothing.
    """
    if asked.hidden:
        return False
    return not asked.pinned or (not plan.items and plan.problem.shown is None and plan.problem.depth is None)


def _context(body: RankBody, plan: Plan) -> Floats:
    given = body.context
    if isinstance(given, dict):
        if plan.encoding is None:
            raise Rejected("context", "columns by name need a context in the ranker's problem; give numbers")
        try:
            given = plan.encoding.row_of(given)
        except InvalidInput as error:
            raise Rejected("context", str(error).removeprefix("context: ")) from None
    context = np.array(given, dtype=np.float64)
    if len(context) != plan.problem.n_context or not all_finite(context):
        raise Rejected("context", _wanted_context(plan))
    return context


def _wanted_context(plan: Plan) -> str:
    numbers = f"{plan.problem.n_context} finite numbers"
    if plan.encoding is None:
        return f"must be {numbers}"
    names = ["position" if name == POSITION else name for name in plan.encoding.columns]
    return f"give {', '.join(names)} (null: not known), or {numbers}"


def _candidates(body: RankBody, plan: Plan) -> tuple[list[Id], Floats]:
    items = body.items
    if not items:
        if not plan.items:
            raise Rejected("items", "there are no items to rank; give at least one")
        return list(plan.items), np.zeros((len(plan.items), plan.given))
    ids: list[Id] = [item.id for item in items]
    names = {str(id) for id in ids}
    if len(names) != len(ids):
        raise Rejected("items", f"the item {_repeated(ids)!r} is given twice")
    if not all(map(is_fit, ids)):
        raise Rejected("items", UNFIT_ID)
    if not plan.items:
        return ids, _features(items, plan)
    if names != {str(id) for id in plan.items}:
        raise Rejected("items", "this ranker has a fixed set of items; give all of them, or none")
    position = {str(id): i for i, id in enumerate(plan.items)}
    items = sorted(items, key=lambda item: position[str(item.id)])
    return list(plan.items), _features(items, plan)


def _features(items: list[Item], plan: Plan) -> Floats:
    names = plan.problem.feature_names[: plan.given]
    rows = [item.features if type(item.features) is list else _by_name(item, names) for item in items]
    for item, row in zip(items, rows):
        if len(row) != plan.given:
            raise Rejected("items", f"item {item.id!r} has {len(row)} features, this ranker has {plan.given}")
    features = np.array(rows, dtype=np.float64).reshape(len(items), plan.given)
    if not all_finite(features):
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise Rejected(f"items[{row}].features[{column}]", "every number must be finite")
    return features


def _by_name(item: Item, names: tuple[str, ...]) -> list[float]:
    table = item.features
    if not names or not isinstance(table, dict):
        raise Rejected("items", "features by name need feature_names in the ranker's problem")
    unknown = set(table).difference(names)
    if unknown:
        raise Rejected("items", f"item {item.id!r} has the feature {min(unknown)!r}, which is not one of the names")
    return [table.get(name, 0.0) for name in names]


def _numbers(ids: list[Id], number: dict[str, int], field: str) -> list[int]:
    unknown = [id for id in ids if str(id) not in number]
    if unknown:
        raise Rejected(field, f"{unknown[0]!r} is not among the items")
    found = [number[str(id)] for id in ids]
    if len(set(found)) != len(found):
        raise Rejected(field, "an item is named twice")
    return found


def _repeated(ids: list[Id]) -> Id:
    seen: set[str] = set()
    for id in ids:
        if str(id) in seen:
            return id
        seen.add(str(id))
    return ""


def base_ranking(asked: Asked, plan: Plan) -> Ints:
    """Today's order."""
    return ranking_of(np.ascontiguousarray(asked.query.features[:, plan.base_column]))


def explored(ranking: Ints, predicted: Ints, shown: int | None) -> float:
    """The share of the seen places, weighted by their DCG discount, at which another than the predicted item stands."""
    seen = len(ranking) if shown is None else min(shown, len(ranking))
    weights = discounts(seen)
    return float(weights[ranking[:seen] != predicted[:seen]].sum() / weights.sum())


def new_impression(key: str | None) -> str:
    """A name for an impression that sorts by time; for a request with a key always the same one."""
    if key is not None:
        return f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"
