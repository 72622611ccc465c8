"""`rankloop restore`: a backup becomes the log of a service again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports

if TYPE_CHECKING:
    from rankloop.service.application.rebuild import ReplayResult
    from rankloop.service.application.upkeep.backup import Contents


@command(
    "In use",
    "rankloop restore shop-monday.rankloop-backup --to new-data --check",
    "rankloop restore shop.rankloop-backup --to postgresql://user:password@host/database",
)
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `rankloop backup` wrote.")],
    to: Annotated[
        str, typer.Option("--to", metavar="LOG", help="A folder or a PostgreSQL database in which there is no log.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Where the archive goes, with PostgreSQL. [rankloop-data]"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Replay it, and compare every snapshot bit for bit.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into an empty place, from where `rankloop serve` goes on.

    A backup of SQLite may go into PostgreSQL and the other way round. Every hash is checked before anything is
    written; either all of it is there afterwards, or nothing. Exit code 1 where a replay differs.
    """
    from rankloop.cli.output import print_json
    from rankloop.service.application.upkeep.restoration import check as replay
    from rankloop.service.application.upkeep.restoration import restore as put_back

    contents = put_back(backup, to, data)
    if as_json:
        print_json(contents._asdict())
    else:
        in_database = "://" in to
        folder = f", in {data or 'rankloop-data'}: serve with this --data" if in_database and contents.n_files else ""
        typer.echo(f"{'the database' if in_database else to} has {sizes_of(contents)}{folder}")
    if check:
        report_check(replay(to, data), as_json)


def sizes_of(contents: "Contents") -> str:
    rows, files = contents.rows, contents.n_files
    archive = f", {files} file{'s' if files > 1 else ''} of the archive" if files else ""
    return f"{rows['events']:,} events up to number {contents.last}, {rows['snapshots']:,} snapshots{archive}"


def report_check(results: "Sequence[ReplayResult]", as_json: bool) -> None:
    """Exit code 1 where a snapshot differs."""
    checked, differing = sum(result.checked for result in results), [name for name in results if name.differing]
    if not as_json:
        verdict = "; ".join(f"{result.stream}: {result.verdict}" for result in differing) or "the same bit for bit"
        rankers = "1 ranker" if len(results) == 1 else f"{len(results)} rankers"
        typer.echo(f"replayed {rankers}: {checked} snapshots checked, {verdict}")
    if differing:
        raise typer.Exit(1)
