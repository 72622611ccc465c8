"""`rankloop import-log`: convert the log of another system to a table for the other commands."""

from pathlib import Path
from typing import Annotated, Literal

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, option
from rankloop.cli.output import print_result, progress_bar
from rankloop.core.errors import InvalidInput

WEIGHT_HELP = "The weight of an action, as purchase=5. Default: click, add_to_cart and purchase 1. Repeatable."


@command("Your data")
def import_log(
    format: Annotated[Literal["ubi"], argument("ubi", "User Behavior Insights, version 1.0 to 1.3.")],
    queries: Annotated[Path, option("--queries FILE", "The documents of ubi_queries.")],
    events: Annotated[Path, option("--events FILE", "The documents of ubi_events.")],
    out: Annotated[Path, option("--out FILE", "Output file, .parquet or .csv.")],
    items: Annotated[Path | None, option("--items FILE", "Table of items, whose columns become features.")] = None,
    weight: Annotated[list[str] | None, option("--weight ACTION=NUMBER", WEIGHT_HELP)] = None,
    as_json: AsJson = False,
) -> None:
    """Convert the log of another system to a table for train-clicks, evaluate, fit-users and rehearse.

    The files are JSON Lines, a JSON list, a search response (hits.hits[]._source) or a bulk file, compressed or not.
    The hits of a query are the shown list; events are joined to them by query_id. Inconsistencies (events of unknown
    queries, clicks without a position, repeated events, clocks that disagree) are counted and reported.
    """
    from rankloop.data.folder import given_path
    from rankloop.logs.ubi.log import read_ubi

    weights = dict(map(_weight, weight or []))
    table = None if items is None else given_path(str(items))
    with progress_bar(f"reading {queries.name}", unit="files"):
        log = read_ubi(given_path(str(queries)), given_path(str(events)), table, weights)
    log.save(out)
    print_result(log, as_json, {"file": str(out)}, [f"written: {out}"])


def _weight(text: str) -> tuple[str, float]:
    action, _, number = text.partition("=")
    try:
        return action, float(number)
    except ValueError:
        raise InvalidInput(f"--weight {text} is not ACTION=NUMBER: write, for example, purchase=5") from None
