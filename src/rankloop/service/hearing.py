"""Feedback as it comes in: open, late, repeated or unknown."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NoReturn

from rankloop.core.errors import NotFound
from rankloop.service.errors import Late, Rejected
from rankloop.service.log.events import Record
from rankloop.service.log.projection import Open, View
from rankloop.service.ranker.config import Plan
from rankloop.service.ranker.feedback import check_whole, fed_of, gathered
from rankloop.service.requests import FeedbackBody

if TYPE_CHECKING:
    from rankloop.service.service import Service

MAX_NAME_LENGTH = 64


class Hearing:
    """Checks feedback, logs it, and counts what came too late or for nothing."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.late: dict[str, int] = {}
        self.unknown: dict[str, int] = {}

    async def hear(self, stream: str, view: View, plan: Plan, body: FeedbackBody) -> Any:
        """The verdict, once what the feedback teaches is served."""
        impression = view.open.get(body.impression)
        if impression is None and self.service.store.shared:
            await self.service.log.append(None)  # another worker may have shown it a moment ago
            impression = view.open.get(body.impression)
        if impression is None:
            return await self._no_longer_open(stream, plan, body)
        fed = fed_of(body, impression.ranked, plan)
        if fed in impression.heard:
            return "repeated"
        if time.monotonic() > impression.deadline:
            self._refuse_late(stream, body.impression)
        check_whole(gathered(impression.fed, fed), impression.ranked, plan.problem)
        folded = await self.service.append(stream, fed)
        if folded.outcome.verdict == "late":  # it was closed at this very moment
            return await self._no_longer_open(stream, plan, body)
        if folded.outcome.verdict == "refused":
            raise Rejected(fed.what, "this impression already has feedback of another kind")
        if folded.learned is not None:
            await folded.learned
        return folded.outcome.verdict

    async def _no_longer_open(self, stream: str, plan: Plan, body: FeedbackBody) -> Any:
        """Was it closed, and perhaps by this very feedback, whose answer was lost? Then it is not learned again."""
        name = body.impression[:MAX_NAME_LENGTH]
        records = await asyncio.to_thread(self.service.store.of_impression, stream, name)
        impression = _before_closing(records)
        if impression is None:
            self.unknown[stream] = self.unknown.get(stream, 0) + 1
            raise NotFound(f"there is no impression {name!r}")
        if fed_of(body, impression.ranked, plan) in impression.heard:
            return "repeated"
        return self._refuse_late(stream, name)

    def _refuse_late(self, stream: str, impression: str) -> NoReturn:
        self.late[stream] = self.late.get(stream, 0) + 1
        raise Late(f"the window of the impression {impression!r} has closed; nothing was learned from this")


def _before_closing(records: list[Record]) -> Open | None:
    """An impression as it was when it closed: what came later is in the log too, but was not heard."""
    view, impression = View(None), None
    for record in records:
        view.reopen(record)
        impression = next(iter(view.open.values()), impression)
    return impression
