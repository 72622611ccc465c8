"""`rankloop rollback`: list the states of a ranker of a running service, and go back to one."""

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, flag, option
from rankloop.cli.output import print_json


@command("In use", "rankloop rollback shop --list", "rankloop rollback shop --preview", "rankloop rollback shop")
def rollback(
    ranker: Annotated[str, argument("RANKER", "The ranker.")],
    state: Annotated[int | None, option("--state", "N", "The state to go back to. Default: one step back.")] = None,
    preview: Annotated[bool, flag("--preview", "Only say how many recent lists would get another order.")] = False,
    lists: Annotated[bool, flag("--list", "Only list the states.")] = False,
    to: Annotated[str, option("--to", "URL", "Address of the service.")] = "http://127.0.0.1:8080",
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
            typer.echo(
                f"state {row['state']}, {datetime.fromtimestamp(row['at'], UTC):%Y-%m-%d %H:%M:%S}{same}{served}"
            )
    elif preview:
        correlation = result["rank_correlation"]
        agreement = "" if correlation is None else f", rank correlation {correlation:.3f}"
        typer.echo(f"state {result['state']}: {result['changed']} of {result['lists']} recent lists change{agreement}")
        for example in result["examples"]:
            typer.echo(f"  now  {' '.join(map(str, example['now']))}\n  then {' '.join(map(str, example['then']))}")
    else:
        typer.echo(f"{ranker} is back at state {result['rolled_back_to']}, served as state {result['state']}")
