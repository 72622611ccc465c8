"""Read the log of a service for evaluation: closed impressions, and by a replay the states that ranked them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.plain_values import decision_from_plain, with_receipt
from rankloop.core.registry.specs import nearest
from rankloop.evaluation.off_policy.ranking_log import LoggedRanking, RankingPolicy, rewards_by_position
from rankloop.logs.list_log import ListLog, ShownList
from rankloop.logs.service_export import read_service_export
from rankloop.service.application.export import parquet
from rankloop.service.application.rebuild import Replay, rebuild
from rankloop.service.domain.feedback_acceptance import TrackedImpression, late_outcomes
from rankloop.service.domain.trainer import logged_query
from rankloop.service.records import Closed, FeedbackReceived, Ranked, Record
from rankloop.service.stores.open import log_at

MAX_LOG_ERROR = 1e-6  # of a propensity; a replayed state that misses it is another one than drew the list


def read_service_log(where: str, ranker: str = "") -> ListLog:
    """Read the closed impressions of a ranker of a service; `rankings` of the log replays the ranker.

    Args:
      where: The folder, the SQLite file or the PostgreSQL address of the service.
      ranker: Its name; may be empty if there is only one.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / (Path(where).name or "log")
        with log_at(where) as log, path.open("wb") as file:
            entity = _entity(log.entities(), ranker, where)
            projection = rebuild(log.first_record(entity))
            for record in log.changes(entity):
                projection.apply(record)
            schemas = projection.config.schemas if projection.config is not None else []
            file.writelines(parquet(partial(log.read, entity), schemas))
        return replace(read_service_export(path), rankings=partial(_logged_rankings, where, ranker))


def _logged_rankings(where: str, ranker: str = "") -> Iterator[LoggedRanking]:
    """Yield the closed impressions of a ranker whose positions were all chosen by the learner."""
    with log_at(where) as log:
        entity = _entity(log.entities(), ranker, where)
        records = log.read(entity)
        replay = Replay(next(records))
        declared = replay.trainer.config.outcomes
        late = late_outcomes(log.read(entity)) if declared else {}
        learner = replay.trainer.config.learner
        if replay.trainer.config.body.shadow:
            raise InvalidInput("this ranker only shadows the base order, so its log cannot be used to evaluate others")
        n_rankings = n_reordered = 0
        for impression, state in _closed_impressions(replay, records):
            ranked = impression.ranked
            n_reordered += ranked.reordered
            if not ranked.trainable or ranked.decision is None or ranked.ingested or ranked.reordered:
                continue
            n_rankings += 1
            config = replay.trainer.config
            query = logged_query(ranked, config)
            decision = with_receipt(decision_from_plain(ranked.decision or {}), config.learner)
            policy = RankingPolicy(learner, config.fitted(replay.trainer.session.state if state is None else state))
            written = math.nan if ranked.log_propensity is None else ranked.log_propensity
            drawn = learner.log_prob(policy.state, query, decision.ranking)
            propensity = math.exp(written) if state is None or abs(drawn - written) > MAX_LOG_ERROR else None
            received = impression.feedback or FeedbackReceived(ranked.impression, "clicks")  # shown, not clicked
            feedback = replay.trainer.feedback(received, ranked, decision, shadow=False)
            rewards = rewards_by_position(decision.ranking, feedback, policy.positions_seen(len(decision.ranking)))
            candidates = range(len(ranked.ids)) if ranked.candidates is None else ranked.candidates
            ids, shown = [ranked.ids[i] for i in candidates], None
            if ranked.schema:
                values = config.logged_values(ranked)
                shown = ShownList(ranked.query_id, ids, [values.rows[i] for i in candidates], values.context, values.at)
            for event in late.get(ranked.impression, ()):
                impression.add(event)
            shown_items = [candidates[i] for i in decision.ranking.tolist()[: len(rewards)]]
            brought = {name: impression.outcomes.get(name, {}) for name in declared}
            by_position = {name: np.array([brought[name].get(item, 0.0) for item in shown_items]) for name in declared}
            user, names = ranked.session or ranked.user, [str(id) for id in ids]
            yield LoggedRanking(query, decision.ranking, rewards, policy, shown, user, names, by_position, propensity)
        if n_reordered and not n_rankings:
            raise InvalidInput(
                "rules have changed the order of every page, so that the probabilities of the orders are unknown: "
                "evaluate the exported log, GET /log/{name}.parquet"
            )


def _closed_impressions(replay: Replay, records: Iterator[Record]) -> Iterator[tuple[TrackedImpression, Any]]:
    """Apply the log, and yield every impression that an event closes, with the state of the number that ranked it."""
    ranked_from: dict[str, Any] = {}
    for record in records:
        event, impression = record.event, None
        if isinstance(event, Ranked) and event.impression not in ranked_from:
            ranked_from[event.impression] = replay.recent_states.get(event.state_number)
        elif isinstance(event, FeedbackReceived | Closed):
            impression = replay.projection.open.get(event.impression)
        replay.apply(record)
        if impression is not None and impression.ranked.impression not in replay.projection.open:
            yield impression, ranked_from.pop(impression.ranked.impression, None)


def _entity(entities: list[str], ranker: str, where: str) -> str:
    names = [entity.removeprefix("ranker/") for entity in entities if entity.startswith("ranker/")]
    if ranker and ranker not in names:
        raise InvalidInput(f"{where} has no ranker {ranker!r}{nearest(ranker, names)}")
    if not names or (len(names) > 1 and not ranker):
        rankers = f"the rankers {', '.join(names)}: choose one, as in --ranker {names[0]}" if names else "no ranker"
        raise InvalidInput(f"{where} has {rankers}")
    return f"ranker/{ranker or names[0]}"
