"""Acceptance of feedback: which is accepted, repeated, late or refused, and what the learner gets from it.

An impression is open from the moment it is shown until its final feedback or the end of its feedback window closes it.
Feedback after that is late. `TrackedImpression.verdict` decides between these; `_merged_feedback` refuses a second
kind of feedback on one impression.

Outcomes, such as a purchase, have windows of their own, which do not end when the impression closes:
`_received_outcomes` decides which are late. Those that come before it closes are learned with its clicks, later ones by
an update of their own. A request gives totals, of which the log has what was added, so that a repeated request adds
nothing.

A request is accepted or refused as a whole: outcomes that come with late clicks are refused with them. The client then
sends the outcomes alone.
"""

import hashlib
import math
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from rankloop.adapter import FEEDBACK_KINDS, named_values, one_kind
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, NotFound, Rejected
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.errors import LateFeedback
from rankloop.service.records import Closed, FeedbackReceived, OutcomesReceived, Ranked, Record
from rankloop.service.request_bodies import FeedbackBody

ACCEPTED, CLOSED, REPEATED, REFUSED, LATE = "accepted", "closed", "repeated", "refused", "late"
MAX_NAME_LENGTH = 64  # characters; no impression has a longer name
REPLACING_KINDS = ("preferred", "reward")  # kinds of feedback that replace earlier feedback
MAX_SEARCHED_IDS = 8  # of feedback, up to which searching for each is quicker than a table of all shown items
MIN_INCREASE = 1e-9  # of the total of an outcome, relative; less is a rounding error


class TrackedImpression(msgspec.Struct):
    """An impression, and the feedback on it up to the event `seq`."""

    ranked: Ranked
    ranked_seq: int  # the event of the ranking
    seq: int
    closed: bool = False
    feedback: FeedbackReceived | None = None  # all feedback, merged
    received: set[bytes] = msgspec.field(default_factory=set)  # fingerprints of the feedback, from the second one on
    outcomes: dict[str, dict[int, float]] = {}  # by name and item, late ones too
    outcome_weights: dict[int, float] = {}  # by item: what the outcomes before the close count, in clicks
    at: float = 0.0  # the time of the ranking, by the clock of the store; 0: a moment ago

    def verdict(self, event: FeedbackReceived | Closed) -> str:
        """Decide on an event: repeated, late, refused, accepted or closed."""
        if self.feedback is not None and isinstance(event, FeedbackReceived):
            if not self.received:  # then `feedback` is the only one
                self.received.add(fingerprint_of(self.feedback))
            if fingerprint_of(event) in self.received:
                return REPEATED
        if self.closed:
            return LATE
        if isinstance(event, Closed):
            return CLOSED
        kind = event.feedback_kind
        if self.feedback is not None and kind not in REPLACING_KINDS and kind != self.feedback.feedback_kind:
            return REFUSED
        return CLOSED if event.final else ACCEPTED

    def add(self, event: FeedbackReceived | OutcomesReceived | Closed) -> str:
        """Apply an event and return its verdict."""
        if isinstance(event, OutcomesReceived):
            for name, by_item in event.values.items():
                _add_to(self.outcomes.setdefault(name, {}), by_item)
            if event.ranked is None:
                _add_to(self.outcome_weights, event.weights)
            return ACCEPTED
        verdict = self.verdict(event)
        if verdict in (ACCEPTED, CLOSED):
            self.closed = verdict == CLOSED
            if isinstance(event, FeedbackReceived):
                if self.feedback is not None:
                    self.received.add(fingerprint_of(event))
                self.feedback = _merged_feedback(self.feedback, event)
        return verdict

    @property
    def learned_feedback(self) -> FeedbackReceived:
        """The clicks plus the weights of outcomes, which are learned when the impression closes."""
        weights = dict(zip(self.feedback.items, self.feedback.values)) if self.feedback is not None else {}
        _add_to(weights, self.outcome_weights)
        return FeedbackReceived(self.ranked.impression, "clicks", list(weights), list(weights.values()))


def _add_to(totals: dict[int, float], values: Mapping[int, float]) -> None:
    for item, value in values.items():
        totals[item] = totals.get(item, 0.0) + value


def impression_of(records: Iterable[Record], impression: TrackedImpression | None = None) -> TrackedImpression | None:
    """Return an impression after these records.

    Args:
      records: Of the impression, in order.
      impression: The impression before them, if there is one.
    """
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            if impression is None or impression.closed:
                impression = TrackedImpression(event, record.seq, record.seq, at=record.at)
        elif isinstance(event, FeedbackReceived | OutcomesReceived | Closed) and impression is not None:
            impression.add(event)
        if impression is not None:
            impression.seq = record.seq
    return impression


