"""The command line application: every module of `commands` adds its command to it.

Typer and not plain click: one annotation declares an option, and this help and these messages would have to override
click just the same.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import typer

from rankloop.cli.help import Command, Group

Part = Literal["Start here", "Experiments", "Your data", "In use"]
F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(
    name="rankloop",
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(part: Part, *examples: str, name: str | None = None) -> Callable[[F], F]:
    """Make a function a command, listed with the others of its part, its help ending with the examples."""
    return app.command(name, cls=Command, epilog="\n".join(examples), rich_help_panel=part)


def command_names() -> list[str]:
    """Those of every module that has been imported."""
    return [entry.name or str(getattr(entry.callback, "__name__", "")) for entry in app.registered_commands]


@app.callback(invoke_without_command=True)
def rankloop(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Rankings that learn while people use them, from the little that they reveal."""
    if version:
        from rankloop.cli.commands.version import print_version

        print_version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
