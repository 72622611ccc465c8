"""`rankloop key`: a key for callers of a service, and the line by which the service knows it."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from rankloop.cli.app import command


class Action(StrEnum):
    """A new key, or one that is there."""

    new = "new"
    hash = "hash"


class Role(StrEnum):
    """Who may rank and give feedback, and who may do everything."""

    rank = "rank"
    admin = "admin"


@command(
    "In use",
    "rankloop key new --role rank --rankers 'shop-*' >> keys",
    "rankloop key new --role admin",
    "rankloop key hash --role rank",
)
def key(
    action: Annotated[Action, typer.Argument(metavar="new|hash", help="A new key, or the hash of one from the input.")],
    role: Annotated[
        Role, typer.Option("--role", metavar="ROLE", help="rank: rankings and feedback; admin: everything.")
    ] = Role.rank,
    rankers: Annotated[
        list[str] | None,
        typer.Option("--rankers", metavar="PATTERN", help="Only for names like this, as in shop-*; repeatable."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Calls per second, of all who use it together.")
    ] = None,
) -> None:
    """Make a key for callers of a service.

    The key is printed once, on standard error; the line for the file of `rankloop serve --keys` (or for RANKLOOP_KEYS)
    goes to standard output. It holds only a hash: whoever reads the file cannot call. A running service reads the file
    again when it changes, or at SIGHUP.
    """
    from rankloop.core.errors import InvalidInput
    from rankloop.service.keys import MIN_LENGTH, line_of, new_key

    given = new_key() if action is Action.new else sys.stdin.readline().strip()
    if len(given) < MIN_LENGTH:
        raise InvalidInput(f"a key has {MIN_LENGTH} characters or more: echo KEY | rankloop key hash")
    line = line_of(role.value, given, rankers or (), rate)
    if action is Action.new:
        typer.echo(f"rankloop: the key, which is not kept anywhere: {given}", err=True)
    typer.echo(line)
