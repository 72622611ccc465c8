"""`rankloop backup`, `restore`, `migrate`, `replay`, `rollback` and `user`: maintain log and states of a service."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument, option
from rankloop.cli.output import print_json, show

Log = Annotated[str, argument("LOG", "The log of a service: its folder, its file, or its RANKLOOP_STORE.")]
Address = Annotated[str, option("--to URL", "Address of the service.")]
DEFAULT_ADDRESS = "http://127.0.0.1:8080"


@command("In use")
def backup(
    log: Annotated[str, argument("LOG", "The log of a service in SQLite: its folder or its file.")],
    to: Annotated[Path, option("--to FILE", "File to write; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Write the log of a service to one file, while the service runs.

    The file is the SQLite database of one moment, compressed by gzip. Back up PostgreSQL with pg_dump. Older backups
    still contain the events of users that were erased later. To verify a backup, restore and replay it.
    """
    from rankloop.service.application.backup import back_up

    contents = back_up(log, to)
    n_bytes = to.stat().st_size
    answer = contents._asdict() | {"file": str(to), "bytes": n_bytes}
    show(as_json, answer, [f"{to}: {_sizes_of(contents)}, {n_bytes:,} bytes"])


@command("In use")
def restore(
    backup: Annotated[Path, argument("BACKUP", "A file that `rankloop backup` wrote.")],
    to: Annotated[Path, option("--to FOLDER", "An empty folder.")],
    as_json: AsJson = False,
) -> None:
    """Restore a backup to an empty folder, from which `rankloop serve` continues.

    A damaged backup is refused; the restore is complete or has no effect. `rankloop replay` verifies the restored log.
    """
    from rankloop.service.application.backup import restore as restore_backup

    contents = restore_backup(backup, to)
    show(as_json, contents._asdict(), [f"{to} has {_sizes_of(contents)}"])


@command("In use")
def migrate(
    log: Log,
    dry_run: Annotated[bool, option("--dry-run", "Only print the version of the log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upgrade the log of an earlier version of rankloop.

    `rankloop serve` does the same when it starts. Make a backup: an older version cannot read the upgraded log.
    """
    from rankloop.service.application.backup import migrate_log
    from rankloop.service.stores.base import LOG_VERSION

    version = migrate_log(log, dry_run)
    answer = {"version": version, "current": LOG_VERSION, "migrated": version < LOG_VERSION and not dry_run}
    verdict = f"{'can be' if dry_run else 'was'} migrated to version {LOG_VERSION}"
    verdict = "is up to date" if version == LOG_VERSION else verdict
    show(as_json, answer, [f"the log has version {version}: it {verdict}"])


@command("In use")
def replay(log: Log, imports: Imports = None, as_json: AsJson = False) -> None:
    """Verify that the log of a service reproduces its state.

    All feedback is learned again, and every snapshot is compared bit for bit. Exit code 1 if one differs.
    """
    from rankloop.service.application.rebuild import replay_log

    results = replay_log(log)
    lines = [
        f"{result.entity}: {result.events} events, {result.learned} updates, {result.refused} refused, "
        f"state {result.state} ({result.digest[:12]}); {result.checked} snapshots checked, {result.verdict}"
        for result in results
    ]
    lines = lines or [f"{log} contains no ranker: there is nothing to replay"]
    show(as_json, [result._asdict() for result in results], lines)
    if any(result.differing for result in results):
        raise typer.Exit(1)


@command("In use")
def rollback(
    ranker: Annotated[str, argument("RANKER", "The ranker.")],
    state: Annotated[int | None, option("--state N", "The state to go back to. Default: one step back.")] = None,
    preview: Annotated[bool, option("--preview", "Only say how many recent lists would get another order.")] = False,
    lists: Annotated[bool, option("--list", "Only list the states.")] = False,
    to: Address = DEFAULT_ADDRESS,
    as_json: AsJson = False,
) -> None:
    """Set a ranker of a running service back to an earlier state.

    Each call without --state goes one step further back, down to state 0, the initial one. States are kept every 100
    updates, older ones less densely. The environment variable RANKLOOP_KEY holds the key of the service.
    """
    from rankloop.client import Client

    with Client(to, key=os.environ.get("RANKLOOP_KEY", "")) as client:
        result = client.states(ranker) if lists else client.rollback(ranker, state, preview=preview)
    if as_json:
        print_json(result)
    elif lists:
        for row in result["snapshots"]:
            same = "" if row["same_as"] is None else f", the same as state {row['same_as']}"
            served = ", served" if row["state"] == result["state"] else ""
            at = datetime.fromtimestamp(row["at"], UTC)
            typer.echo(f"state {row['state']}, {at:%Y-%m-%d %H:%M:%S}{same}{served}")
        if all(row["state"] != result["state"] for row in result["snapshots"]):
            typer.echo(f"state {result['state']}, not stored yet, served")
    elif preview:
        correlation = result["rank_correlation"]
        agreement = "" if correlation is None else f" (rank correlation {correlation:.2f})"
        changed = f"{result['changed']} of {result['lists']} recent lists would get another order"
        typer.echo(f"back to state {result['state']}, {changed}{agreement}")
        for example in result["examples"]:
            typer.echo(f"  now  {' '.join(map(str, example['now']))}\n  then {' '.join(map(str, example['then']))}")
    else:
        typer.echo(f"{ranker} is back at state {result['rolled_back_to']}, served as state {result['state']}")


@command("In use")
def user(
    action: Annotated[Literal["export", "erase"], argument("export|erase", "Print the user's events, or erase them.")],
    id: Annotated[str, argument("ID", "The user, as in requests to rank.")],
    relearn: Annotated[bool, option("--relearn", "With erase: learn every ranker again without the user.")] = False,
    to: Address = DEFAULT_ADDRESS,
    as_json: AsJson = False,
) -> None:
    """Export or erase what a running service stores of a user.

    The user is found by user and session, and in tags, context and features with usual names (user, user_id,
    visitor_id, …), in all rankers and experiments. Erasing prints the proof: what was removed where, and how to check
    it. The environment variable RANKLOOP_KEY holds the key of the service.
    """
    from rankloop.client import Client

    with Client(to, key=os.environ.get("RANKLOOP_KEY", "")) as client:
        if action == "export":
            print_json(client.find_user(id))
            return
        proof = client.erase_user(id, relearn=relearn)
    places = ", ".join(f"{place}: {count}" for place, count in proof["places"].items()) or "nothing"
    lines = [
        f"{proof['impressions']} impressions of {id} erased ({places})",
        f"{proof['events']} events removed from the log",
        f"{proof['snapshots']} snapshots learned again" if proof["relearned"] else "learned weights stay",
        f"still found: {proof['left']}; {'; '.join(proof['checks'])}",
    ]
    show(as_json, proof, lines)


def _sizes_of(contents: Any) -> str:
    return f"{contents.events:,} events up to number {contents.last}, {contents.snapshots:,} snapshots"
