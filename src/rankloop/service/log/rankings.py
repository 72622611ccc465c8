"""The log of a service as rankings with the states that drew them, learned again on the way: to evaluate others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest

if TYPE_CHECKING:
    from rankloop.evaluation.off_policy.ranking_log import LoggedRanking
    from rankloop.service.log.events import Fed, Ranked, Record

ADDRESSES = ("postgresql://", "postgres://")
REMEMBERED = 10_000  # recent states: a ranking may have been drawn from one that was already outdated


class ClosedImpression(NamedTuple):
    """An impression that has closed; `state` is the one it was drawn from."""

    ranked: Ranked
    fed: Fed | None
    state: Any


def is_service_log(where: str) -> bool:
    """Whether this is the folder, the file or the database of a service."""
    if where.startswith(ADDRESSES):
        return True
    path = Path(where)
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(6) == b"SQLite"


def logged_rankings(where: str, ranker: str = "") -> Iterator[LoggedRanking]:
    """Every closed impression of a ranker; left out are those whose positions were not all the learner's choice."""
    from rankloop.evaluation.off_policy.propensities import RankingPolicy, positions_seen
    from rankloop.evaluation.off_policy.ranking_log import LoggedRanking, rewards_by_position
    from rankloop.service.log.archive import whole
    from rankloop.service.log.replay import Replay
    from rankloop.service.log.stores.open import log_at
    from rankloop.service.ranker.feedback import feedback_of, no_clicks
    from rankloop.service.ranker.trainer import decided_of

    with log_at(where) as opened:
        records = whole(opened, _stream(opened.streams(), ranker, where), opened.folder)
        replay = Replay(next(records))
        plan = replay.learning.plan
        if plan.body.shadow:
            raise InvalidInput("this ranker only shadows today's order, so its log cannot judge any other")
        for shown in _closed(replay, records):
            if not shown.ranked.teaches or shown.ranked.decision is None:
                continue
            query, decision = decided_of(shown.ranked, plan)
            policy = RankingPolicy(plan.learner, shown.state)
            fed = shown.fed or no_clicks(shown.ranked.impression)
            feedback = feedback_of(fed, shown.ranked, decision, plan.problem, shadow=False)
            positions = positions_seen(policy, len(decision.ranking))
            rewards = rewards_by_position(decision.ranking, feedback, positions)
            yield LoggedRanking(query, decision.ranking, rewards, policy)


def feature_names_in(where: str, ranker: str = "") -> tuple[str, ...]:
    """What a ranker of a service calls the features of its items."""
    from rankloop.service.log.archive import whole
    from rankloop.service.log.replay import Replay
    from rankloop.service.log.stores.open import log_at

    with log_at(where) as opened:
        first = next(whole(opened, _stream(opened.streams(), ranker, where), opened.folder))
    return Replay(first).learning.plan.problem.feature_names


def _closed(replay: Any, records: Iterator[Record]) -> Iterator[ClosedImpression]:
    """Fold the log; whatever was open before an event and is not after it has closed."""
    from rankloop.service.log.events import Closed, Created, Fed, Ranked

    states = OrderedDict({0: replay.learning.session.state})
    drawn: dict[str, Any] = {}
    for record in records:
        event = record.event
        if isinstance(event, Created):
            continue
        if isinstance(event, Ranked) and event.impression not in drawn:
            drawn[event.impression] = states.get(event.state)
        known = replay.view.open.get(event.impression) if isinstance(event, Fed | Closed) else None
        replay.take(record)
        states[replay.learning.number] = replay.learning.session.state
        while len(states) > REMEMBERED:
            states.popitem(last=False)
        if known is not None and known.ranked.impression not in replay.view.open:
            state = drawn.pop(known.ranked.impression, None)
            if state is not None:
                yield ClosedImpression(known.ranked, known.fed, state)


def _stream(streams: list[str], ranker: str, where: str) -> str:
    names = [stream.removeprefix("ranker/") for stream in streams if stream.startswith("ranker/")]
    if ranker and ranker not in names:
        raise InvalidInput(f"{where} has no ranker {ranker!r}{nearest(ranker, names)}")
    if not names or (len(names) > 1 and not ranker):
        said = f"the rankers {', '.join(names)}: say which one, as in --ranker {names[0]}" if names else "no ranker"
        raise InvalidInput(f"{where} has {said}")
    return f"ranker/{ranker or names[0]}"
