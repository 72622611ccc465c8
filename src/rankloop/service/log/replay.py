"""The proof that the state is the log: apply everything again, and compare with what the service wrote down."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rankloop import __version__
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import loads
from rankloop.service.log.catalogue import Catalogue
from rankloop.service.log.events import (
    AliasSet,
    CatalogueChanged,
    ComparisonCreated,
    Created,
    Deleted,
    Rebased,
    Record,
    Snapshotted,
)
from rankloop.service.log.projection import Projection
from rankloop.service.ranker.config import config_of
from rankloop.service.ranker.trainer import Trainer, digest

REMEMBERED = 10_000  # recent states, among which a snapshot that was written late is looked for


class ReplayResult(NamedTuple):
    """What a log amounts to, as `rankloop replay --json` prints it."""

    stream: str  # "ranker/name"
    events: int
    learned: int
    refused: int
    state: int
    digest: str
    checked: int  # snapshots that agree bit for bit
    differing: tuple[int, ...]  # state numbers of those that do not
    versions: tuple[str, ...] = ()  # of rankloop, by which those were learned, where it is not this one; "?": of 0.1

    @property
    def verdict(self) -> str:
        """What to make of it: another version may compute otherwise, the same one never does."""
        if not self.differing:
            return "the same bit for bit"
        many = f"{len(self.differing)} snapshots DIFFER"
        if not self.versions:
            return f"{many}, though this version learned them: the log is damaged, or the CPU is of another kind"
        learned, here = " and ".join(self.versions).replace("?", "0.1"), f"this is {__version__}"
        return (
            f"{many}; they were learned by rankloop {learned}, {here}: replay them with the version that learned them"
        )


class Replay:
    """One ranker's records, applied from the first."""

    def __init__(self, first: Record, catalogues: Mapping[str, Catalogue] | None = None) -> None:
        if not isinstance(first.event, Created):
            raise InvalidInput(f"the log of {first.entity} does not begin with the creation of the ranker")
        config = config_of(first.event.body)
        self.entity = first.entity
        self.projection = Projection(config)
        self.trainer = Trainer(config, first.event.start, (catalogues or {}).get(config.body.problem.catalogue or ""))
        self.events = 1
        self.checked = 0
        self.differing: list[int] = []
        self.versions: set[str] = set()  # of rankloop, by which what differs was learned
        self._recent: OrderedDict[int, Any] = OrderedDict({0: self.trainer.session.state})
        self._kept: dict[int, Any] = {0: self.trainer.session.state}

    def apply(self, record: Record) -> None:
        self.events += 1
        outcome = self.projection.apply(record)
        if outcome.step is not None:
            self.trainer.learn(outcome.step, self._state_at)
            self._recent[self.trainer.number] = self.trainer.session.state
            if len(self._recent) > REMEMBERED:
                self._recent.popitem(last=False)
        if isinstance(record.event, Snapshotted):
            self._check(record.event)
        elif isinstance(record.event, Rebased) and not record.event.projection:
            self._kept[record.event.number] = loads(record.event.session).state

    def result(self) -> ReplayResult:
        session = self.trainer.session
        return ReplayResult(
            self.entity,
            self.events,
            session.learned,
            session.refused,
            self.trainer.number,
            digest(session.state),
            self.checked,
            tuple(self.differing),
            () if __version__ in self.versions else tuple(sorted(self.versions)),
        )

    def _check(self, event: Snapshotted) -> None:
        state = self._recent.get(event.number, self._kept.get(event.number))
        if state is not None:
            self._kept[event.number] = state
        if state is None or digest(state) != event.digest:
            self.differing.append(event.number)
            self.versions.add(event.code or "?")
        else:
            self.checked += 1

    def _state_at(self, number: int) -> Any:
        """What the replay itself had at a snapshot, though it may differ; as in the service, else the first state."""
        return self._kept.get(number, self.trainer.first)


def replayed(records: Iterable[Record]) -> list[ReplayResult]:
    """Every ranker of a log, learned again from its first event."""
    replays: dict[str, Replay] = {}
    catalogues: dict[str, Catalogue] = {}
    for record in records:
        if isinstance(record.event, CatalogueChanged):
            catalogues.setdefault(record.entity.partition("/")[2], Catalogue()).put(record.seq, record.event.rows)
            continue
        if isinstance(record.event, AliasSet | ComparisonCreated) or record.entity.startswith("experiment/"):
            continue
        if isinstance(record.event, Deleted):
            replays.pop(record.entity, None)
        elif record.entity not in replays and getattr(record.event, "impression", None) is not None:
            continue  # shown by somebody who had not noticed yet that the ranker was deleted
        elif record.entity not in replays:
            replays[record.entity] = Replay(record, catalogues)
        elif isinstance(record.event, Created):
            continue  # somebody created it at the same moment; the first counts
        else:
            replays[record.entity].apply(record)
    return [replay.result() for replay in replays.values()]
