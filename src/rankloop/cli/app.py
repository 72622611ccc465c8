"""The command line application: every module of this package adds its command to it."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="rankloop",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True, epilog="Example: rankloop demo")
def rankloop(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Rankings that learn while people use them, from the little that they reveal."""
    if version:
        from rankloop.cli.version import print_version

        print_version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
