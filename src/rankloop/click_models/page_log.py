"""Logs of lists as the arrays that click models are fitted to."""

from collections.abc import Mapping

from rankloop.logs.list_log import ClickArrays as PageLog
from rankloop.logs.list_log import click_arrays as page_log
from rankloop.logs.reader import lists_in
from rankloop.logs.table_source import Given

__all__ = ["PageLog", "page_log", "read_page_log"]


def read_page_log(given: Given, columns: Mapping[str, str] | None = None) -> PageLog:
    """Read a table of any format, or the export of a service; `columns` says which column is what."""
    return lists_in(given, columns=columns).clicks()
