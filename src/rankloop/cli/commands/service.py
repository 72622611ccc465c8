"""`rankloop serve`, `learn` and `key`: serve rankers over HTTP, learn in a separate process, make keys."""

import os
import signal
import sys
from pathlib import Path
from threading import Event
from typing import Annotated, Literal

import typer

from rankloop.cli.app import command
from rankloop.cli.options import Host, Imports, Port, argument, option
from rankloop.core.errors import InvalidInput

LIMITS_HELP = "Set a limit: body, items, batch, rankers, open_bytes, state, rate, connections or log_days. Repeatable."
Limits = Annotated[list[str] | None, option("--limit NAME=N", LIMITS_HELP, envvar="RANKLOOP_LIMITS")]
KEYS_HELP = "File of key hashes, as `rankloop key new` prints them. Read again when it changes."
ALLOW_ORIGIN_HELP = (
    "A web page, as https://shop.example, that may send feedback with a key of the role feedback. Repeatable."
)
ROLE_HELP = "feedback: public, for pages of --allow-origin. rank: also rankings. admin: everything."


@command("In use")
def serve(
    context: typer.Context,
    port: Port = 8080,
    data: Annotated[Path, option("--data FOLDER", "Folder of the log.")] = Path("rankloop-data"),
    host: Host = "127.0.0.1",
    workers: Annotated[int, option("--workers N", "Number of processes; several need PostgreSQL.", min=1)] = 1,
    drain: Annotated[float, option("--drain SECONDS", "After SIGTERM answer for this long as not ready.", min=0)] = 0.0,
    limits: Limits = None,
    keys: Annotated[Path | None, option("--keys FILE", KEYS_HELP, envvar="RANKLOOP_KEYS_FILE")] = None,
    allow_origin: Annotated[
        list[str] | None, option("--allow-origin ORIGIN", ALLOW_ORIGIN_HELP, envvar="RANKLOOP_ORIGINS")
    ] = None,
    learns: Annotated[bool, option("--learn/--no-learn", "Learn in this process; else `rankloop learn` does.")] = True,
    demo: Annotated[bool, option("--demo", "Add example rankers and simulated users.")] = False,
    imports: Imports = None,
) -> None:
    """Serve rankers over HTTP.

    Every acknowledged request is on disk. Ctrl-C finishes open requests, writes a snapshot and stops; SIGHUP replaces
    the workers one after the other. RANKLOOP_STORE=postgresql://… keeps the log in PostgreSQL. RANKLOOP_KEYS holds the
    callers' keys or their hashes; --keys names a file of hashes. RANKLOOP_LIMITS="items=5000 rate=100" equals two
    --limit options. Callers can use what --import registers, but cannot import anything themselves.
    """
    from rankloop.service.http.demo import Demo
    from rankloop.service.http.workers import run_service
    from rankloop.service.settings import Settings, keys_from, limits_from

    store = os.environ.get("RANKLOOP_STORE", "")
    settings = Settings(
        host=host,
        port=port,
        data=data,
        store=store,
        keys=keys_from(os.environ.get("RANKLOOP_KEYS", "")),
        keys_file=keys,
        origins=tuple(allow_origin or ()),
        workers=workers,
        drain=drain,
        learns=learns,
        **limits_from(limits or ()),  # type: ignore[arg-type]
    )
    where = "in PostgreSQL" if store else f"in {os.fspath(data)}"

    def announce(address: str) -> None:
        typer.echo(f"rankloop: running on {address} (calls: /docs), log {where}", err=True)

    command = [sys.executable, "-m", "rankloop", *context.obj]  # the command of each worker
    run_service(settings, announce, command, Demo() if demo else None)


@command("In use")
def learn(
    store: Annotated[str, option("--store ADDRESS", "The service's database.", envvar="RANKLOOP_STORE")] = "",
    limits: Limits = None,
    imports: Imports = None,
) -> None:
    """Learn for workers that run with `serve --no-learn`.

    Several learner workers share the partitions: each partition has one learner worker at a time, and if it stops,
    another takes over within five seconds. Ctrl-C finishes, writes a snapshot and stops.
    """
    from rankloop.service.application.node import LocalService
    from rankloop.service.http.server import write_json_lines
    from rankloop.service.settings import Settings, limits_from

    if not store:
        raise InvalidInput("`rankloop learn` needs PostgreSQL: set RANKLOOP_STORE=postgresql://… or give --store")
    settings = Settings(store=store, max_log_days=limits_from(limits or ()).get("max_log_days"))
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    write_json_lines()
    service = LocalService(settings)
    try:
        typer.echo(f"rankloop: learner worker for its share of {service.node.store.partitions} partitions", err=True)
        stopping.wait()
    finally:
        service.close()


@command("In use")
def key(
    action: Annotated[Literal["new", "hash"], argument("new|hash", "Make a new key, or hash one from standard input.")],
    role: Annotated[Literal["feedback", "rank", "admin"], option("--role ROLE", ROLE_HELP)] = "rank",
    rankers: Annotated[list[str] | None, option("--rankers PATTERN", "Only rankers like shop-*. Repeatable.")] = None,
    rate: Annotated[float | None, option("--rate N", "Maximum calls per second, by all users of the key.")] = None,
    calls_per_day: Annotated[float | None, option("--calls-per-day N", "Maximum calls per day (UTC).")] = None,
    bytes_per_day: Annotated[float | None, option("--bytes-per-day N", "Maximum bytes of bodies per day.")] = None,
) -> None:
    """Make a key for callers of a service.

    The key is printed once, on standard error. Standard output gets the line for the file of `rankloop serve --keys`
    (or for RANKLOOP_KEYS); it contains only a hash, from which the key cannot be computed. A running service reads the
    file again when it changes, or at SIGHUP.
    """
    from rankloop.service.api_keys import MIN_KEY_LENGTH, Grant, new_key

    key_text = new_key() if action == "new" else sys.stdin.readline().strip()
    if len(key_text) < MIN_KEY_LENGTH:
        raise InvalidInput(
            f"the key is shorter than {MIN_KEY_LENGTH} characters: use a longer one: `echo KEY | rankloop key hash`"
        )
    line = Grant(role, "", tuple(rankers or ()), rate, calls_per_day, bytes_per_day).line(key_text)
    if action == "new":
        typer.echo(f"rankloop: the key, which is stored nowhere: {key_text}", err=True)
    typer.echo(line)
