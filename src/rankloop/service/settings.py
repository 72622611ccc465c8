"""How a service runs: limits with safe defaults, keys from the environment."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rankloop.core.errors import InvalidInput
from rankloop.service.keys import Keyring, read_line

LOOPBACK = ("127.0.0.1", "::1", "localhost")
LIMITS = ("body", "items", "batch", "rankers", "open_bytes", "state", "rate", "connections")


CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def half_of_memory() -> int:
    """Half of the bytes that this process may have: of the machine, or of the container where that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, CGROUP_LIMITS):
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            found.append(int(file.read_text()))
    return min(found) // 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set; `keys` are pairs of a role and a key, or its hash and what it is limited to."""

    host: str = "127.0.0.1"
    port: int = 8080
    data: Path = Path("rankloop-data")
    store: str = ""  # a PostgreSQL address; empty: a SQLite file in the data folder
    keys: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    keys_file: Path | None = None  # more keys, by their hashes; it is read again when it changes
    max_body: int = 2_000_000  # bytes
    max_items: int = 1_000  # per ranking
    max_batch: int = 200  # requests per batch
    max_rankers: int = 1_000
    max_open_bytes: int = field(default_factory=half_of_memory)  # that impressions take on their way to the log
    max_state: int = 64_000_000  # bytes that a learner begins with
    rate: float = 10_000.0  # requests per second and client
    max_connections: int = 10_000  # at once, of each process
    workers: int = 1
    sharers: int = 1  # workers, this one among them, that share what a key allows
    drain: float = 0.0  # seconds in which calls are still answered after the signal to stop
    keep_days: float | None = None  # older events move to Parquet in the data folder; None: never
    partitions: int | None = None  # of a new PostgreSQL database; each is learned by one process at a time
    learn: tuple[int, ...] | None = None  # the partitions that this process may learn; None: all, (): none

    def __post_init__(self) -> None:
        if not self.keyring.is_needed and self.host not in LOOPBACK:
            raise InvalidInput(
                f"host {self.host!r} can be reached from outside: set RANKLOOP_KEYS=rank:KEY,admin:KEY first, "
                "or name a file with --keys, or stay on 127.0.0.1"
            )
        if self.workers > 1 and not self.store:
            raise InvalidInput("several workers need PostgreSQL: set RANKLOOP_STORE=postgresql://…")
        if self.learn == () and not self.store:
            raise InvalidInput("without PostgreSQL nobody else can learn: leave out --no-learn")
        if self.data.exists() and not self.data.is_dir():
            raise InvalidInput(f"{self.data} is a file; --data names a folder")
        for name in (*map(_field, LIMITS), "workers", "keep_days", "partitions"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InvalidInput(f"{name} must be above 0, got {value}")
        if not 0 <= self.drain < float("inf"):
            raise InvalidInput(f"drain must be a number of seconds, 0 or more, got {self.drain}")

    def partitions_of(self, n_partitions: int) -> list[int]:
        """Those of so many that this process may learn."""
        if self.learn is not None and any(not 0 <= part < n_partitions for part in self.learn):
            raise InvalidInput(f"there are the partitions 0 to {n_partitions - 1}, not {max(self.learn)}")
        return list(range(n_partitions)) if self.learn is None else sorted(set(self.learn))

    @property
    def max_file(self) -> int:
        """Bytes of a saved ranker: its state, and what is written beside it."""
        return self.max_state + self.max_body

    @cached_property
    def keyring(self) -> Keyring:
        return Keyring(self.keys, self.keys_file)


def keys_from(text: str) -> tuple[tuple[str, str], ...]:
    """The keys of `RANKLOOP_KEYS`: role:key or role:hash, separated by commas."""
    parts = [part for part in (part.strip() for part in text.split(",")) if part]
    try:
        for part in parts:
            read_line(part)
    except InvalidInput as error:
        raise InvalidInput(f"RANKLOOP_KEYS is a list role:key,…; {error}") from None
    return tuple((role, key) for role, _, key in (part.partition(":") for part in parts))


def limits_from(texts: Iterable[str]) -> dict[str, float]:
    """The limits of `--limit`, each name=number, as arguments of `Settings`."""
    limits: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            limits[_field(name)] = float(number) if name == "rate" else int(number)
        except ValueError:
            name = ""
        if name not in LIMITS:
            raise InvalidInput(f"--limit {text}: give name=number with one of the names {', '.join(LIMITS)}")
    return limits


def partitions_from(texts: Iterable[str]) -> tuple[int, ...] | None:
    """The partitions of `--partition`, each a number or a range as in 0-7; None where there is none."""
    found: set[int] = set()
    for text in texts:
        first, dash, last = text.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) < int(first):
            raise InvalidInput(f"--partition {text}: give a number or a range, as in 3 or 0-7")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found)) or None


def _field(limit: str) -> str:
    return "rate" if limit == "rate" else f"max_{limit}"


def environment_keys() -> tuple[tuple[str, str], ...]:
    return keys_from(os.environ.get("RANKLOOP_KEYS", ""))


def keys_file() -> Path | None:
    """The file that RANKLOOP_KEYS_FILE names."""
    name = os.environ.get("RANKLOOP_KEYS_FILE")
    return Path(name) if name else None
