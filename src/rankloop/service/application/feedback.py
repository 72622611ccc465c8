"""Feedback: what comes back for a ranking, decided in the transaction that writes it."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rankloop.core.errors import NotFound
from rankloop.service.domain.configuration import RankerConfig
from rankloop.service.domain.feedback_rules import CLOSED, MAX_NAME_LENGTH, settle_feedback
from rankloop.service.errors import LateFeedback
from rankloop.service.log.writer import settled_entry
from rankloop.service.requests import FeedbackBody, FeedbackResponse

if TYPE_CHECKING:
    from rankloop.service.application.node import Node


class FeedbackIntake:
    """Takes feedback on what rankers and comparisons have shown, and counts what it cannot take."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.late: dict[str, int] = {}  # feedback that came after the window, by entity
        self.unknown: dict[str, int] = {}  # feedback for impressions that nobody knows, by entity

    async def take(self, name: str, body: FeedbackBody) -> FeedbackResponse:
        """Take what came back for a ranking; `name` is that of a ranker, or an alias of one.

        The answer comes once what is learned from it is served, if that happens in this process.
        """
        directory = self.node.directory
        ranker = directory.rankers.get(name)
        if ranker is None:
            return await self._take_for_alias(name, body)
        verdict: Any = await self._receive(ranker.entity, ranker.config, body)
        return FeedbackResponse(body.impression, verdict, ranker.published.number)

    async def take_experiment(self, name: str, body: FeedbackBody) -> FeedbackResponse:
        """Take the clicks on a list of a comparison."""
        comparison = await self.node.directory.find_experiment(name)
        verdict: Any = await self._receive(comparison.entity, comparison.config, body)
        return FeedbackResponse(body.impression, verdict, 0)

    async def _take_for_alias(self, name: str, body: FeedbackBody) -> FeedbackResponse:
        """Of what the ranker has shown to which the name leads, or one of those to which it led before."""
        directory = self.node.directory
        *newer, oldest = await directory.find_targets(name)
        for target in newer:
            with suppress(NotFound):
                return await self.take((await directory.find_ranker(target)).name, body)
        return await self.take((await directory.find_ranker(oldest)).name, body)

    async def _receive(self, entity: str, config: RankerConfig, body: FeedbackBody) -> str:
        """Return the verdict, which is decided when the feedback is written."""
        settle = partial(settle_feedback, body, config)
        try:
            written = await self.node.log.append(settled_entry(entity, body.impression[:MAX_NAME_LENGTH], settle))
        except LateFeedback:
            self.late[entity] = self.late.get(entity, 0) + 1
            raise
        except NotFound:
            self.unknown[entity] = self.unknown.get(entity, 0) + 1
            raise
        if written.verdict == CLOSED:
            await self.node.learning.served(entity, written.seq)
        return written.verdict
