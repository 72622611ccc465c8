"""An impression by its key: what was shown and what has come back for it, as the log has it."""

from collections.abc import Iterable

from rankloop.core.errors import IncompatibleFeedback
from rankloop.service.log.events import Closed, FeedbackReceived, Ranked, Record
from rankloop.service.ranker.feedback import fingerprint, merged

IMPRESSION_SIZE, ITEM_SIZE = 2_000, 200  # bytes of memory of an impression, and of each item beside its features


class Impression:
    """An impression, and what came back for it up to an event."""

    __slots__ = ("began", "closed", "feedback", "ranked", "received", "seq")

    def __init__(self, ranked: Ranked, began: int) -> None:
        self.ranked = ranked
        self.began = self.seq = began
        self.closed = False
        self.feedback: FeedbackReceived | None = None  # all of it together
        self.received: set[bytes] = set()  # fingerprints

    def add(self, event: FeedbackReceived | Closed) -> str:
        """What becomes of it: taken, closed, repeated, refused, late."""
        if self.closed:
            return "late"
        if isinstance(event, Closed):
            self.closed = True
            return "closed"
        known_by = fingerprint(event)
        if known_by in self.received:
            return "repeated"
        try:
            self.feedback = merged(self.feedback, event)
        except IncompatibleFeedback:
            return "refused"
        self.received.add(known_by)
        self.closed = event.final
        return "closed" if event.final else "taken"

    @property
    def size(self) -> int:
        """Bytes of memory, nearly."""
        return IMPRESSION_SIZE + ITEM_SIZE * len(self.ranked.ids) + len(self.ranked.features) + len(self.ranked.values)


def impression_of(records: Iterable[Record], known: Impression | None = None) -> Impression | None:
    """The impression that these records of it make, after what is known of it already."""
    for record in records:
        event = record.event
        if isinstance(event, Ranked):
            if known is None or known.closed:
                known = Impression(event, record.seq)
        elif isinstance(event, FeedbackReceived | Closed) and known is not None:
            known.add(event)
        if known is not None:
            known.seq = record.seq
    return known
