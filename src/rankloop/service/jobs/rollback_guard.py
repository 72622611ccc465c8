"""The guard against a ranker that harms: when the comparison with its base is lost, it goes back and stops learning."""

import asyncio
import math
from typing import TYPE_CHECKING

from rankloop.interleaving import Comparison
from rankloop.service.errors import Unavailable
from rankloop.service.log.events import RolledBack
from rankloop.service.ranker.runtime import RankerRuntime

if TYPE_CHECKING:
    from rankloop.service.service import Service

LEVEL = 0.05  # the probability, over all tests, that a ranker as good as its base is stopped
FIRST_TEST = 16  # decided comparisons; every later test comes at twice as many
RETRY = 1.0  # seconds, while the log cannot be written
LOST = "the comparison with the base was lost with significance"


def is_lost(comparison: Comparison) -> bool:
    """Losses outweigh wins by more than chance explains.

    Tested at 16, 32, 64, … decided comparisons; the k-th test is at LEVEL / (k · (k + 1)), which sums to LEVEL.
    """
    decided = comparison.wins + comparison.losses
    test = math.log2(decided / FIRST_TEST) + 1 if decided >= FIRST_TEST else 0.0
    if test < 1 or test != int(test) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < LEVEL / (test * (test + 1))


def guard(service: "Service", runtime: RankerRuntime) -> None:
    """Freeze and go back where the comparison with the base is lost; that is an event, so a replay does not judge."""
    silent = not service.is_leader or not runtime.config.body.guard or runtime.projection.frozen or runtime.guarding
    if not silent and is_lost(runtime.projection.counters.comparison):
        runtime.guarding = True
        service.spawn(_protect(service, runtime, RolledBack(runtime.projection.good, LOST, freezes=True)))


async def _protect(service: "Service", runtime: RankerRuntime, event: RolledBack) -> None:
    """One event for both: a crash leaves either all of it or nothing."""
    try:
        while True:
            try:
                await service.append(runtime.entity, event)
                return
            except Unavailable:
                await asyncio.sleep(RETRY)
    finally:
        runtime.guarding = False
