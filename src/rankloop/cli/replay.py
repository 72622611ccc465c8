"""`rankloop replay`: learn everything in a log again, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import app
from rankloop.cli.options import AsJson


@app.command(epilog="Example: rankloop replay shop-data/rankloop.db")
def replay(
    log: Annotated[
        Path, typer.Argument(help="The log of a service: its file, or the folder it is in.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Prove that the state of a service is its log: learn it all again, and compare every snapshot bit for bit."""
    import msgspec

    from rankloop.service.replaying import replayed
    from rankloop.service.retention import with_archive
    from rankloop.service.stores.reading import records_of

    folder = log if log.is_dir() else log.parent
    results = replayed(with_archive(folder, records_of(log)))
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
