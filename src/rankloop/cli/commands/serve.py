"""`rankloop serve`: rankers behind HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import Imports


@command(
    "In use",
    "rankloop serve --demo",
    "rankloop serve --port 8080 --data shop-data",
    "RANKLOOP_KEYS=rank:KEY,admin:KEY rankloop serve --host 0.0.0.0",
)
def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port to listen on.")] = 8080,
    data: Annotated[Path, typer.Option("--data", metavar="FOLDER", help="The folder of the log.")] = Path(
        "rankloop-data"
    ),
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Other than 127.0.0.1 needs keys in RANKLOOP_KEYS.")
    ] = "127.0.0.1",
    workers: Annotated[
        int, typer.Option("--workers", min=1, metavar="N", help="How many processes; several need a PostgreSQL store.")
    ] = 1,
    drain: Annotated[
        float,
        typer.Option(
            "--drain", min=0, metavar="SECONDS", help="Go on answering so long after SIGTERM; not ready then."
        ),
    ] = 0.0,
    keep_days: Annotated[
        float | None,
        typer.Option("--keep-days", metavar="DAYS", help="Move older events to Parquet files in the data folder."),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=N",
            envvar="RANKLOOP_LIMITS",
            help="Allow more or less: body, items, batch, rankers, open_bytes, state, rate, connections.",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            envvar="RANKLOOP_KEYS_FILE",
            help="Hashes of keys, as `rankloop key new` prints them; read again when it changes.",
        ),
    ] = None,
    learns: Annotated[
        bool,
        typer.Option(
            "--learn/--no-learn", help="Learn in this process too, or leave it to `rankloop learn` and other workers."
        ),
    ] = True,
    demo: Annotated[bool, typer.Option("--demo", help="Add rankers to play with, and simulated people.")] = False,
    imports: Imports = None,
) -> None:
    """Serve rankers over HTTP.

    What is acknowledged is on disk. Ctrl-C finishes, snapshots and stops; SIGHUP replaces several workers one after
    the other. RANKLOOP_STORE=postgresql://… keeps the log in PostgreSQL; RANKLOOP_KEYS are the keys that callers must
    show, or their hashes, and --keys names a file of such; RANKLOOP_LIMITS="items=5000 rate=100" is the same as two
    --limit. What is imported can be named by callers, but they cannot import.
    """
    from rankloop.service.http.workers import run_service
    from rankloop.service.settings import Settings, environment_keys, limits_from

    store = os.environ.get("RANKLOOP_STORE", "")
    settings = Settings(
        host=host,
        port=port,
        data=data,
        store=store,
        keys=environment_keys(),
        keys_file=keys,
        workers=workers,
        drain=drain,
        keep_days=keep_days,
        learn=None if learns else (),
        **limits_from(limits or ()),  # type: ignore[arg-type]
    )
    where = "in PostgreSQL" if store else f"in {os.fspath(data)}"

    def announce(address: str) -> None:
        typer.echo(f"rankloop: running on {address} (calls: /docs), log {where}", err=True)

    command = [sys.executable, "-m", "rankloop.cli", *context.obj]  # this one, for each worker
    run_service(settings, announce, command, demo)
