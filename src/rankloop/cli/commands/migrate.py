"""`rankloop migrate`: the version of a log, and how it becomes that of this rankloop."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.commands.restore import report_check
from rankloop.cli.options import AsJson, Imports


@command("In use", "rankloop migrate shop-data --dry-run", "rankloop migrate shop-data --check")
def migrate(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The log of a service: its folder, its file, or its RANKLOOP_STORE.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="The folder of the archive; as a rule that of the file."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which version it is of.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Replay it, and compare every snapshot bit for bit.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Bring the log of an earlier rankloop up to date.

    `rankloop serve` does the same when it starts; here it can be tried, and checked, before. Make a backup first: an
    older rankloop cannot read the log afterwards.
    """
    from rankloop.cli.output import print_json
    from rankloop.service.application.upkeep.migration import bring_up_to_date, version_of
    from rankloop.service.application.upkeep.restoration import check as replay

    before = version_of(log) if dry_run else bring_up_to_date(log)
    steps = before.current - before.found
    if as_json:
        print_json(before._asdict() | {"migrated": steps > 0 and not dry_run})
    else:
        done = "it is up to date" if not steps else f"{steps} step{'s' if steps > 1 else ''} "
        done += "" if not steps else "to go" if dry_run else "taken"
        typer.echo(f"the log is of {before}: {done}" if dry_run or not steps else f"the log was of {before}: {done}")
    if check:
        report_check(replay(log, data), as_json)
