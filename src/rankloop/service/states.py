"""The fingerprint of a state, and the place of a generator as text."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from rankloop.core.session import Session
from rankloop.core.wire import to_plain


def digest(state: Any) -> str:
    """Equal for states that are equal bit for bit, and for no others."""
    return hashlib.sha256(msgspec.json.encode(to_plain(state))).hexdigest()


def position_of(session: Session) -> str:
    """Where the session's generator stands, as text."""
    inner = session.generator["state"]
    return f"{inner['state']:x}/{inner['inc']:x}"


def positioned(generator: dict[str, Any], position: str) -> dict[str, Any]:
    """The generator's state, moved to a position."""
    state, inc = position.split("/")
    return generator | {"state": {"state": int(state, 16), "inc": int(inc, 16)}, "has_uint32": 0, "uinteger": 0}
