"""One way into every log: a file, a frame, the export of a service or a service itself, as lists or as choices."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rankloop.core.errors import InvalidInput
from rankloop.features.schema import Schema
from rankloop.logs import columns as roles_of
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.columns import named_like
from rankloop.logs.list_log import ListLog
from rankloop.logs.list_table import read_list_table
from rankloop.logs.service_export import is_export, read_service_export
from rankloop.logs.table_reader import Given, TableReader

LogKind = Literal["auto", "lists", "choices"]
POSTGRES_PREFIXES = ("postgres://", "postgresql://")
# The layer above that reads the folder or the database of a service; imported only when one is read.
SERVICE_READER = "rankloop.service.application.service_log_reader"


def read_log(
    log: Given,
    *,
    kind: LogKind = "auto",
    columns: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    schema: Schema | None = None,
    ranker: str = "",
    skip_bad_rows: bool = False,
) -> ListLog | ChoiceLog:
    """Read a log of shown lists, or open a log of single choices.

    Args:
      log: A file (CSV, TSV, JSON Lines, Parquet, Arrow; packed or not), a frame (pandas, polars, pyarrow), the Parquet
        export of a service, or the folder, the SQLite file or the PostgreSQL address of a service.
      kind: "lists" for several items per page, "choices" for one action per row with its propensity; "auto" decides by
        the columns: lists have a list (or session, or query), a position and a click.
      columns: Which column is what where the names do not tell, such as {"item": "sku"}.
      without: Columns that are left alone.
      schema: As what the fields of a CSV file are read.
      ranker: Which ranker of a service, where it has several.
      skip_bad_rows: Leave out rows of a table of lists with a cell that is not what it should be; `notes` counts them.

    Raises:
      InvalidInput: If a needed column is missing or a cell is not what it should be.
    """
    if isinstance(log, str | Path) and _is_service_log(str(log)):
        lists: ListLog = import_module(SERVICE_READER).read_service_log(str(log), ranker)
        return lists
    if ranker:
        raise InvalidInput("--ranker is for the log of a service")
    source, named = TableReader(log), columns or {}
    if source.path is not None and is_export(source.path):
        return read_service_export(source.path)
    if kind == "choices" or (kind == "auto" and schema is None and not _holds_lists(source.names, named)):
        return ChoiceLog(source, **named)
    return read_list_table(source, schema=schema, columns=named, without=without, skip_bad_rows=skip_bad_rows)


def lists_in(log: Any, **options: Any) -> ListLog:
    """Return a log of lists as it is, or read one with the arguments of `read_log`; refuse a log of single choices."""
    lists = log if isinstance(log, ListLog | ChoiceLog) else read_log(log, kind="lists", **options)
    if isinstance(lists, ChoiceLog):
        raise InvalidInput(f"{lists.name} is a log of single choices; a log of lists is needed")
    return lists


def _is_service_log(where: str) -> bool:
    """Return true for the folder, the SQLite file or the PostgreSQL address of a service."""
    path = Path(where)
    if where.startswith(POSTGRES_PREFIXES) or path.is_dir():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(6) == b"SQLite"


def _holds_lists(names: Sequence[str], named: Mapping[str, str]) -> bool:
    """Return true where a table looks like a log of lists rather than of single choices with their propensities."""
    usual = roles_of.LIST_GUESSES | {"list": roles_of.SURE_LISTS}
    if all(named.get(role) or named_like(names, usual[role]) for role in roles_of.NEEDED_OF_LISTS):
        return True
    usual = roles_of.CHOICE_GUESSES
    return not all(named.get(role) or named_like(names, usual[role]) for role in roles_of.NEEDED_OF_CHOICES)
