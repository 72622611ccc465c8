"""Whether a learner settles: how much of the top of its rankings stays the same while it learns on."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.protocols import AnyLearner
from rankloop.core.types import Ints, Query


class TopOverlap(NamedTuple):
    """After `t` rounds: how many items the two models' top lists share, on average over the probing queries."""

    t: int
    common: float


def common_items(a: Ints, b: Ints, top: int = 10) -> int:
    """Return the number of items among the first `top` of both rankings.

    Args:
      a: A ranking.
      b: Another ranking.
      top: The number of positions.
    """
    return len(np.intersect1d(a[:top], b[:top], assume_unique=True))


def overlaps(
    learner: AnyLearner,
    states: Iterable[Any],
    queries: Iterable[Query],
    *,
    apart: int = 100,
    every: int = 50,
    top: int = 10,
) -> Iterator[TopOverlap]:
    """The overlap of the top lists predicted by the models of rounds t and t + `apart`, every `every` rounds.

    `states` are those after round 1, 2, …, as `play` gives them in `round.learned`; `queries` probe the models and
    are not learned from. A learner that oscillates shows a small overlap however long it has learned.
    Reference: Raman, Joachims, Shivaswamy and Schnabel (2013), Stable Coactive Learning via Perturbation, figure 2.
    """
    if apart < 1 or every < 1 or top < 1:
        raise InvalidInput(f"apart = {apart}, every = {every} and top = {top} count from 1")
    probes = list(queries)
    if not probes:
        raise InvalidInput("at least one query is needed to probe the models")
    earlier: deque[tuple[int, list[Ints]]] = deque()
    for t, state in enumerate(states, start=1):
        if t % every == 0:
            earlier.append((t, [learner.predict(state, query) for query in probes]))
        if earlier and earlier[0][0] + apart == t:
            now = [learner.predict(state, query) for query in probes]
            then_t, then = earlier.popleft()
            shared = [common_items(a, b, top) for a, b in zip(then, now, strict=True)]
            yield TopOverlap(then_t, float(np.mean(shared)))
