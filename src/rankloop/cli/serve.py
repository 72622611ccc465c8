"""`rankloop serve`: rankers behind HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import app


@app.command(epilog="Example: rankloop serve --port 8080 --data shop-data --demo")
def serve(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on.")] = 8080,
    data: Annotated[Path, typer.Option("--data", help="The folder of the log.")] = Path("rankloop-data"),
    host: Annotated[str, typer.Option("--host", help="Other than 127.0.0.1 needs RANKLOOP_KEYS.")] = "127.0.0.1",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Several need RANKLOOP_STORE=postgresql://…")] = 1,
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", help="Move older events to Parquet files in the data folder.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Add a ranker that simulated people use.")] = False,
    socket: Annotated[int | None, typer.Option("--socket", hidden=True)] = None,
) -> None:
    """Serve rankers over HTTP; what is acknowledged is on disk. Ctrl-C finishes, snapshots and stops."""
    try:
        from rankloop.service import serving
        from rankloop.service.settings import Settings, environment_keys
        from rankloop.service.workers import serve_with_workers
    except ModuleNotFoundError as error:
        from rankloop.core.errors import NotFound

        raise NotFound(f"serving needs {error.name}: `make setup` installs it, or pip install '.[serve]'") from None

    store = os.environ.get("RANKLOOP_STORE", "")
    settings = Settings(
        host=host,
        port=port,
        data=data,
        store=store,
        keys=environment_keys(),
        workers=workers,
        keep_days=keep_days,
    )
    where = "in PostgreSQL" if store else f"in {os.fspath(data)}"

    def announce(address: str) -> None:
        if socket is None:  # else this is one of several workers, and the process that started it has said so
            typer.echo(f"rankloop: running on {address} (calls: /docs), log {where}", err=True)

    if workers > 1:
        kept = [] if keep_days is None else ["--keep-days", str(keep_days)]
        of_each = ["serve", "--host", host, "--data", os.fspath(data), *kept, *(["--demo"] * demo)]
        serve_with_workers(settings, announce, of_each)
    else:
        serving.serve(settings, announce, demo, socket)
