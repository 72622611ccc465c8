"""Where documents come from: what the engine asks of a folder, a table, or anything else."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from rankloop.search.engine import Document

MAX_BODY = 5_000_000  # characters of a text that are indexed
MAX_TITLE = 300
MAX_ID = 240
MAX_NAMED = 1_000  # of what is skipped; more is counted only


class Found(NamedTuple):
    """A document of a source. Its stamp says how it looked; None stands for one that looks as it did before."""

    id: str
    stamp: str
    document: Document | None


class Skipped(dict[str, str]):
    """What could not be read, or not in full, and why; of very many the first, and how many there are."""

    total = 0

    def add(self, what: str, reason: str) -> None:
        self.total += 1
        if len(self) < MAX_NAMED:
            self[what] = reason


class Source(Protocol):
    """Documents that may change between one reading and the next."""

    name: str  # for messages
    skipped: Skipped

    def documents(self, known: Mapping[str, str]) -> Iterator[Found]:
        """All that is there. `known` has the stamps of what was read before, by id."""
