"""What visitors ask of a service: rankings and feedback, of rankers and of experiments."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from rankloop.core.errors import Conflict
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import Ranked
from rankloop.service.log.projection import View
from rankloop.service.ranker.comparison import LiveExperiment
from rankloop.service.ranker.query import Asked, asked_of, new_impression, shown_order
from rankloop.service.ranker.runtime import Live
from rankloop.service.requests import FeedbackAnswer, FeedbackBody, Id, RankAnswer, RankBody
from rankloop.service.service import Service


async def rank(service: Service, name: str, body: RankBody, key: str | None = None) -> RankAnswer:
    """The order to show; a request with the same `key` gets the same answer."""
    await service.look_for(name)
    return await _rank(service, service.ranker(name), body, key)


async def experiment_rank(service: Service, name: str, body: RankBody, key: str | None = None) -> RankAnswer:
    """One list from both sides; a request with the same `key` gets the same answer."""
    await service.look_for(name)
    return await _rank(service, service.experiment(name), body, key)


async def feedback(service: Service, name: str, body: FeedbackBody) -> FeedbackAnswer:
    """What came back for a ranking."""
    await service.look_for(name)
    live = service.ranker(name)
    return FeedbackAnswer(body.impression, await _hear(service, live, body), live.published.number)


async def experiment_feedback(service: Service, name: str, body: FeedbackBody) -> FeedbackAnswer:
    """The clicks on such a list."""
    await service.look_for(name)
    return FeedbackAnswer(body.impression, await _hear(service, service.experiment(name), body), 0)


async def _rank(service: Service, live: Live | LiveExperiment, body: RankBody, key: str | None) -> RankAnswer:
    asked = asked_of(body, live.plan, service.settings.max_items)
    impression = new_impression(key)
    before = await _ranked_before(service, live.stream, live.view, impression, asked) if key is not None else None
    if before is not None:
        return _answer(before)
    _check_room(service, live.view)
    ranked = live.rank(asked, impression)
    try:
        folded = await service.append(live.stream, ranked)
    finally:
        if isinstance(live, Live):
            live.deciding.pop(impression, None)
    if folded.outcome.verdict == "repeated":  # the same request, twice at the same moment
        return _answer(_checked(live.view.open[impression].ranked, asked))
    return _answer(ranked)


async def _hear(service: Service, live: Live | LiveExperiment, body: FeedbackBody) -> Any:
    return await service.hearing.hear(live.stream, live.view, live.plan, body)


async def _ranked_before(service: Service, stream: str, view: View, impression: str, asked: Asked) -> Ranked | None:
    """What was shown for a request that came before; `Conflict` if that one asked for something else."""
    known = view.open.get(impression)
    if known is not None:
        return _checked(known.ranked, asked)
    records = await asyncio.to_thread(service.store.of_impression, stream, impression)
    before = next((record.event for record in records if isinstance(record.event, Ranked)), None)
    return None if before is None else _checked(before, asked)


def _checked(before: Ranked, asked: Asked) -> Ranked:
    """What was shown before, if the same was asked."""
    query, pinned = asked.query, asked.pinned
    to_show = sorted(shown_order(asked, np.arange(len(query.features))))
    given = (asked.ids, asked.features.tobytes(), query.id, query.context.tolist(), pinned, to_show)
    pins = before.shown[: len(pinned)]
    if given != (before.ids, before.features, before.query_id, before.context, pins, sorted(before.shown)):
        raise Conflict("this Idempotency-Key was used for another ranking")
    return before


def _check_room(service: Service, view: View) -> None:
    if len(view.open) >= service.settings.max_open:
        raise Unavailable(f"{len(view.open)} impressions wait for feedback, which is the limit; try again later")


def _answer(ranked: Ranked) -> RankAnswer:
    ids: list[Id] = ranked.ids
    return RankAnswer(ranked.impression, [ids[i] for i in ranked.shown], ranked.state, ranked.log_propensity)
