"""`rankloop ingest`: send a log of clicks to a running service."""

import os
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, ColumnRoles, SkipBadRows, argument, interruptible, option
from rankloop.cli.output import progress_bar, show


@command("In use")
def ingest(
    log: Annotated[str, argument("LOG", "A table of shown items: CSV, JSON Lines, Parquet or Arrow.")],
    ranker: Annotated[str, option("--ranker NAME", "The ranker that learns from the pages.")],
    to: Annotated[str, option("--to URL", "Address of the service.")] = "http://127.0.0.1:8080",
    column: ColumnRoles = None,
    skip_bad_rows: SkipBadRows = False,
    as_json: AsJson = False,
) -> None:
    """Send the pages and clicks of a log to a ranker of a running service, in the order in which they were shown.

    The log is the output of `rankloop import-log ubi` or your own table. The pages become impressions of the ranker,
    which learns from clicks on lists that another ranker ordered. Each page is sent once, even if the command is
    repeated. The environment variable RANKLOOP_KEY holds the key of the service.
    """
    from rankloop.client import Client
    from rankloop.data.folder import given_path
    from rankloop.ingestion import ingest as send_pages  # with httpx, which comes with [serve]
    from rankloop.logs.columns import LIST_ROLES, named_columns

    columns = named_columns(column or [], LIST_ROLES)
    path = given_path(log)
    service, bar = Client(to, key=os.environ.get("RANKLOOP_KEY", "")), progress_bar(f"sending {path.name}", "pages")
    consequence = "the pages sent so far are kept; run the same command again to continue"
    with interruptible(consequence), service as client, bar as progress:
        result = send_pages(client, ranker, path, columns, progress, skip_bad_rows=skip_bad_rows)
    if not as_json:
        typer.echo(result.columns, err=True)
    show(as_json, result._asdict(), [result, f"{ranker} has learned from {result.learned:,} pages"])
