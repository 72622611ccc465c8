"""What is asked of a log, in SQL that both databases understand; an adapter says how a query is put."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rankloop.service.records import ArchiveFile, Record, Snapshot, decode

PAGE = 2000  # records read at a time
PAGE_BYTES = 16_000_000  # the same in bytes: of rankings with many features only a few are read at a time
MAX_SEQ = 2**63 - 1
EVENT = "seq, stream, at, body"
SNAPSHOT = "stream, number, state_seq, session, view, unfit, oldest_open"
NAMES = 500  # impressions that are asked for at a time
OF_ENTITY = "(stream || '')"  # so written, it is no reason to go through all that an entity has: names are sought first


class Queries(ABC):
    """The reading half of a store."""

    prefix: ClassVar[str] = ""  # of the names of its tables
    mark: ClassVar[str] = "?"  # where a value goes

    @abstractmethod
    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query; `Unavailable` when the database cannot be read now."""

    def read(self, entity: str | None = None, after: int = 0, until: int | None = None) -> Iterator[Record]:
        last, end = after, self.last()
        end = end if until is None else min(until, end)
        while rows := self.page(entity, last, end):
            yield from records_of(rows)
            if not is_full(rows):
                return
            last = rows[-1][0]

    def of_impression(self, entity: str, impression: str) -> list[Record]:
        return self._records(f"impression = {self.mark} AND {OF_ENTITY} = {self.mark}", [impression, entity])

    def of_impressions(self, entity: str, impressions: Sequence[str], until: int) -> list[Record]:
        found: list[Record] = []
        for begin in range(0, len(impressions), NAMES):
            names = impressions[begin : begin + NAMES]
            marks = ", ".join([self.mark] * len(names))
            where = f"{OF_ENTITY} = {self.mark} AND seq <= {self.mark} AND impression IN ({marks})"
            found += self._records(where, [entity, until, *names])
        return found

    def last(self) -> int:
        return int(self.rows(f"SELECT coalesce(max(seq), 0) FROM {self.prefix}events")[0][0])

    def changes(self, entity: str, after: int = 0) -> list[Record]:
        return self._records(f"stream = {self.mark} AND impression IS NULL AND seq > {self.mark}", [entity, after])

    def beginnings(self) -> list[Record]:
        where = "impression IS NULL AND kind <> 'deleted'"
        first = f"SELECT min(seq) FROM {self.prefix}events WHERE {where} GROUP BY stream"
        return self._records(f"seq IN ({first})", [])

    def deletions(self) -> list[Record]:
        changed = f"SELECT DISTINCT stream FROM {self.prefix}events WHERE impression IS NULL"
        return self._records(f"stream IN ({changed}) AND impression IS NULL AND kind = 'deleted'", [])

    def shown(self, entity: str, after: int, until: int, most: int) -> list[tuple[int, float, str]]:
        where = f"stream = {self.mark} AND seq > {self.mark} AND seq <= {self.mark} AND kind = 'ranked'"
        query = f"SELECT seq, at, impression FROM {self.prefix}events WHERE {where} ORDER BY seq LIMIT {most}"
        return [tuple(row) for row in self.rows(query, [entity, after, until])]

    def closed(self, entity: str, impressions: Sequence[str]) -> set[str]:
        marks = ", ".join([self.mark] * len(impressions))
        where = f"{OF_ENTITY} = {self.mark} AND kind IN ('final', 'closed') AND impression IN ({marks})"
        rows = self.rows(f"SELECT impression FROM {self.prefix}events WHERE {where}", [entity, *impressions])
        return {name for (name,) in rows}

    def newest(self, entity: str, most: int) -> list[Record]:
        where = f"stream = {self.mark} AND kind = 'ranked' ORDER BY seq DESC LIMIT {most}"
        return records_of(self.rows(f"SELECT {EVENT} FROM {self.prefix}events WHERE {where}", [entity]))[::-1]

    def time_spent(self, entity: str, seq: int, now: float) -> tuple[float, float]:
        gap = f"coalesce(lead(at) OVER (ORDER BY seq), {now!r}) - at"
        events = f"{self.prefix}events WHERE stream = {self.mark} AND seq >= {self.mark}"
        total = "coalesce(sum(CASE WHEN gap > 0 THEN gap ELSE 0 END), 0.0)"
        query = f"SELECT {total}, coalesce(max(gap), 0.0) FROM (SELECT {gap} AS gap FROM {events}) AS gaps"
        (row,) = self.rows(query, [entity, seq])
        return float(row[0]), float(row[1])

    def entities(self) -> list[str]:
        query = f"SELECT DISTINCT stream FROM {self.prefix}events WHERE impression IS NULL ORDER BY stream"
        return [row[0] for row in self.rows(query)]

    def snapshots(self, entity: str) -> list[tuple[int, int, float]]:
        query = f"SELECT number, state_seq, at FROM {self.prefix}snapshots WHERE stream = {self.mark} ORDER BY number"
        return [tuple(row) for row in self.rows(query, [entity])]

    def snapshot(self, entity: str, number: int | None = None) -> Snapshot | None:
        where, values = f"stream = {self.mark}", [entity]
        if number is not None:
            where, values = f"{where} AND number = {self.mark}", [*values, number]  # type: ignore[list-item]
        query = f"SELECT {SNAPSHOT} FROM {self.prefix}snapshots WHERE {where} ORDER BY state_seq DESC, number DESC"
        rows = self.rows(f"{query} LIMIT 1", values)
        return Snapshot(*rows[0]) if rows else None

    def manifest(self, entity: str) -> list[ArchiveFile]:
        columns = "name, first_seq, last_seq, events, digest"
        where = f"stream = {self.mark} ORDER BY first_seq, last_seq"
        rows = self.rows(f"SELECT {columns} FROM {self.prefix}archive WHERE {where}", [entity])
        return [ArchiveFile(*row) for row in rows]

    def page(self, entity: str | None, after: int, until: int, more: str = "") -> list[Any]:
        """Rows up to the one that makes them too many or too large."""
        where, values = f"seq > {self.mark} AND seq <= {self.mark}{more}", [after, until]
        if entity is not None:
            where, values = f"{where} AND stream = {self.mark}", [*values, entity]  # type: ignore[list-item]
        events = f"{self.prefix}events WHERE {where}"
        sizes = f"SELECT seq, length(body) AS size FROM {events} ORDER BY seq LIMIT {PAGE}"
        sums = f"SELECT seq, sum(size) OVER (ORDER BY seq) AS total FROM ({sizes}) AS sizes"
        last = f"(SELECT min(seq) FROM ({sums}) AS sums WHERE total >= {PAGE_BYTES})"
        query = f"SELECT {EVENT} FROM {events} AND seq <= coalesce({last}, {MAX_SEQ}) ORDER BY seq"
        return self.rows(f"{query} LIMIT {PAGE}", [*values, *values])

    def _records(self, where: str, values: Sequence[Any]) -> list[Record]:
        query = f"SELECT {EVENT} FROM {self.prefix}events WHERE {where} ORDER BY seq"
        return records_of(self.rows(query, values))


def is_full(rows: Sequence[Any]) -> bool:
    """Whether a page may have left something over."""
    return len(rows) >= PAGE or sum(len(body) for *_, body in rows) >= PAGE_BYTES


def records_of(rows: Sequence[Any]) -> list[Record]:
    """Rows of seq, stream, at and body."""
    return [Record(seq, entity, at, decode(body)) for seq, entity, at, body in rows]
