"""`rankloop ingest`: a log of clicks into a running service."""

import os
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, ColumnRoles, argument, interruptible, option
from rankloop.cli.output import print_json, progress_bar

GOES_ON = "what was brought stays there, the same command goes on"


@command(
    "In use",
    "rankloop ingest log.parquet --ranker shop",
    "rankloop ingest clicks.csv --ranker shop --to https://rank.example.org --column item=sku",
)
def ingest(
    log: Annotated[str, argument("LOG", "A table of shown items: CSV, JSON Lines, Parquet, Arrow.")],
    ranker: Annotated[str, option("--ranker", "NAME", "The ranker that takes the pages in.")],
    to: Annotated[str, option("--to", "URL", "Where the service is.")] = "http://127.0.0.1:8080",
    column: ColumnRoles = None,
    as_json: AsJson = False,
) -> None:
    """Bring the pages of a log to a ranker of a running service, in the order in which they were shown, with clicks.

    The log is what `rankloop import-log ubi` wrote, or a table of your own. The pages become impressions of the ranker,
    and it learns from them as a shadow does: from clicks on an order that was not its own. Each page is brought once,
    however often the command runs. The key of the service is taken from RANKLOOP_KEY.
    """
    from rankloop.client import Client
    from rankloop.data.folder import given_path
    from rankloop.ingestion import ingest as bring  # with httpx, which comes with [serve]
    from rankloop.logs.columns import LIST_ROLES, named_columns

    columns = named_columns(column or [], LIST_ROLES)
    path = given_path(log)
    service, bar = Client(to, key=os.environ.get("RANKLOOP_KEY", "")), progress_bar(f"bringing {path.name}", "pages")
    with interruptible(GOES_ON), service as client, bar as progress:
        found = bring(client, ranker, path, columns, progress)
    if as_json:
        print_json(found.to_json())
        return
    typer.echo(found.columns, err=True)
    typer.echo(found)
    typer.echo(f"{ranker} has learned from {found.learned:,} pages")
