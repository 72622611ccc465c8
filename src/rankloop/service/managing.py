"""What the people who run a service ask of it: create, freeze, go back, copy, compare."""

from __future__ import annotations

import asyncio

from rankloop.core.errors import Conflict, NotFound
from rankloop.core.registry import spec_of
from rankloop.core.saving import dumps, loads_with_notes
from rankloop.service.bodies import CreateBody, ProblemBody
from rankloop.service.events import (
    Created,
    Experiment,
    Frozen,
    Resumed,
    RolledBack,
    experiment_stream,
    ranker_stream,
)
from rankloop.service.experiments import LiveExperiment
from rankloop.service.plan import check_builds, plan_of
from rankloop.service.service import Service


async def create(service: Service, name: str, body: CreateBody, start: bytes = b"", source: str = "") -> bool:
    """Whether the ranker is new; the same again changes nothing, another under the same name is a `Conflict`."""
    plan = plan_of(body)
    check_builds(plan)
    if name not in service.rankers:
        if len(service.rankers) >= service.settings.max_rankers:
            raise Conflict(f"there are {len(service.rankers)} rankers already, which is the limit")
        folded = await service.append(ranker_stream(name), Created(plan.body, start, source))
        if folded.outcome.verdict == "created":
            return True
    if service.rankers[name].plan.body != plan.body or start:
        raise Conflict(f"the ranker {name!r} exists already, with other settings")
    return False


async def create_from_file(service: Service, name: str, content: bytes) -> bool:
    """A ranker that goes on from what `save` wrote, of a `Session` or a `Ranker`, with the settings of a new one."""
    session, notes = await asyncio.to_thread(loads_with_notes, content)
    known = session.problem._asdict()
    n_items, names = known.pop("n_items"), list(known.pop("feature_names"))
    items = None if n_items is None else notes.get("items") or list(range(n_items))
    problem = ProblemBody(**known, items=items, feature_names=names or None)
    body = CreateBody(learner=spec_of(session.learner), problem=problem, seed=session.seed)
    return await create(service, name, body, content, "a file")


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
