"""From what people revealed to feedback: checked when it comes, merged over several calls, learned once."""

import hashlib
import math
from array import array

from rankloop.adapter import KINDS, feedback_of, named_values, one_kind
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, Rejected
from rankloop.core.types import Decision, Feedback, Problem
from rankloop.service.log.events import FeedbackReceived, Ranked
from rankloop.service.ranker.config import RankerConfig
from rankloop.service.requests import FeedbackBody


def received_feedback(body: FeedbackBody, ranked: Ranked, config: RankerConfig) -> FeedbackReceived:
    """The event of a request, or `Rejected` with the field that is wrong."""
    try:
        kind, value = one_kind({name: getattr(body, name) for name in KINDS})
    except InvalidInput as error:
        raise Rejected("feedback", str(error)) from None
    if ranked.decision is not None and KINDS[kind] not in config.learner.accepts:
        wanted = " or ".join(sorted(accepted.__name__.lower() for accepted in config.learner.accepts)) or "nothing"
        raise IncompatibleFeedback(f"{kind}: this learner learns from {wanted}")
    if ranked.mixed is not None and kind != "clicks":
        raise IncompatibleFeedback(f"{kind}: a comparison of two rankings counts clicks")
    try:
        items, values = named_values(kind, value, {str(ranked.ids[i]): i for i in ranked.order}, str)
    except (IncompatibleFeedback, InvalidInput) as error:
        raise Rejected(kind, str(error)) from None
    _check_seen(kind, items, ranked, config.problem)
    _check_values(kind, values, config.problem)
    return FeedbackReceived(body.impression, kind, items, values, body.final)


def merged(before: FeedbackReceived | None, feedback: FeedbackReceived) -> FeedbackReceived:
    """Both together: clicks keep their largest weight, of everything else the last word counts."""
    if before is None or feedback.kind in ("preferred", "reward"):
        return feedback
    if before.kind != feedback.kind:
        raise IncompatibleFeedback(f"{feedback.kind}: this impression already has {before.kind}")
    values = dict(zip(before.items, before.values))
    for item, value in zip(feedback.items, feedback.values):
        values[item] = max(value, values.get(item, 0.0)) if feedback.kind == "clicks" else value
    return FeedbackReceived(feedback.impression, feedback.kind, list(values), list(values.values()), feedback.final)


def fingerprint(feedback: FeedbackReceived) -> bytes:
    """Equal for the same feedback on the same impression, and small, since an impression may get much of it."""
    values = array("d", [value + 0.0 for value in feedback.values])  # 0.0 where it is -0.0
    head = f"{feedback.kind} {feedback.final} {len(feedback.items)} ".encode()
    return hashlib.blake2b(head + array("q", feedback.items).tobytes() + values.tobytes(), digest_size=16).digest()


def learner_feedback(
    feedback: FeedbackReceived, ranked: Ranked, decision: Decision[object], problem: Problem, shadow: bool
) -> Feedback:
    """What the learner is told, in the numbers of its own query; what it was not asked to rank is left out."""
    number = None if ranked.candidates is None else {item: i for i, item in enumerate(ranked.candidates)}
    pairs = [(i if number is None else number.get(i, -1), value) for i, value in zip(feedback.items, feedback.values)]
    known = [(i, value) for i, value in pairs if i >= 0]
    if shadow and feedback.kind in ("clicks", "relevances"):
        limit = problem.shown if feedback.kind == "clicks" else problem.depth
        seen = set(decision.ranking[:limit].tolist())
        known = [(i, value) for i, value in known if i in seen]
    values = feedback.values if feedback.kind == "reward" else [value for _, value in known]
    return feedback_of(feedback.kind, [i for i, _ in known], values, decision.ranking)


def check_complete(feedback: FeedbackReceived, ranked: Ranked, problem: Problem) -> None:
    """Refuse the last word on an impression while a grade is missing; `feedback` is all that has come."""
    expected = len(ranked.order[: problem.depth])
    if feedback.kind == "relevances" and feedback.final and ranked.trainable and len(feedback.items) != expected:
        raise Rejected("relevances", f"{len(feedback.items)} grades; give one for each of the first {expected} items")


def _check_seen(kind: str, items: list[int], ranked: Ranked, problem: Problem) -> None:
    limit = {"clicks": problem.shown, "relevances": problem.depth}.get(kind)
    if limit is None:
        return
    seen = set(ranked.order[:limit])
    for item in items:
        if item not in seen:
            raise Rejected(kind, f"{ranked.ids[item]!r} was not among the first {limit}, the part that is seen")


def _check_values(kind: str, values: list[float], problem: Problem) -> None:
    if not all(map(math.isfinite, values)):
        raise Rejected(kind, "every number must be finite")
    if kind == "clicks" and any(value < 0 for value in values):
        raise Rejected(kind, "a weight is negative")
    if kind == "relevances" and not all(0 <= value <= problem.max_grade for value in values):
        raise Rejected(kind, f"a grade is outside 0 … {problem.max_grade}")
