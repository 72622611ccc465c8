"""Keys: who may call, for which rankers and how often. Hashes are enough; a file of them is read when it changes."""

import hashlib
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import InvalidInput

ROLES = ("rank", "admin")
MIN_LENGTH = 8  # of a key that is given as it is
CHECK_SECONDS = 1.0  # between two looks at the file
_HASH = re.compile(r"sha256-[0-9a-f]{64}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,100}")
logger = logging.getLogger("rankloop.service")


class Grant(NamedTuple):
    """What a key allows: a role, at rankers whose names fit one of the patterns (none: all), so many calls a second."""

    role: str
    id: str  # of the key, for logs: the beginning of its hash
    rankers: tuple[str, ...] = ()
    rate: float | None = None  # None: that of the settings

    def reaches(self, name: str) -> bool:
        """Whether a name is among those that the key is for."""
        return not self.rankers or any(fnmatchcase(name, pattern) for pattern in self.rankers)


def new_key() -> str:
    """A key of 256 random bits: nobody can try them all, so one round of a hash is enough to hide it."""
    return secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    return f"sha256-{hashlib.sha256(key.encode()).hexdigest()}"


def line_of(role: str, key: str, rankers: Iterable[str] = (), rate: float | None = None) -> str:
    """What a file or a variable holds of a key; what could not be read again is refused."""
    parts = [role, hash_of(key), "|".join(rankers), "" if rate is None else f"{rate:g}"]
    line = ":".join(parts).rstrip(":")
    read_line(line)
    return line


def read_line(line: str) -> tuple[str, Grant]:
    """The hash of a key and what it allows: `role:key`, or `role:sha256-…[:pattern|pattern[:calls per second]]`."""
    role, _, rest = line.partition(":")
    hashed, *more = rest.split(":")
    if role not in ROLES:
        raise InvalidInput(f"a key has the role {' or '.join(ROLES)}, as in rank:KEY")
    if not _HASH.fullmatch(hashed):
        if len(rest) < MIN_LENGTH:
            raise InvalidInput(f"a key has {MIN_LENGTH} characters or more")
        hashed, more = hash_of(rest), []
    patterns, rate, *beyond = [*more, "", ""]
    rankers = tuple(filter(None, patterns.split("|")))
    if any(beyond) or not all(map(_PATTERN.fullmatch, rankers)):
        raise InvalidInput(f"after a hash come patterns of names and a rate, as in {role}:sha256-…:shop-*|blog:100")
    return hashed, Grant(role, hashed[7:15], rankers, _rate(rate))


def _rate(text: str) -> float | None:
    try:
        rate = float(text) if text else None
    except ValueError:
        rate = math.nan
    if rate is not None and not 0 < rate < math.inf:
        raise InvalidInput(f"the rate of a key is a number of calls per second above 0, got {text!r:.40}")
    return rate


def grants_of(lines: Iterable[str]) -> dict[str, Grant]:
    """What is allowed, by the hash of the key; of a key that has both roles admin counts."""
    grants: dict[str, Grant] = {}
    for line in lines:
        hashed, grant = read_line(line)
        known = grants.setdefault(hashed, grant)
        if known[2:] != grant[2:]:
            raise InvalidInput(f"the key {grant.id} stands there twice, with other rankers or another rate")
        grants[hashed] = grant if known.role != "admin" else known
    return grants


def grants_in(file: Path) -> dict[str, Grant]:
    """The keys of a file, one hash per line; what follows a # is for people."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the keys in {file} cannot be read: {error}") from None
    grants: dict[str, Grant] = {}
    for number, line in enumerate((line.partition("#")[0].strip() for line in lines), 1):
        if line and not _HASH.match(line.partition(":")[2]):
            raise InvalidInput(f"{file}, line {number}: a file has hashes of keys: `rankloop key hash` makes one")
        try:
            grants = grants if not line else grants | _unless_known(grants, line)
        except InvalidInput as error:
            raise InvalidInput(f"{file}, line {number}: {error}") from None
    return grants


def _unless_known(grants: Mapping[str, Grant], line: str) -> dict[str, Grant]:
    new = grants_of([line])
    if not new.keys().isdisjoint(grants):
        raise InvalidInput("this key stands there already")
    return new


class Keyring:
    """The keys of a service: those that it was started with, and those of a file, read again when it changes.

    What cannot be read changes nothing: the keys of before go on, and the log says why.
    """

    def __init__(self, given: Iterable[tuple[str, str]] = (), file: Path | None = None) -> None:
        self._given = grants_of(f"{role}:{key}" for role, key in given)
        self._file = file
        self._stamp = None if file is None else _stamp(file)
        self.grants = self._given if file is None else self._given | grants_in(file)  # by the hash of the key
        self.check_at = math.inf if file is None else -math.inf  # when `refresh` is to be called, by time.monotonic

    @property
    def is_needed(self) -> bool:
        """Whether callers must show a key: also while the file has none."""
        return bool(self._given) or self._file is not None

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        self.check_at = time.monotonic() + CHECK_SECONDS
        if self._file is not None and _stamp(self._file) != self._stamp:
            self.read()

    def read(self) -> None:
        """Read the file again."""
        if self._file is None:
            return
        self._stamp = _stamp(self._file)
        try:
            self.grants = self._given | grants_in(self._file)
        except InvalidInput as error:
            logger.error(f"the keys stay as they were: {error}")
        else:
            logger.info(f"keys read again: there are {len(self.grants)}")


def _stamp(file: Path) -> tuple[int, ...] | None:
    """What changes with a file; None where there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