def settle_feedback(
    body: FeedbackBody, config: RankerConfig, impression: TrackedImpression | None
) -> tuple[FeedbackReceived | OutcomesReceived, ...] | str:
    """Return the events to write for feedback, or the verdict if there are none, inside the transaction that writes.

    Args:
      body: The request.
      config: The ranker's configuration.
      impression: The impression as the log has it; None if the log does not have it.
    """
    name = body.impression[:MAX_NAME_LENGTH]
    if impression is None:
        raise NotFound(f"there is no impression {name!r}")
    outcomes = () if body.outcomes is None else _received_outcomes(body.outcomes, config, impression)
    if body.outcomes is not None and not body.final and all(getattr(body, kind) is None for kind in FEEDBACK_KINDS):
        return outcomes or REPEATED
    feedback = _received_feedback(body, impression.ranked, config)
    verdict = impression.verdict(feedback)
    if verdict == REPEATED:
        return outcomes or verdict
    if verdict == LATE:
        raise LateFeedback(f"the impression {name!r} is closed; late feedback is not learned from")
    merged, ranked = _merged_feedback(impression.feedback, feedback), impression.ranked
    expected = len(ranked.order[: config.problem.depth])
    is_learned_now = merged.feedback_kind == "relevances" and merged.final and ranked.trainable
    if is_learned_now and len(merged.items) != expected:
        raise Rejected("relevances", f"{len(merged.items)} grades; give one for each of the first {expected} items")
    return (*outcomes, feedback)


def _received_outcomes(
    totals: Mapping[str, Mapping[str, float]], config: RankerConfig, impression: TrackedImpression
) -> tuple[OutcomesReceived, ...]:
    """Return the event of what totals add to the outcomes of an impression; none if they add nothing."""
    ranked, gained = impression.ranked, dict[str, dict[int, float]]()
    limit, weights = config.body.max_click_weight, dict[int, float]()
    new_totals = config.outcomes.item_values(totals, {str(ranked.ids[i]): i for i in ranked.order}, str)
    for name, values in new_totals.items():
        _check_visible(f"outcomes.{name}", list(values), ranked, config.problem.shown)
        earlier = impression.outcomes.get(name, {})
        added = {
            item: value - earlier.get(item, 0.0)
            for item, value in values.items()
            if value > earlier.get(item, 0.0) * (1 + MIN_INCREASE)
        }
        if not added:
            continue
        window = config.outcomes[name].window
        if impression.at and time.time() - impression.at > window:
            raise LateFeedback(f"{name}: its window of {window:g} seconds has ended; it is not learned from")
        gained[name] = added
        earlier_weights = config.outcomes.weights({name: earlier}, limit)
        new_weights = config.outcomes.weights({name: values}, limit)
        increases = {item: new_weights.get(item, 0.0) - earlier_weights.get(item, 0.0) for item in added}
        _add_to(weights, {item: increase for item, increase in increases.items() if increase > 0})
    if not gained:
        return ()
    ranked_if_closed = None
    if impression.closed:
        is_learned = bool(weights) and ranked.trainable and ranked.decision is not None
        without_values = msgspec.structs.replace(ranked, features=b"", values=b"", decision=None)
        ranked_if_closed = ranked if is_learned else without_values
    return (OutcomesReceived(ranked.impression, gained, weights, ranked_if_closed),)


def settle_end(impression: TrackedImpression | None) -> Closed | str:
    """Decide on the end of a window inside the transaction that writes it: feedback may have closed it already."""
    # The log does not have the impression any more: nothing has to be written.
    if impression is None:
        return LATE
    end = Closed(impression.ranked.impression)
    verdict = impression.verdict(end)
    return end if verdict == CLOSED else verdict


