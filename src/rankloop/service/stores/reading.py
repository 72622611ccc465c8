"""Logs to read only: the file of a service that may still be running."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.service.events import Record, decode


def records_of(path: Path) -> Iterator[Record]:
    """Every record of a SQLite log, in order; `path` is the file or the folder that it is in."""
    file = path / "rankloop.db" if path.is_dir() else path
    if not file.exists():
        raise NotFound(f"there is no log {str(file)!r}")
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            for seq, stream, at, body in connection.execute("SELECT seq, stream, at, body FROM events ORDER BY seq"):
                yield Record(seq, stream, at, decode(body))
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{file} is not the log of a rankloop service: {error}") from None
