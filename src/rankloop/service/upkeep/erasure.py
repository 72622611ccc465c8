"""Erasure of a person: all events of a user go, from every ranker and experiment; what they taught stays or goes."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rankloop.adapter import MAX_ID_LENGTH
from rankloop.core.errors import Conflict, Rejected
from rankloop.service.log.archive import whole
from rankloop.service.log.events import Closed, Ranked, Rebased, comparison_entity, ranker_entity
from rankloop.service.upkeep.amendment import Changes, Forgotten, amend, amend_and_keep, left_open

if TYPE_CHECKING:
    from rankloop.service.service import Service


class Erased(NamedTuple):
    """How many impressions were erased, by ranker and by experiment; whether what they taught is gone too."""

    rankers: dict[str, int]
    experiments: dict[str, int]
    relearned: bool

    @property
    def impressions(self) -> int:
        return sum([*self.rankers.values(), *self.experiments.values()])


async def erase_user(service: "Service", user: str, relearn: bool = False) -> Erased:
    """Erase a person from log, archive and snapshots.

    What was learned from the events stays as weights, and the log says so; with `relearn` every ranker is learned again
    without them. Counts of experiments stay.
    """
    if not 0 < len(user) <= MAX_ID_LENGTH:
        raise Rejected("user", f"is 1 to {MAX_ID_LENGTH} characters long")
    if relearn:
        for name in sorted(service.rankers):
            await asyncio.to_thread(_changes, service, ranker_entity(name), user, relearn)
    rankers, experiments = {}, {}
    for name in sorted(service.rankers):
        rankers[name] = await _erase_in(service, ranker_entity(name), user, relearn)
    for name in sorted(service.comparisons):
        experiments[name] = await _erase_in(service, comparison_entity(name), user, False)
    return Erased(_above_0(rankers), _above_0(experiments), relearn)


def _above_0(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


async def _erase_in(service: "Service", entity: str, user: str, relearn: bool) -> int:
    for impression in [] if relearn else await asyncio.to_thread(_open_ones, service, entity, Forgotten(user=user)):
        await service.append(entity, Closed(impression))
    how: Callable[..., None] = amend if relearn else amend_and_keep
    return await service.change_past(entity, lambda: _changes(service, entity, user, relearn), how)


def _changes(service: "Service", entity: str, user: str, relearn: bool) -> tuple[Changes, int]:
    """The person's events; refused where they cannot be unlearned."""
    records = list(whole(service.store, entity, service.settings.data))
    found, count = Forgotten(user=user).changes(records)
    if relearn and found and any(isinstance(each.event, Rebased) and each.seq > min(found) for each in records):
        raise Conflict(
            f"{entity}: what was learned before somebody else was erased cannot be learned again, since "
            "those events are gone; erase without relearn"
        )
    return found, count


def _open_ones(service: "Service", entity: str, who: Forgotten) -> list[str]:
    """What the person has not closed: it closes as its window would, so that counts end even."""
    records = list(whole(service.store, entity, service.settings.data))
    shown = [(each.event, each.at) for each in records if isinstance(each.event, Ranked)]
    return left_open(records, [ranked.impression for ranked, at in shown if who.has(ranked, at)])
