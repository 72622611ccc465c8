"""What the people who run a service ask of it: create, freeze, go back, copy, compare."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from rankloop.batch.estimator import NORMALISED
from rankloop.core.errors import Conflict, NotFound
from rankloop.core.registry import spec_of
from rankloop.core.saved_session import dumps, loads_with_notes
from rankloop.core.types import Problem
from rankloop.logs.context import Encoding
from rankloop.service.errors import Rejected
from rankloop.service.log.events import (
    Created,
    Experiment,
    Frozen,
    Resumed,
    RolledBack,
    experiment_stream,
    ranker_stream,
)
from rankloop.service.log.recovery import first_record
from rankloop.service.ranker.comparison import LiveExperiment
from rankloop.service.ranker.config import Plan, check_new, plan_of
from rankloop.service.ranker.size import check_file_fits, check_fits
from rankloop.service.requests import CreateBody, ProblemBody
from rankloop.service.service import Service


async def create(service: Service, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
    """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
    plan = plan_of(body)
    if name not in service.rankers:
        await asyncio.to_thread(_check_new, plan, service.settings.max_state)
        if len(service.rankers) >= service.settings.max_rankers:
            raise Conflict(f"there are {len(service.rankers)} rankers already, which is the limit")
        folded = await service.append(ranker_stream(name), Created(plan.body, start, source))
        if folded.outcome.verdict == "created":
            return True
    if service.rankers[name].plan.body != plan.body or (start and start != await _start_of(service, name)):
        raise Conflict(f"the ranker {name!r} exists already, with other settings")
    return False


async def _start_of(service: Service, name: str) -> bytes:
    """The saved session that a ranker began with."""
    event = (await asyncio.to_thread(first_record, service.store, ranker_stream(name))).event
    return event.start if isinstance(event, Created) else b""


def _check_new(plan: Plan, most: int) -> None:
    """On a thread: a learner may take its time to begin."""
    check_fits(plan.body.learner, plan.problem, most)
    check_new(plan)


async def create_from_file(service: Service, name: str, content: bytes) -> bool:
    """A ranker that goes on from what `save` wrote, of a `Session` or a `Ranker`, with the settings of a new one."""
    await asyncio.to_thread(check_file_fits, content, service.settings.max_state)
    session, notes = await asyncio.to_thread(loads_with_notes, content)
    if notes.get(NORMALISED):
        raise Rejected(
            "state", "this model ranks features that were scaled inside each query, which a service does not"
        )
    problem = _problem_of(session.problem, notes.get("items"), notes.get("encoding"))
    body = CreateBody(learner=spec_of(session.learner), problem=problem, seed=session.seed)
    return await create(service, name, body, content, "a file")


def _problem_of(problem: Problem, items: Any, encoding: Any) -> ProblemBody:
    """As a request would bring it: a file may hold what no request can, and what no log could be read with."""
    known = problem._asdict()
    n_items, names = known.pop("n_items"), list(known.pop("feature_names"))
    named = None if n_items is None else items or list(range(n_items))
    told = None if encoding is None else Encoding.from_plain(encoding).to_plain()
    context = told and {name: told[name] for name in ("columns", "values", "means")}
    told_names = {"items": named, "feature_names": names or None, "context": context}
    try:
        body = msgspec.convert(known | told_names, ProblemBody)
    except msgspec.ValidationError as error:
        raise Rejected("problem", f"the file says what no ranker can be: {error}") from None
    if body.items is not None and len(body.items) != n_items:
        raise Rejected("problem.items", f"the file names {len(body.items)} items for a set of {n_items}")
    return body


async def freeze(service: Service, name: str, reason: str) -> None:
    await service.look_for(name)
    await service.append(service.ranker(name).stream, Frozen(reason))


async def resume(service: Service, name: str) -> None:
    await service.look_for(name)
    await service.append(service.ranker(name).stream, Resumed())


async def rollback(service: Service, name: str, number: int | None) -> int:
    """Go back to a snapshot (the newest, unless said); the generator goes on from where it is."""
    await service.look_for(name)
    live = service.ranker(name)
    known = [0] + [row[0] for row in await asyncio.to_thread(service.store.snapshots, live.stream)]
    to = known[-1] if number is None else number
    if to not in known:
        raise NotFound(f"there is no snapshot of state {to}; there are those of {', '.join(map(str, known))}")
    folded = await service.append(live.stream, RolledBack(to, "asked for"))
    if folded.learned is not None:
        await folded.learned
    return to


async def clone(service: Service, name: str, new: str) -> bool:
    """A new ranker that begins with the state of this one."""
    await service.look_for(name)
    live = service.ranker(name)
    start = await asyncio.to_thread(dumps, live.serving)
    await service.look_for(new)
    if new in service.rankers:
        raise Conflict(f"the ranker {new!r} exists already")
    return await create(service, new, live.plan.body, start, name)


async def create_experiment(service: Service, name: str, event: Experiment) -> bool:
    """Whether the experiment is new; as for rankers."""
    LiveExperiment(experiment_stream(name), event, service.rankers)
    if name not in service.experiments:
        folded = await service.append(experiment_stream(name), event)
        if folded.outcome.verdict == "created":
            return True
    if service.experiments[name].event.body != event.body:
        raise Conflict(f"the experiment {name!r} exists already, with other settings")
    return False
