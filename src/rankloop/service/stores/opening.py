"""The store that the settings name."""

from __future__ import annotations

from rankloop.core.errors import InvalidInput
from rankloop.service.settings import Settings
from rankloop.service.stores.port import Store
from rankloop.service.stores.reading import POSTGRES
from rankloop.service.stores.sqlite import SqliteStore
from rankloop.service.stores.sqlite_file import FILE


def open_store(settings: Settings) -> Store:
    """SQLite in the data folder, unless the settings name a PostgreSQL server."""
    if not settings.store:
        return SqliteStore(settings.data / FILE)
    if not settings.store.startswith(POSTGRES):
        raise InvalidInput("RANKLOOP_STORE must be of the form postgresql://user:password@host/database")
    from rankloop.service.stores.postgres import PostgresStore  # only here: its driver is not needed otherwise

    return PostgresStore(settings.store)
