"""`rankloop backup`: the log of a service in one file, while it runs."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.commands.restore import report_check, sizes_of
from rankloop.cli.options import AsJson, Imports


@command(
    "In use",
    "rankloop backup shop-data --to shop-monday.rankloop-backup",
    "rankloop backup postgresql://user:password@host/database --to shop.rankloop-backup --check",
)
def backup(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The log of a service: its folder, its file, or its RANKLOOP_STORE.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write; it must not be there yet.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="The folder of the archive; as a rule that of the file."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Restore it into a folder that goes away, and replay it there.")
    ] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write the log of a service to one file, while the service runs.

    The file holds all events, snapshots and files of the archive of one moment, with their hashes, and can be restored
    into a folder as well as into PostgreSQL. People whose events were erased are in older backups still.
    """
    from rankloop.cli.output import print_json
    from rankloop.service.application.upkeep.backup import back_up
    from rankloop.service.application.upkeep.restoration import check as replay
    from rankloop.service.application.upkeep.restoration import restore

    contents = back_up(log, to, data)
    if as_json:
        print_json(contents._asdict() | {"file": str(to), "bytes": to.stat().st_size})
    else:
        typer.echo(f"{to}: {sizes_of(contents)}, {to.stat().st_size:,} bytes")
    if check:
        with tempfile.TemporaryDirectory(prefix="rankloop-check-", dir=to.parent) as folder:
            restore(to, folder)
            report_check(replay(folder), as_json)
