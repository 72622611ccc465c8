"""The log of a service as rankings with the states that drew them, learned again on the way: to evaluate others."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.evaluation.off_policy.propensities import RankingPolicy, positions_seen
from rankloop.evaluation.off_policy.ranking_log import LoggedRanking, rewards_by_position
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ListLog, ShownList
from rankloop.logs.service_export import read_service_export
from rankloop.service.application.export import parquet
from rankloop.service.application.rebuild import MAX_RECENT_STATES, Replay
from rankloop.service.domain.catalogue import ItemCatalogue, catalogue_of
from rankloop.service.domain.feedback_rules import learner_feedback
from rankloop.service.domain.named_values import logged_values
from rankloop.service.domain.trainer import fitted, logged_decision
from rankloop.service.log.archive import read_records
from rankloop.service.records import Closed, Created, FeedbackReceived, Ranked, Record, SchemaChanged, catalogue_entity
from rankloop.service.stores.open import ReadOnlyLog, log_at


class ClosedImpression(NamedTuple):
    """An impression that has closed; `state` is the one it was drawn from."""

    ranked: Ranked
    feedback: FeedbackReceived | None
    state: Any


def read_service_log(where: str, ranker: str = "") -> ListLog:
    """Read the closed impressions of a ranker from the folder, the SQLite file or the database of a service.

    The log's `rankings` learns it again, for estimators that need the states that drew the rankings.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / (Path(where).name or "log")
        write_export(where, path, ranker)
        return replace(read_service_export(path), rankings=partial(logged_rankings, where, ranker))


def logged_rankings(where: str, ranker: str = "") -> Iterator[LoggedRanking]:
    """Every closed impression of a ranker; left out are those whose positions were not all the learner's choice."""
    with log_at(where) as opened:
        records = read_records(opened, _entity(opened.entities(), ranker, where), opened.folder)
        replay = _replay(next(records), opened)
        config = replay.trainer.config
        if config.body.shadow:
            raise InvalidInput("this ranker only shadows today's order, so its log cannot judge any other")
        for closed in _closed(replay, records):
            if not closed.ranked.trainable or closed.ranked.decision is None or closed.ranked.ingested:
                continue
            query, decision = logged_decision(closed.ranked, replay.trainer.config, replay.trainer.catalogue)
            policy = RankingPolicy(config.learner, fitted(closed.state, replay.trainer.config))
            received = closed.feedback or FeedbackReceived(closed.ranked.impression, "clicks")  # shown, not clicked
            feedback = learner_feedback(received, closed.ranked, decision, config.problem, shadow=False)
            rewards = rewards_by_position(decision.ranking, feedback, positions_seen(policy, len(decision.ranking)))
            ranked = closed.ranked
            chosen = range(len(ranked.ids)) if ranked.candidates is None else ranked.candidates
            whose = ranked.session or ranked.user, [str(ranked.ids[i]) for i in chosen]
            yield LoggedRanking(query, decision.ranking, rewards, policy, _asked(ranked, replay), *whose)


def _asked(ranked: Ranked, replay: Replay) -> ShownList | None:
    """What the learner was asked in values by name; None where features are plain numbers."""
    if not ranked.schema:
        return None
    values = logged_values(ranked, replay.trainer.config, replay.trainer.catalogue)
    chosen = range(len(ranked.ids)) if ranked.candidates is None else ranked.candidates
    ids, rows = [ranked.ids[i] for i in chosen], [values.rows[i] for i in chosen]
    return ShownList(ranked.query_id, ids, rows, values.context, values.at)


def schemas_in(where: str, ranker: str = "") -> list[Schema]:
    """All versions of the schema by which a ranker of a service ranked; none where features are plain numbers."""
    found = list[Schema]()
    with log_at(where) as opened:
        for record in read_records(opened, _entity(opened.entities(), ranker, where), opened.folder):
            event = record.event
            plain = event.body.problem.schema if isinstance(event, Created) else None
            plain = event.schema if isinstance(event, SchemaChanged) else plain
            schema = None if plain is None else Schema.from_plain(plain)
            # of two changes that were made at once the second did not count
            if schema is not None and (not found or schema.version == found[-1].version + 1):
                found.append(schema)
    return found


def write_export(where: str, to: Path, ranker: str = "") -> None:
    """The closed impressions of a ranker as the file that its service would export."""
    schemas = schemas_in(where, ranker)
    with log_at(where) as opened, to.open("wb") as file:
        records = read_records(opened, _entity(opened.entities(), ranker, where), opened.folder)
        first = next(records)
        known = _catalogue(first, opened)
        for piece in parquet(chain([first], records), schemas, next(iter(known.values()), None)):
            file.write(piece)


def _replay(first: Record, log: ReadOnlyLog) -> Replay:
    """A replay of one ranker, with its catalogue."""
    return Replay(first, _catalogue(first, log))


def _catalogue(first: Record, log: ReadOnlyLog) -> dict[str, ItemCatalogue]:
    """The catalogue of a ranker by its name; none where it has none."""
    name = first.event.body.problem.catalogue if isinstance(first.event, Created) else None
    return {name: catalogue_of(log.read(catalogue_entity(name)))} if name else {}


def _closed(replay: Replay, records: Iterator[Record]) -> Iterator[ClosedImpression]:
    """Apply the log; whatever was open before an event and is not after it has closed."""
    states = OrderedDict({0: replay.trainer.session.state})
    drawn: dict[str, Any] = {}
    for record in records:
        event = record.event
        if isinstance(event, Created):
            continue
        if isinstance(event, Ranked) and event.impression not in drawn:
            drawn[event.impression] = states.get(event.state_number)
        known = replay.projection.open.get(event.impression) if isinstance(event, FeedbackReceived | Closed) else None
        replay.apply(record)
        states[replay.trainer.number] = replay.trainer.session.state
        while len(states) > MAX_RECENT_STATES:  # a ranking may have been drawn from a state that was already outdated
            states.popitem(last=False)
        if known is not None and known.ranked.impression not in replay.projection.open:
            state = drawn.pop(known.ranked.impression, None)
            if state is not None:
                yield ClosedImpression(known.ranked, known.feedback, state)


def _entity(entities: list[str], ranker: str, where: str) -> str:
    names = [entity.removeprefix("ranker/") for entity in entities if entity.startswith("ranker/")]
    if ranker and ranker not in names:
        raise InvalidInput(f"{where} has no ranker {ranker!r}{nearest(ranker, names)}")
    if not names or (len(names) > 1 and not ranker):
        found = f"the rankers {', '.join(names)}: say which one, as in --ranker {names[0]}" if names else "no ranker"
        raise InvalidInput(f"{where} has {found}")
    return f"ranker/{ranker or names[0]}"
