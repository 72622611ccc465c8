"""Which columns of a log are dates or times: nothing can be learned from a moment that never comes again."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

CLOCK = r"\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
ISO = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}}([T ]{CLOCK})?|{CLOCK})\s*(Z|[+-]\d{{2}}:?\d{{2}})?\s*")
KINDS = (datetime.date, datetime.time)  # a datetime is a date too


def are_times(values: Iterable[Any]) -> bool:
    """Whether all values, missing ones aside, are dates or times, as such or as texts (2026-03-01T10:00:00, 10:30)."""
    known = [value for value in values if value is not None]
    return bool(known) and all(_is_time(value) for value in known)


def _is_time(value: Any) -> bool:
    return isinstance(value, KINDS) or (isinstance(value, str) and ISO.fullmatch(value) is not None)
