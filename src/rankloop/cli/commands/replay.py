"""`rankloop replay`: learn everything in a log again, and compare."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports


@command("In use", "rankloop replay shop-data", "rankloop replay postgresql://user:password@host/database")
def replay(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The log of a service: its folder, its file, or its RANKLOOP_STORE.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            help="The folder of the archive (serve --keep-days); as a rule that of the file.",
        ),
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Prove that the state of a service is its log.

    Everything is learned again, and every snapshot compared bit for bit. Exit code 1 where one differs, or where a file
    of the archive is missing or damaged.
    """
    from rankloop.cli.output import print_json
    from rankloop.service.application.rebuild import replay_log

    results, damaged = replay_log(log, data)
    lost = [{"stream": stream, "missing": reason} for stream, reason in damaged.items()]
    if as_json:
        print_json([*(result._asdict() for result in results), *lost])
    elif not results and not lost:
        typer.echo(f"{log} holds no ranker: there is nothing to learn again")
    for result in results if not as_json else ():
        typer.echo(
            f"{result.stream}: {result.events} events, {result.learned} updates, {result.refused} refused, "
            f"state {result.state} ({result.digest[:12]}); {result.checked} snapshots checked, {result.verdict}"
        )
    for part in lost if not as_json else ():
        typer.echo(f"{part['stream']}: {part['missing']}")
    if lost or any(result.differing for result in results):
        raise typer.Exit(1)
