"""`rankloop serve`, `learn` and `key`: rankers behind HTTP, their learner in a process of its own, keys for callers."""

import os
import signal
import sys
from pathlib import Path
from threading import Event
from typing import Annotated, Literal

import typer

from rankloop.cli.app import command
from rankloop.cli.options import Host, Imports, Port, argument, flag, option
from rankloop.core.errors import InvalidInput

Data = Annotated[Path, option("--data", "FOLDER", "The folder of the log and its archive.")]
KeepDays = Annotated[
    float | None, option("--keep-days", "DAYS", "Move older events to Parquet files in the data folder.")
]


@command(
    "In use",
    "rankloop serve --demo",
    "rankloop serve --port 8080 --data shop-data",
    "RANKLOOP_KEYS=rank:KEY,admin:KEY rankloop serve --host 0.0.0.0",
)
def serve(
    context: typer.Context,
    port: Port = 8080,
    data: Data = Path("rankloop-data"),
    host: Host = "127.0.0.1",
    workers: Annotated[
        int, option("--workers", "N", "How many processes; several need a PostgreSQL store.", min=1)
    ] = 1,
    drain: Annotated[
        float, option("--drain", "SECONDS", "Go on answering so long after SIGTERM; not ready then.", min=0)
    ] = 0.0,
    keep_days: KeepDays = None,
    limits: Annotated[
        list[str] | None,
        option(
            "--limit",
            "NAME=N",
            "Allow more or less: body, items, batch, rankers, open_bytes, state, rate, connections.",
            envvar="RANKLOOP_LIMITS",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        option(
            "--keys",
            "FILE",
            "Hashes of keys, as `rankloop key new` prints them; read again when it changes.",
            envvar="RANKLOOP_KEYS_FILE",
        ),
    ] = None,
    learns: Annotated[
        bool,
        flag("--learn/--no-learn", "Learn in this process too, or leave it to `rankloop learn` and other workers."),
    ] = True,
    demo: Annotated[bool, flag("--demo", "Add rankers to play with, and simulated people.")] = False,
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

    command = [sys.executable, "-m", "rankloop", *context.obj]  # this one, for each worker
    run_service(settings, announce, command, demo)


@command(
    "In use",
    "RANKLOOP_STORE=postgresql://user:password@host/database rankloop learn",
    "rankloop learn --store postgresql://user:password@host/database --partition 0-7",
)
def learn(
    store: Annotated[
        str, option("--store", "ADDRESS", "The PostgreSQL that workers serve from.", envvar="RANKLOOP_STORE")
    ] = "",
    partitions: Annotated[
        list[str] | None,
        option("--partition", "K", "Learn only these, as in 3 or 0-7; may be repeated. By default all."),
    ] = None,
    data: Data = Path("rankloop-data"),
    keep_days: KeepDays = None,
    imports: Imports = None,
) -> None:
    """Learn for workers that run with `serve --no-learn`.

    Several share the partitions: each is learned by one process at a time, and when that is gone another takes it
    within five seconds. Ctrl-C finishes, snapshots and stops.
    """
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


@command(
    "In use",
    "rankloop key new --role rank --rankers 'shop-*' >> keys",
    "rankloop key new --role admin",
    "rankloop key hash --role rank",
)
def key(
    action: Annotated[Literal["new", "hash"], argument("new|hash", "A new key, or the hash of one from the input.")],
    role: Annotated[
        Literal["rank", "admin"], option("--role", "ROLE", "rank: rankings and feedback; admin: everything.")
    ] = "rank",
    rankers: Annotated[
        list[str] | None, option("--rankers", "PATTERN", "Only for names like this, as in shop-*; repeatable.")
    ] = None,
    rate: Annotated[float | None, option("--rate", "N", "Calls per second, of all who use it together.")] = None,
) -> None:
    """Make a key for callers of a service.

    The key is printed once, on standard error; the line for the file of `rankloop serve --keys` (or for RANKLOOP_KEYS)
    goes to standard output. It holds only a hash: whoever reads the file cannot call. A running service reads the file
    again when it changes, or at SIGHUP.
    """
    from rankloop.service.keys import MIN_LENGTH, line_of, new_key

    given = new_key() if action == "new" else sys.stdin.readline().strip()
    if len(given) < MIN_LENGTH:
        raise InvalidInput(f"a key has {MIN_LENGTH} characters or more: echo KEY | rankloop key hash")
    line = line_of(role, given, rankers or (), rate)
    if action == "new":
        typer.echo(f"rankloop: the key, which is not kept anywhere: {given}", err=True)
    typer.echo(line)
