"""From what people revealed to feedback: checked when it comes, gathered over several calls, learned once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from rankloop.core.errors import IncompatibleFeedback
from rankloop.core.types import Clicks, Decision, Feedback, Preferred, Problem, Relevances, Reward
from rankloop.service.errors import Rejected
from rankloop.service.log.events import Fed, Ranked
from rankloop.service.ranker.config import Plan
from rankloop.service.requests import FeedbackBody, Id

KINDS = {"clicks": Clicks, "relevances": Relevances, "preferred": Preferred, "reward": Reward}


def fed_of(body: FeedbackBody, ranked: Ranked, plan: Plan) -> Fed:
    """The event of a request, or `Rejected` with the field that is wrong."""
    given = [name for name in KINDS if getattr(body, name) is not None]
    if len(given) != 1:
        raise Rejected("feedback", f"give one of {', '.join(KINDS)}; got {' and '.join(given) or 'none'}")
    (what,) = given
    if ranked.decision is not None and KINDS[what] not in plan.learner.accepts:
        wanted = " or ".join(sorted(kind.__name__.lower() for kind in plan.learner.accepts)) or "nothing"
        raise IncompatibleFeedback(f"{what}: this learner learns from {wanted}")
    if ranked.mixed is not None and what != "clicks":
        raise IncompatibleFeedback(f"{what}: a comparison of two rankings counts clicks")
    items, values = _named(body, what, ranked)
    _check_seen(what, items, ranked, plan.problem)
    _check_values(what, values, plan.problem)
    return Fed(body.impression, what, items, values, body.final)


def gathered(before: Fed | None, fed: Fed) -> Fed:
    """Both together: clicks keep their largest weight, of everything else the last word counts."""
    if before is None or fed.what in ("preferred", "reward"):
        return fed
    if before.what != fed.what:
        raise IncompatibleFeedback(f"{fed.what}: this impression already has {before.what}")
    values = dict(zip(before.items, before.values))
    for item, value in zip(fed.items, fed.values):
        values[item] = max(value, values.get(item, 0.0)) if fed.what == "clicks" else value
    return Fed(fed.impression, fed.what, list(values), list(values.values()), fed.final)


def feedback_of(fed: Fed, ranked: Ranked, decision: Decision[object], problem: Problem, shadow: bool) -> Feedback:
    """What the learner is told, in the numbers of its own query; what it was not asked to rank is left out."""
    position = None if ranked.asked is None else {item: i for i, item in enumerate(ranked.asked)}
    pairs = [(i if position is None else position.get(i, -1), value) for i, value in zip(fed.items, fed.values)]
    known = [(i, value) for i, value in pairs if i >= 0]
    if shadow and fed.what in ("clicks", "relevances"):
        limit = problem.shown if fed.what == "clicks" else problem.depth
        seen = set(decision.ranking[:limit].tolist())
        known = [(i, value) for i, value in known if i in seen]
    items = np.array([i for i, _ in known], dtype=np.int64)
    values = np.array([value for _, value in known], dtype=np.float64)
    if fed.what == "clicks":
        return Clicks(items, values)
    if fed.what == "relevances":
        return Relevances(items, values)
    if fed.what == "reward":
        return Reward(fed.values[0])
    named = set(items.tolist())
    rest = [i for i in decision.ranking.tolist() if i not in named]
    return Preferred(np.concatenate([items, np.array(rest, dtype=np.int64)]))


def no_clicks(impression: str) -> Fed:
    """Shown, not clicked."""
    return Fed(impression, "clicks")


def _named(body: FeedbackBody, what: str, ranked: Ranked) -> tuple[list[int], list[float]]:
    value = getattr(body, what)
    if what == "reward":
        return [], [float(value)]
    ids: Iterable[Id] = value
    number = {str(ranked.ids[i]): i for i in ranked.shown}
    items: list[int] = []
    for id in ids:
        if str(id) not in number:
            raise Rejected(what, f"{id!r:.80} is not among the items that were shown")
        items.append(number[str(id)])
    if len(set(items)) != len(items):
        raise Rejected(what, "an item is named twice")
    values = [float(v) for v in value.values()] if isinstance(value, Mapping) else [1.0] * len(items)
    return items, values


def _check_seen(what: str, items: list[int], ranked: Ranked, problem: Problem) -> None:
    limit = {"clicks": problem.shown, "relevances": problem.depth}.get(what)
    if limit is None:
        return
    seen = set(ranked.shown[:limit])
    for item in items:
        if item not in seen:
            raise Rejected(what, f"{ranked.ids[item]!r} was not among the first {limit}, the part that is seen")


def _check_values(what: str, values: list[float], problem: Problem) -> None:
    if not all(map(math.isfinite, values)):
        raise Rejected(what, "every number must be finite")
    if what == "clicks" and any(value < 0 for value in values):
        raise Rejected(what, "a weight is negative")
    if what == "relevances" and not all(0 <= value <= problem.max_grade for value in values):
        raise Rejected(what, f"a grade is outside 0 … {problem.max_grade}")


def check_whole(fed: Fed, ranked: Ranked, problem: Problem) -> None:
    """Refuse the last word on an impression while a grade is missing; `fed` is what was gathered with it."""
    expected = len(ranked.shown[: problem.depth])
    if fed.what == "relevances" and fed.final and ranked.teaches and len(fed.items) != expected:
        raise Rejected("relevances", f"{len(fed.items)} grades; give one for each of the first {expected} items")
