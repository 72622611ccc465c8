"""`rankloop user`: export or erase what a running service stores of a user."""

import os
from typing import Annotated, Literal

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, flag, option
from rankloop.cli.output import print_json


@command("In use", "rankloop user export anne > anne.json", "rankloop user erase anne --relearn")
def user(
    action: Annotated[Literal["export", "erase"], argument("export|erase", "Print the user's events, or erase them.")],
    id: Annotated[str, argument("ID", "The user, as in requests to rank.")],
    relearn: Annotated[bool, flag("--relearn", "With erase: learn every ranker again without the user.")] = False,
    to: Annotated[str, option("--to", "URL", "Address of the service.")] = "http://127.0.0.1:8080",
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
    if as_json:
        print_json(proof)
        return
    places = ", ".join(f"{place}: {count}" for place, count in proof["places"].items()) or "nothing"
    typer.echo(f"{proof['impressions']} impressions of {id} erased ({places})")
    typer.echo(f"{proof['events']} events in the database, {proof['archived_events']} in the archive")
    typer.echo(f"{proof['snapshots']} snapshots learned again" if proof["relearned"] else "learned weights stay")
    typer.echo(f"found now: {proof['left']}; {'; '.join(proof['checks'])}")