def _received_feedback(body: FeedbackBody, ranked: Ranked, config: RankerConfig) -> FeedbackReceived:
    """Return the event of a feedback request, or refuse it."""
    problem = config.problem
    try:
        kind, value = one_kind(msgspec.structs.asdict(body))
    except InvalidInput as error:
        raise Rejected("feedback", str(error)) from None
    if ranked.decision is not None and FEEDBACK_KINDS[kind] not in config.learner.accepts:
        accepts = " or ".join(sorted(accepted.__name__.lower() for accepted in config.learner.accepts)) or "nothing"
        raise IncompatibleFeedback(f"{kind}: this learner learns from {accepts}")
    if (ranked.mixed is not None or ranked.variant) and kind != "clicks":
        raise IncompatibleFeedback(f"{kind}: a list of an experiment accepts clicks only")
    try:
        items, values = named_values(kind, value, _index_by_id(value, ranked), str)
    except (IncompatibleFeedback, InvalidInput) as error:
        raise Rejected(kind, str(error)) from None
    _check_visible(kind, items, ranked, {"clicks": problem.shown, "relevances": problem.depth}.get(kind))
    if not all(map(math.isfinite, values)):
        raise Rejected(kind, "every number must be finite")
    if kind == "clicks" and min(values, default=0.0) < 0:
        raise Rejected(kind, "a click weight must not be negative")
    if kind == "relevances" and not 0 <= min(values, default=0.0) <= max(values, default=0.0) <= problem.max_grade:
        raise Rejected(kind, f"a grade is outside 0 … {problem.max_grade}")
    if kind == "clicks" and max(values, default=0.0) > config.body.max_click_weight:
        limit = f"at most {config.body.max_click_weight:g} (max_click_weight, set when it is created)"
        raise Rejected(kind, f"a click weighs {max(values):g}; this ranker accepts {limit}")
    return FeedbackReceived(body.impression, kind, items, values, body.final)


def _index_by_id(named: Any, ranked: Ranked) -> dict[str, int]:
    """Return the numbers of shown items by their keys: of the named ones if these are few, else of all."""
    if isinstance(named, list | dict) and len(named) <= MAX_SEARCHED_IDS:
        with suppress(ValueError):  # an id of the other type, or of no item
            numbers = {str(id): ranked.ids.index(id) for id in named}
            if all(i in ranked.order for i in numbers.values()):
                return numbers
    return {str(ranked.ids[i]): i for i in ranked.order}


def _merged_feedback(earlier: FeedbackReceived | None, feedback: FeedbackReceived) -> FeedbackReceived:
    """Merge feedback into earlier feedback: a click keeps its largest weight, other values are replaced."""
    if earlier is None or feedback.feedback_kind in REPLACING_KINDS:
        return feedback
    if earlier.feedback_kind != feedback.feedback_kind:
        raise IncompatibleFeedback(f"{feedback.feedback_kind}: this impression already has {earlier.feedback_kind}")
    values = dict(zip(earlier.items, earlier.values))
    for item, value in zip(feedback.items, feedback.values):
        values[item] = max(value, values.get(item, 0.0)) if feedback.feedback_kind == "clicks" else value
    return msgspec.structs.replace(feedback, items=list(values), values=list(values.values()))


def fingerprint_of(feedback: FeedbackReceived) -> bytes:
    """Return 16 bytes that are equal for equal feedback on the same impression."""
    values = array("d", [value + 0.0 for value in feedback.values])  # 0.0 where it is -0.0
    head = f"{feedback.feedback_kind} {feedback.final} {len(feedback.items)} ".encode()
    return hashlib.blake2b(head + array("q", feedback.items).tobytes() + values.tobytes(), digest_size=16).digest()


def _check_visible(field: str, items: list[int], ranked: Ranked, limit: int | None) -> None:
    if limit is None:
        return
    visible = set(ranked.order[:limit])
    for item in items:
        if item not in visible:
            raise Rejected(field, f"{ranked.ids[item]!r} was not among the first {limit} positions, which users see")


def late_outcomes(records: Iterable[Record]) -> dict[str, list[OutcomesReceived]]:
    """Return the outcomes that came after their impression had closed, by impression."""
    late = dict[str, list[OutcomesReceived]]()
    for record in records:
        event = record.event
        if isinstance(event, OutcomesReceived) and event.ranked is not None:
            late.setdefault(event.impression, []).append(event)
    return late


def closed_impressions(records: Iterable[Record]) -> Iterator[tuple[Record, TrackedImpression]]:
    """Yield every closed impression, with the record of its ranking."""
    waiting: dict[str, tuple[Record, TrackedImpression]] = {}
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            waiting.setdefault(event.impression, (record, TrackedImpression(event, record.seq, record.seq)))
        elif isinstance(event, FeedbackReceived | OutcomesReceived | Closed) and event.impression in waiting:
            _, impression = waiting[event.impression]
            if impression.add(event) == CLOSED:
                yield waiting.pop(event.impression)
