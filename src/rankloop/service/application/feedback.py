"""Feedback on impressions: `domain.feedback_acceptance` decides on it inside the transaction that writes it."""

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rankloop.core.errors import NotFound
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.feedback_acceptance import CLOSED, MAX_NAME_LENGTH, settle_feedback
from rankloop.service.errors import LateFeedback
from rankloop.service.records import LogEntry
from rankloop.service.request_bodies import FeedbackBody, FeedbackResponse

if TYPE_CHECKING:
    from rankloop.service.application.node import Node


class FeedbackIntake:
    """Receives feedback on the impressions of rankers and experiments, and counts what is late or unknown."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.late = Counter[str]()  # feedback after the window, by entity
        self.unknown = Counter[str]()  # feedback on impressions that are not in the log, by entity

    async def receive(self, name: str, body: FeedbackBody, experiment: bool = False) -> FeedbackResponse:
        """Log feedback; if this process learns the ranker, wait until the new state is served.

        An impression that is not in the log raises `NotFound`, one whose window has closed `LateFeedback`.
        """
        directory = self.node.directory
        if experiment:
            compared = await directory.find_experiment(name)
            return FeedbackResponse(body.impression, await self._append(compared.entity, compared.config, body), 0)
        ranker = directory.rankers.get(name)
        if ranker is None:  # an impression of the ranker that an alias points to, or has pointed to
            *newer, oldest = await directory.find_targets(name)
            for target in newer:
                with suppress(NotFound):
                    return await self.receive((await directory.find_ranker(target)).name, body)
            return await self.receive((await directory.find_ranker(oldest)).name, body)
        verdict = await self._append(ranker.entity, ranker.config, body)
        return FeedbackResponse(body.impression, verdict, ranker.published.number)

    async def _append(self, entity: str, config: RankerConfig, body: FeedbackBody) -> Any:
        """Write feedback and return the verdict, which is decided inside the transaction."""
        name, settle = body.impression[:MAX_NAME_LENGTH], partial(settle_feedback, body, config)
        try:
            written = await self.node.log.append(LogEntry(entity, impression=name, settle=settle))
        except (LateFeedback, NotFound) as error:
            (self.late if isinstance(error, LateFeedback) else self.unknown)[entity] += 1
            raise
        if written.verdict == CLOSED:
            await self.node.learning.wait_until_served(entity, written.seq)
        return written.verdict
