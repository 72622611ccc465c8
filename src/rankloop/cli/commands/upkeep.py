"""`rankloop backup`, `restore`, `migrate` and `replay`: the log of a service is kept, moved, and proven to be whole."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument, flag, option
from rankloop.cli.output import print_json

if TYPE_CHECKING:
    from rankloop.service.application.rebuild import ReplayResult
    from rankloop.service.application.upkeep.backup import Contents

Log = Annotated[str, argument("LOG", "The log of a service: its folder, its file, or its RANKLOOP_STORE.")]
Archive = Annotated[Path | None, option("--data", "FOLDER", "The folder of the archive; as a rule that of the file.")]
Check = Annotated[bool, flag("--check", "Replay it, and compare every snapshot bit for bit.")]


@command(
    "In use",
    "rankloop backup shop-data --to shop-monday.rankloop-backup",
    "rankloop backup postgresql://user:password@host/database --to shop.rankloop-backup --check",
)
def backup(
    log: Log,
    to: Annotated[Path, option("--to", "FILE", "The file to write; it must not be there yet.")],
    data: Archive = None,
    check: Annotated[bool, flag("--check", "Restore it into a folder that goes away, and replay it there.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write the log of a service to one file, while the service runs.

    The file holds all events, snapshots and files of the archive of one moment, with their hashes, and can be restored
    into a folder as well as into PostgreSQL. People whose events were erased are in older backups still.
    """
    from rankloop.service.application.upkeep.backup import back_up
    from rankloop.service.application.upkeep.restoration import restore as put_back

    contents = back_up(log, to, data)
    if as_json:
        print_json(contents._asdict() | {"file": str(to), "bytes": to.stat().st_size})
    else:
        typer.echo(f"{to}: {_sizes_of(contents)}, {to.stat().st_size:,} bytes")
    if check:
        with tempfile.TemporaryDirectory(prefix="rankloop-check-", dir=to.parent) as folder:
            put_back(to, folder)
            _check(folder, None, as_json)


@command(
    "In use",
    "rankloop restore shop-monday.rankloop-backup --to new-data --check",
    "rankloop restore shop.rankloop-backup --to postgresql://user:password@host/database",
)
def restore(
    backup: Annotated[Path, argument("BACKUP", "What `rankloop backup` wrote.")],
    to: Annotated[str, option("--to", "LOG", "A folder or a PostgreSQL database in which there is no log.")],
    data: Annotated[
        Path | None, option("--data", "FOLDER", "Where the archive goes, with PostgreSQL; else rankloop-data.")
    ] = None,
    check: Check = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into an empty place, from where `rankloop serve` goes on.

    A backup of SQLite may go into PostgreSQL and the other way round. Every hash is checked before anything is
    written; either all of it is there afterwards, or nothing. Exit code 1 where a replay differs.
    """
    from rankloop.service.application.upkeep.restoration import restore as put_back

    contents = put_back(backup, to, data)
    if as_json:
        print_json(contents._asdict())
    else:
        in_database = "://" in to
        folder = f", in {data or 'rankloop-data'}: serve with this --data" if in_database and contents.n_files else ""
        typer.echo(f"{'the database' if in_database else to} has {_sizes_of(contents)}{folder}")
    if check:
        _check(to, data, as_json)


@command("In use", "rankloop migrate shop-data --dry-run", "rankloop migrate shop-data --check")
def migrate(
    log: Log,
    data: Archive = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only say which version it is of.")] = False,
    check: Check = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Bring the log of an earlier rankloop up to date.

    `rankloop serve` does the same when it starts; here it can be tried, and checked, before. Make a backup first: an
    older rankloop cannot read the log afterwards.
    """
    from rankloop.service.application.upkeep.migration import bring_up_to_date, version_of

    before = version_of(log) if dry_run else bring_up_to_date(log)
    steps = before.current - before.found
    if as_json:
        print_json(before._asdict() | {"migrated": steps > 0 and not dry_run})
    elif not steps:
        typer.echo(f"the log is of {before}: it is up to date")
    else:
        n_steps = f"{steps} step{'s' if steps > 1 else ''}"
        typer.echo(
            f"the log is of {before}: {n_steps} to go" if dry_run else f"the log was of {before}: {n_steps} taken"
        )
    if check:
        _check(log, data, as_json)


@command("In use", "rankloop replay shop-data", "rankloop replay postgresql://user:password@host/database")
def replay(log: Log, data: Archive = None, imports: Imports = None, as_json: AsJson = False) -> None:
    """Prove that the state of a service is its log.

    Everything is learned again, and every snapshot compared bit for bit. Exit code 1 where one differs, or where a file
    of the archive is missing or damaged.
    """
    from rankloop.service.application.rebuild import replay_log

    results, damaged = replay_log(log, data)
    if as_json:
        lost = [{"stream": stream, "missing": reason} for stream, reason in damaged.items()]
        print_json([*(result._asdict() for result in results), *lost])
    else:
        if not results and not damaged:
            typer.echo(f"{log} holds no ranker: there is nothing to learn again")
        for result in results:
            typer.echo(
                f"{result.stream}: {result.events} events, {result.learned} updates, {result.refused} refused, "
                f"state {result.state} ({result.digest[:12]}); {result.checked} snapshots checked, {result.verdict}"
            )
        for stream, reason in damaged.items():
            typer.echo(f"{stream}: {reason}")
    if damaged or any(result.differing for result in results):
        raise typer.Exit(1)


def _sizes_of(contents: "Contents") -> str:
    rows, files = contents.rows, contents.n_files
    archive = f", {files} file{'s' if files > 1 else ''} of the archive" if files else ""
    return f"{rows['events']:,} events up to number {contents.last}, {rows['snapshots']:,} snapshots{archive}"


def _check(log: str, data: Path | None, as_json: bool) -> None:
    """Replay a log; exit code 1 where a snapshot differs."""
    from rankloop.service.application.upkeep.restoration import check

    results: Sequence[ReplayResult] = check(log, data)
    differing = [result for result in results if result.differing]
    if not as_json:
        verdict = "; ".join(f"{result.stream}: {result.verdict}" for result in differing) or "the same bit for bit"
        rankers = "1 ranker" if len(results) == 1 else f"{len(results)} rankers"
        typer.echo(f"replayed {rankers}: {sum(result.checked for result in results)} snapshots checked, {verdict}")
    if differing:
        raise typer.Exit(1)
