"""API keys: the role of each key, the rankers it is for and its rate. A file of hashed keys is read when it changes."""

import hashlib
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import InvalidInput

KEY_ROLES = ("feedback", "rank", "admin")  # each may do what those before it may
MIN_KEY_LENGTH = 8  # characters of a key that is not hashed
CHECK_SECONDS = 1.0  # between two looks at the file
_HASH = re.compile(r"sha256-[0-9a-f]{64}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,100}")
logger = logging.getLogger("rankloop.service")


class Grant(NamedTuple):
    """The permissions of a key."""

    role: str
    id: str  # names the key in logs: the beginning of its hash
    rankers: tuple[str, ...] = ()  # patterns of names; empty: all
    rate: float | None = None  # calls per second; None: that of the settings
    calls_per_day: float | None = None  # None: any number
    bytes_per_day: float | None = None  # of bodies; None: any number

    def reaches(self, name: str) -> bool:
        """Return True if the key is for this ranker, experiment or catalogue."""
        return not self.rankers or any(fnmatchcase(name, pattern) for pattern in self.rankers)

    def line(self, key: str) -> str:
        """Return the line of a key for a file or for RANKLOOP_KEYS, which has only its hash."""
        limits = (self.rate, self.calls_per_day, self.bytes_per_day)
        numbers = ["" if number is None else f"{number:.15g}" for number in limits]
        line = ":".join([self.role, hash_of(key), "|".join(self.rankers), *numbers]).rstrip(":")
        read_line(line)  # raises if it could not be read again
        return line


def new_key() -> str:
    """Return a key of 256 random bits, which one round of a hash is enough to hide."""
    return secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """Return the hash of a key, as files and variables hold it."""
    return f"sha256-{hashlib.sha256(key.encode()).hexdigest()}"


def read_line(line: str) -> tuple[str, Grant]:
    """Return the hash and the permissions of `role:key` or of a hashed key with its limits.

    Limits follow `role:sha256-…` after colons: patterns of names (`shop-*|blog`), calls per second, calls per day, and
    bytes per day. Each may be empty. A line of another form raises `InvalidInput`.
    """
    role, _, secret = line.partition(":")
    hashed, *limits = secret.split(":")
    if role not in KEY_ROLES:
        raise InvalidInput(f"the role of a key must be {', '.join(KEY_ROLES)}, as in rank:KEY")
    if not _HASH.fullmatch(hashed):
        if len(secret) < MIN_KEY_LENGTH:
            raise InvalidInput(f"a key must have at least {MIN_KEY_LENGTH} characters")
        hashed, limits = hash_of(secret), []
    patterns, rate, calls_per_day, bytes_per_day, *surplus = [*limits, "", "", "", ""]
    rankers = tuple(filter(None, patterns.split("|")))
    if any(surplus) or not all(map(_PATTERN.fullmatch, rankers)):
        raise InvalidInput(
            f"after a hash come patterns of names, a rate, and calls and bytes per day, as in {role}:sha256-…:"
            "shop-*|blog:100:1000000:5e9"
        )
    numbers: list[float | None] = []
    for text, unit in (rate, "calls per second"), (calls_per_day, "calls per day"), (bytes_per_day, "bytes per day"):
        try:
            number = float(text) if text else None
        except ValueError:
            number = math.nan
        if number is not None and not 0 < number < math.inf:
            raise InvalidInput(f"the limit of a key must be a number of {unit} above 0, got {text!r:.40}")
        numbers.append(number)
    return hashed, Grant(role, hashed[7:15], rankers, numbers[0], numbers[1], numbers[2])


def grants_in(file: Path) -> dict[str, Grant]:
    """Return the permissions in a file with one hashed key per line; text after a # is a comment."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the keys in {file} cannot be read: {error}") from None
    grants: dict[str, Grant] = {}
    for number, line in enumerate((line.partition("#")[0].strip() for line in lines), 1):
        if not line:
            continue
        try:
            hashed, grant = read_line(line)
        except InvalidInput as error:
            raise InvalidInput(f"{file}, line {number}: {error}") from None
        if not _HASH.match(line.partition(":")[2]):
            raise InvalidInput(f"{file}, line {number}: a file has hashes of keys: `rankloop key hash` makes one")
        if hashed in grants:
            raise InvalidInput(f"{file}, line {number}: this key is in the file already")
        grants[hashed] = grant
    return grants


class Keyring:
    """The keys of a service: those it was started with, pairs of role and key, and those of a file.

    If the file cannot be read again, the keys read before stay valid and the reason is logged.
    """

    def __init__(self, keys: Iterable[tuple[str, str]] = (), file: Path | None = None) -> None:
        lines = [read_line(f"{role}:{key}") for role, key in keys]
        # Of several roles of a key the last of `KEY_ROLES` counts, and of several lines with it the first.
        self._fixed_grants: dict[str, Grant] = {}
        for hashed, grant in sorted(lines, key=lambda line: KEY_ROLES.index(line[1].role), reverse=True):
            self._fixed_grants.setdefault(hashed, grant)
        self._file = file
        self._stamp = None if file is None else _stamp(file)
        self.grants = self._fixed_grants if file is None else self._fixed_grants | grants_in(file)  # by hash
        self.check_at = math.inf if file is None else -math.inf  # when to call `refresh`, by time.monotonic

    @property
    def is_needed(self) -> bool:
        """True if callers must send a key, even while the file has none."""
        return bool(self._fixed_grants) or self._file is not None

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        self.check_at = time.monotonic() + CHECK_SECONDS
        if self._file is None or (stamp := _stamp(self._file)) == self._stamp:
            return
        self._stamp = stamp
        try:
            self.grants = self._fixed_grants | grants_in(self._file)
        except InvalidInput as error:
            logger.error(f"the keys were not changed: {error}")
        else:
            logger.info(f"the keys were read again: {len(self.grants)} keys")


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Return numbers that change when a file changes; None if there is no file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
