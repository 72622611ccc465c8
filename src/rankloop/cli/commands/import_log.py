"""`rankloop import-log`: a log in the format of another system as a table that every other command reads."""

from pathlib import Path
from typing import Annotated, Literal

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, option
from rankloop.cli.output import print_result, progress_bar
from rankloop.core.errors import InvalidInput


@command(
    "Your data",
    "rankloop import-log ubi --queries ubi_queries.ndjson --events ubi_events.ndjson --out log.parquet",
    "rankloop import-log ubi --queries q.json --events e.json --weight purchase=5 --out log.csv",
    name="import-log",
)
def import_log(
    format: Annotated[Literal["ubi"], argument("ubi", "User Behavior Insights, version 1.0 to 1.3.")],
    queries: Annotated[Path, option("--queries", "FILE", "The documents of ubi_queries.")],
    events: Annotated[Path, option("--events", "FILE", "The documents of ubi_events.")],
    out: Annotated[Path, option("--out", "FILE", "The log, .parquet or .csv.")],
    items: Annotated[
        Path | None, option("--items", "FILE", "A table of the items, whose columns can be learned from.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        option(
            "--weight",
            "ACTION=NUMBER",
            "What an action counts, purchase=5; click, add_to_cart and purchase count 1. May be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn the log of another system into a table for train, evaluate, fit-users and rehearse.

    The files are JSON Lines, a list, a search response (hits.hits[]._source) or a bulk file, packed or not. The hits
    of a query are what was shown; events say what was done with them, joined by query_id. What does not fit together
    (events of unknown queries, clicks without a position, repeated events, clocks that disagree) is counted and said.
    """
    from rankloop.data.folder import given_path
    from rankloop.logs.ubi.log import read_ubi

    weights = dict(map(_weight, weight or []))
    table = None if items is None else given_path(str(items))
    with progress_bar(f"reading {queries.name}", unit="files"):
        log = read_ubi(given_path(str(queries)), given_path(str(events)), table, weights)
    log.save(out)
    print_result(log, as_json, {"file": str(out)}, f"written: {out}")


def _weight(text: str) -> tuple[str, float]:
    action, _, number = text.partition("=")
    try:
        return action, float(number)
    except ValueError:
        raise InvalidInput(f"--weight {text}: write an action, then =, then a number, as in purchase=5") from None
