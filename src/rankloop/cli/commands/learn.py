"""`rankloop learn`: the learner of a service in a process of its own."""

import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import Imports


@command(
    "In use",
    "RANKLOOP_STORE=postgresql://user:password@host/database rankloop learn",
    "rankloop learn --store postgresql://user:password@host/database --partition 0-7",
)
def learn(
    store: Annotated[
        str,
        typer.Option(
            "--store", envvar="RANKLOOP_STORE", metavar="ADDRESS", help="The PostgreSQL that workers serve from."
        ),
    ] = "",
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partition", metavar="K", help="Learn only these, as in 3 or 0-7; may be repeated. By default all."
        ),
    ] = None,
    data: Annotated[Path, typer.Option("--data", metavar="FOLDER", help="The folder of the archive.")] = Path(
        "rankloop-data"
    ),
    keep_days: Annotated[
        float | None,
        typer.Option("--keep-days", metavar="DAYS", help="Move older events to Parquet files in the data folder."),
    ] = None,
    imports: Imports = None,
) -> None:
    """Learn for workers that run with `serve --no-learn`.

    Several share the partitions: each is learned by one process at a time, and when that is gone another takes it
    within five seconds. Ctrl-C finishes, snapshots and stops.
    """
    from rankloop.core.errors import InvalidInput
    from rankloop.service.application.local_service import LocalService
    from rankloop.service.http.server import write_json_lines
    from rankloop.service.settings import Settings, partitions_from

    if not store:
        raise InvalidInput("a learner of its own needs PostgreSQL: set RANKLOOP_STORE=postgresql://…, or give --store")
    settings = Settings(data=data, store=store, keep_days=keep_days, learn=partitions_from(partitions or ()))
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    write_json_lines()
    service = LocalService(settings)
    try:
        found = ", ".join(map(str, service.node.learning.worker.leases.wanted))
        typer.echo(f"rankloop: a learner, for its share of the partitions {found}", err=True)
        stopping.wait()
    finally:
        service.close()
