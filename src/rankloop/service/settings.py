"""How a service runs: limits with safe defaults, keys from the environment."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path

from rankloop.core.errors import InvalidInput

ROLES = ("rank", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set; `keys` are pairs of a role and a key."""

    host: str = "127.0.0.1"
    port: int = 8080
    data: Path = Path("rankloop-data")
    store: str = ""  # a PostgreSQL address; empty: a SQLite file in the data folder
    keys: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    max_body: int = 2_000_000  # bytes
    max_items: int = 1_000  # per ranking
    max_batch: int = 200  # requests per batch
    max_rankers: int = 1_000
    max_open: int = 200_000  # impressions that wait for feedback, per ranker
    rate: float = 10_000.0  # requests per second and client
    workers: int = 1
    keep_days: float | None = None  # older events move to Parquet in the data folder; None: never

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.keys:
            raise InvalidInput(
                f"host {self.host!r} can be reached from outside: set RANKLOOP_KEYS=rank:KEY,admin:KEY first, "
                "or stay on 127.0.0.1"
            )
        if self.workers > 1 and not self.store:
            raise InvalidInput("several workers need PostgreSQL: set RANKLOOP_STORE=postgresql://…")
        if self.data.exists() and not self.data.is_dir():
            raise InvalidInput(f"{self.data} is a file; --data names a folder")
        for name in ("max_body", "max_items", "max_batch", "max_rankers", "max_open", "rate", "workers", "keep_days"):
            if (getattr(self, name) or 0) <= 0 and getattr(self, name) is not None:
                raise InvalidInput(f"{name} must be above 0, got {getattr(self, name)}")

    def role_of(self, key: str) -> str | None:
        """The role of a key, found in constant time; None for a key that nobody gave out."""
        found = None
        for role, known in self.keys:
            if hmac.compare_digest(key.encode(), known.encode()):
                found = role if found != "admin" else found
        return found


def keys_from(text: str) -> tuple[tuple[str, str], ...]:
    """The keys of `RANKLOOP_KEYS`: role:key, separated by commas."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, colon, key = part.partition(":")
        if role not in ROLES or not colon or len(key) < 8:
            raise InvalidInput(
                "RANKLOOP_KEYS is a list role:key,… with roles rank and admin, keys of 8 characters or more"
            )
        pairs.append((role, key))
    return tuple(pairs)


def environment_keys() -> tuple[tuple[str, str], ...]:
    return keys_from(os.environ.get("RANKLOOP_KEYS", ""))
