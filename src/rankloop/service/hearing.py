"""Feedback as it comes in: open, late, repeated or unknown."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NoReturn

from rankloop.core.errors import NotFound
from rankloop.service.bodies import FeedbackBody
from rankloop.service.errors import Late, Rejected
from rankloop.service.events import Fed, Ranked
from rankloop.service.plan import Plan
from rankloop.service.revealed import fed_of, gathered
from rankloop.service.view import View

if TYPE_CHECKING:
    from rankloop.service.service import Service

LONGEST_NAME = 64


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
        if time.monotonic() > impression.deadline:
            self._refuse_late(stream, body.impression)
        fed = fed_of(body, impression.ranked, plan)
        if fed in impression.heard:
            return "repeated"
        gathered(impression.fed, fed)
        folded = await self.service.append(stream, fed)
        if folded.outcome.verdict == "late":
            self._refuse_late(stream, body.impression)
        if folded.outcome.verdict == "refused":
            raise Rejected(fed.what, "this impression already has feedback of another kind")
        if folded.learned is not None:
            await folded.learned
        return folded.outcome.verdict

    async def _no_longer_open(self, stream: str, plan: Plan, body: FeedbackBody) -> Any:
        """Was it closed, and perhaps by this very feedback, whose answer was lost? Then it is not learned again."""
        name = body.impression[:LONGEST_NAME]
        records = await asyncio.to_thread(self.service.store.of_impression, stream, name)
        ranked = next((record.event for record in records if isinstance(record.event, Ranked)), None)
        if ranked is None:
            self.unknown[stream] = self.unknown.get(stream, 0) + 1
            raise NotFound(f"there is no impression {name!r}")
        fed = fed_of(body, ranked, plan)
        if any(isinstance(record.event, Fed) and record.event == fed for record in records):
            return "repeated"
        return self._refuse_late(stream, name)

    def _refuse_late(self, stream: str, impression: str) -> NoReturn:
        self.late[stream] = self.late.get(stream, 0) + 1
        raise Late(f"the window of the impression {impression!r} has closed; nothing was learned from this")
