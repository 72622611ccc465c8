"""An impression and its feedback: the states open, taken and closed, and every rule on what comes back.

An impression is open when it was shown, taken once feedback has come for it, and closed by its last feedback or by the
end of its window. What comes after that is late. `Impression.verdict` is the only place that decides between these.
"""

import hashlib
import math
from array import array
from collections.abc import Iterable, Iterator

import msgspec

from rankloop.adapter import KINDS, feedback_of, named_values, one_kind
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, NotFound, Rejected
from rankloop.core.types import Decision, Feedback, Problem
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.errors import LateFeedback
from rankloop.service.records import Closed, FeedbackReceived, Ranked, Record
from rankloop.service.requests import FeedbackBody

ACCEPTED, CLOSED, REPEATED, REFUSED, LATE = "accepted", "closed", "repeated", "refused", "late"
MAX_NAME_LENGTH = 64  # characters of an impression's name that are looked at
IMPRESSION_BYTES, ITEM_BYTES = 2_000, 200  # of memory: of an impression, and of each item beside its features
LAST_WORD = ("preferred", "reward")  # kinds of feedback that replace what came before them


class TrackedImpression(msgspec.Struct):
    """What was shown, and what came back for it up to the event `seq`."""

    ranked: Ranked
    began: int  # the event that showed it
    seq: int
    closed: bool = False
    feedback: FeedbackReceived | None = None  # all of it together
    received: set[bytes] = msgspec.field(default_factory=set)  # fingerprints

    def verdict(self, event: FeedbackReceived | Closed, mark: bytes = b"") -> str:
        """Decide what becomes of an event: repeated, late, refused, taken or closed.

        Args:
          event: Feedback, or the end of the window.
          mark: The fingerprint of the feedback, where it is computed already.
        """
        if isinstance(event, FeedbackReceived) and (mark or fingerprint(event)) in self.received:
            return REPEATED
        if self.closed:
            return LATE
        if isinstance(event, Closed):
            return CLOSED
        if (
            self.feedback is not None
            and event.feedback_kind not in LAST_WORD
            and event.feedback_kind != self.feedback.feedback_kind
        ):
            return REFUSED
        return CLOSED if event.final else ACCEPTED

    def add(self, event: FeedbackReceived | Closed) -> str:
        """Apply an event and return its verdict."""
        mark = fingerprint(event) if isinstance(event, FeedbackReceived) else b""
        verdict = self.verdict(event, mark)
        if verdict in (ACCEPTED, CLOSED):
            self.closed = verdict == CLOSED
            if isinstance(event, FeedbackReceived):
                self.feedback = merged(self.feedback, event)
                self.received.add(mark)
        return verdict


def impression_of(records: Iterable[Record], before: TrackedImpression | None = None) -> TrackedImpression | None:
    """Build the impression that these records of it make, after what they made before."""
    impression = before
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            if impression is None or impression.closed:
                impression = TrackedImpression(event, record.seq, record.seq)
        elif isinstance(event, FeedbackReceived | Closed) and impression is not None:
            impression.add(event)
        if impression is not None:
            impression.seq = record.seq
    return impression


def settle_feedback(
    body: FeedbackBody, config: RankerConfig, impression: TrackedImpression | None
) -> FeedbackReceived | str:
    """Decide on feedback at the moment at which it is written, by all that the log has of its impression.

    Returns:
      The event to write, or the verdict where nothing is to be written.

    Raises:
      NotFound: If there is no such impression.
      LateFeedback: If the impression has closed.
      Rejected: If a field of the feedback is wrong.
      IncompatibleFeedback: If the learner, or what has come before, takes another kind.
    """
    name = body.impression[:MAX_NAME_LENGTH]
    if impression is None:
        raise NotFound(f"there is no impression {name!r}")
    feedback = received_feedback(body, impression.ranked, config)
    verdict = impression.verdict(feedback)
    if verdict == REPEATED:
        return verdict
    if verdict == LATE:
        raise LateFeedback(f"the window of the impression {name!r} has closed; nothing was learned from this")
    check_complete(merged(impression.feedback, feedback), impression.ranked, config.problem)
    return feedback


def settle_end(impression: TrackedImpression | None) -> Closed | str:
    """Decide on the end of a window at the moment at which it is written: feedback may have closed it meanwhile."""
    if impression is None:
        return LATE
    end = Closed(impression.ranked.impression)
    verdict = impression.verdict(end)
    return end if verdict == CLOSED else verdict


