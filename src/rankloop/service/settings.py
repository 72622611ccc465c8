"""Settings of a service: limits with safe defaults, and keys from the environment."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rankloop.core.errors import InvalidInput
from rankloop.service.api_keys import Keyring, read_line

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
SIZE_LIMITS = ("body", "items", "batch", "rankers", "open_bytes", "state", "connections", "log_days")
LIMIT_FIELDS = {"rate": "rate"} | {name: f"max_{name}" for name in SIZE_LIMITS}  # of `Settings`, by `--limit`
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def half_of_memory() -> int:
    """Return half of the memory of the machine, or of the container if it has less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, CGROUP_LIMITS):
        with suppress(OSError, ValueError):  # there is no limit, or it is "max"
            limits.append(int(file.read_text()))
    return min(limits) // 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a service; `keys` are pairs of a role and a key, or of a role and a hash with its limits."""

    host: str = "127.0.0.1"
    port: int = 8080
    data: Path = Path("rankloop-data")
    store: str = ""  # a PostgreSQL address; empty: a SQLite file in the data folder
    keys: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    keys_file: Path | None = None  # hashed keys; read again when it changes
    origins: tuple[str, ...] = ()  # of web pages that may send feedback
    max_body: int = 2_000_000  # bytes
    max_items: int = 1_000  # per ranking
    max_batch: int = 200  # requests per batch
    max_rankers: int = 1_000
    max_open_bytes: int = field(default_factory=half_of_memory)  # of impressions that wait for the log
    max_state: int = 64_000_000  # bytes of a learner's initial state
    rate: float = 10_000.0  # requests per second and client
    max_connections: int = 10_000  # per process
    workers: int = 1
    sharers: int = 1  # the number of workers that share the rate of a key
    drain: float = 0.0  # seconds in which calls are still answered after the signal to stop
    max_log_days: float | None = None  # older events of closed impressions are deleted; None: never
    learns: bool = True  # False: other processes learn from the log in PostgreSQL

    def __post_init__(self) -> None:
        if not self.keyring.is_needed and self.host not in LOOPBACK_HOSTS:
            raise InvalidInput(
                f"host {self.host!r} can be reached from other machines: set RANKLOOP_KEYS=rank:KEY,admin:KEY first, "
                "or name a file with --keys, or use 127.0.0.1"
            )
        if self.workers > 1 and not self.store:
            raise InvalidInput("several workers need PostgreSQL: set RANKLOOP_STORE=postgresql://…")
        if not self.learns and not self.store:
            raise InvalidInput("without PostgreSQL no other process can learn: leave out --no-learn")
        if self.data.exists() and not self.data.is_dir():
            raise InvalidInput(f"{self.data} is a file; --data must name a folder")
        for name in (*LIMIT_FIELDS.values(), "workers"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InvalidInput(f"{name} must be above 0, got {value}")
        if not 0 <= self.drain < float("inf"):
            raise InvalidInput(f"drain must be a number of seconds, 0 or more, got {self.drain}")

    @property
    def max_file(self) -> int:
        """The limit for the bytes of a saved ranker: its state and its header."""
        return self.max_state + self.max_body

    @cached_property
    def keyring(self) -> Keyring:
        """The keys of the service."""
        return Keyring(self.keys, self.keys_file)


def keys_from(text: str) -> tuple[tuple[str, str], ...]:
    """Read the value of RANKLOOP_KEYS: role:key or role:hash, separated by commas."""
    parts = [part for part in (part.strip() for part in text.split(",")) if part]
    try:
        for part in parts:
            read_line(part)
    except InvalidInput as error:
        raise InvalidInput(f"RANKLOOP_KEYS must be role:key,role:key,…: {error}") from None
    return tuple((role, key) for role, _, key in (part.partition(":") for part in parts))


def limits_from(texts: Iterable[str]) -> dict[str, float]:
    """Read the values of `--limit`, each name=number, as arguments of `Settings`."""
    limits: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            limits[LIMIT_FIELDS[name]] = float(number) if name in ("rate", "log_days") else int(number)
        except (KeyError, ValueError):
            names = ", ".join(LIMIT_FIELDS)
            raise InvalidInput(f"--limit {text}: give name=number with one of the names {names}") from None
    return limits
