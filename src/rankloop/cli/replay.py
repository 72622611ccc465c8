"""`rankloop replay`: learn everything in a log again, and compare."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import app
from rankloop.cli.options import AsJson


@app.command(epilog="Example: rankloop replay shop-data, or: rankloop replay postgresql://user:password@host/database")
def replay(
    log: Annotated[
        str,
        typer.Argument(help="The log of a service: its folder, its file, or its RANKLOOP_STORE.", show_default=False),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The folder of the archive (serve --keep-days); as a rule that of the file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that the state of a service is its log: learn it all again, and compare every snapshot bit for bit."""
    import msgspec

    from rankloop.service.archive import whole
    from rankloop.service.replaying import replayed
    from rankloop.service.stores.reading import log_at

    with log_at(log) as opened:
        folder = data or opened.folder
        results = replayed(chain.from_iterable(whole(opened, stream, folder) for stream in opened.streams()))
    if as_json:
        typer.echo(msgspec.json.encode([result._asdict() for result in results]))
    for result in results if not as_json else ():
        verdict = f"{len(result.differing)} snapshots DIFFER" if result.differing else "the same bit for bit"
        typer.echo(
            f"{result.stream}: {result.events} events, {result.learned} updates, {result.refused} refused, "
            f"state {result.state} ({result.digest[:12]}); {result.checked} snapshots checked, {verdict}"
        )
    if any(result.differing for result in results):
        raise typer.Exit(1)