def received_feedback(body: FeedbackBody, ranked: Ranked, config: RankerConfig) -> FeedbackReceived:
    """Make the event of a request, or raise `Rejected` with the field that is wrong."""
    given, numbers = {name: getattr(body, name) for name in KINDS}, {str(ranked.ids[i]): i for i in ranked.order}
    try:
        kind, value = one_kind(given)
    except InvalidInput as error:
        raise Rejected("feedback", str(error)) from None
    if ranked.decision is not None and KINDS[kind] not in config.learner.accepts:
        accepts = " or ".join(sorted(accepted.__name__.lower() for accepted in config.learner.accepts)) or "nothing"
        raise IncompatibleFeedback(f"{kind}: this learner learns from {accepts}")
    if ranked.mixed is not None and kind != "clicks":
        raise IncompatibleFeedback(f"{kind}: a comparison of two rankings counts clicks")
    try:
        items, values = named_values(kind, value, numbers, str)
    except (IncompatibleFeedback, InvalidInput) as error:
        raise Rejected(kind, str(error)) from None
    _check_values(kind, items, values, ranked, config.problem)
    return FeedbackReceived(body.impression, kind, items, values, body.final)


def merged(before: FeedbackReceived | None, feedback: FeedbackReceived) -> FeedbackReceived:
    """Join both: clicks keep their largest weight, of everything else the last word counts."""
    if before is None or feedback.feedback_kind in LAST_WORD:
        return feedback
    if before.feedback_kind != feedback.feedback_kind:
        raise IncompatibleFeedback(f"{feedback.feedback_kind}: this impression already has {before.feedback_kind}")
    values = dict(zip(before.items, before.values))
    for item, value in zip(feedback.items, feedback.values):
        values[item] = max(value, values.get(item, 0.0)) if feedback.feedback_kind == "clicks" else value
    return FeedbackReceived(
        feedback.impression, feedback.feedback_kind, list(values), list(values.values()), feedback.final
    )


def fingerprint(feedback: FeedbackReceived) -> bytes:
    """Return what is equal for the same feedback on the same impression, and small: there may be much of it."""
    values = array("d", [value + 0.0 for value in feedback.values])  # 0.0 where it is -0.0
    head = f"{feedback.feedback_kind} {feedback.final} {len(feedback.items)} ".encode()
    return hashlib.blake2b(head + array("q", feedback.items).tobytes() + values.tobytes(), digest_size=16).digest()


def check_complete(feedback: FeedbackReceived, ranked: Ranked, problem: Problem) -> None:
    """Refuse the last word on an impression while a grade is missing; `feedback` is all that has come."""
    expected = len(ranked.order[: problem.depth])
    if (
        feedback.feedback_kind == "relevances"
        and feedback.final
        and ranked.trainable
        and len(feedback.items) != expected
    ):
        raise Rejected("relevances", f"{len(feedback.items)} grades; give one for each of the first {expected} items")


def learner_feedback(
    feedback: FeedbackReceived, ranked: Ranked, decision: Decision[object], problem: Problem, shadow: bool
) -> Feedback:
    """Return what the learner is told, in the numbers of its own query, without items that it was not asked to rank."""
    number = None if ranked.candidates is None else {item: i for i, item in enumerate(ranked.candidates)}
    pairs = [(i if number is None else number.get(i, -1), value) for i, value in zip(feedback.items, feedback.values)]
    pairs = [(i, value) for i, value in pairs if i >= 0]
    if shadow and feedback.feedback_kind in ("clicks", "relevances"):
        limit = problem.shown if feedback.feedback_kind == "clicks" else problem.depth
        visible = set(decision.ranking[:limit].tolist())
        pairs = [(i, value) for i, value in pairs if i in visible]
    values = feedback.values if feedback.feedback_kind == "reward" else [value for _, value in pairs]
    return feedback_of(feedback.feedback_kind, [i for i, _ in pairs], values, decision.ranking)


def _check_values(kind: str, items: list[int], values: list[float], ranked: Ranked, problem: Problem) -> None:
    """Refuse feedback on what could not be seen, and numbers that make no sense."""
    limit = {"clicks": problem.shown, "relevances": problem.depth}.get(kind)
    visible = set(items if limit is None else ranked.order[:limit])
    for item in items:
        if item not in visible:
            raise Rejected(kind, f"{ranked.ids[item]!r} was not among the first {limit}, the part that is seen")
    if not all(map(math.isfinite, values)):
        raise Rejected(kind, "every number must be finite")
    if kind == "clicks" and any(value < 0 for value in values):
        raise Rejected(kind, "a weight is negative")
    if kind == "relevances" and not all(0 <= value <= problem.max_grade for value in values):
        raise Rejected(kind, f"a grade is outside 0 … {problem.max_grade}")


def closed_impressions(records: Iterable[Record]) -> Iterator[tuple[Record, TrackedImpression]]:
    """Yield every impression that has closed, with the record of its ranking and the feedback that counted."""
    waiting: dict[str, tuple[Record, TrackedImpression]] = {}
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            waiting.setdefault(event.impression, (record, TrackedImpression(event, record.seq, record.seq)))
        elif isinstance(event, FeedbackReceived | Closed) and event.impression in waiting:
            _, impression = waiting[event.impression]
            if impression.add(event) == CLOSED:
                yield waiting.pop(event.impression)
