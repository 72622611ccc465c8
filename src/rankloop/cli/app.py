"""The command line application: every module of `commands` adds its command to it."""

import platform
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand

from rankloop.cli.options import AsJson, flag
from rankloop.cli.output import print_json

Part = Literal["Start here", "Experiments", "Your data", "In use"]
F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(
    name="rankloop",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`rankloop COMMAND --help` says more, with examples. To begin: `rankloop demo`",
)


class Command(TyperCommand):
    """A command whose epilog is one example per line, printed as it is typed, however narrow the terminal is."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and write the examples below it."""
        examples, self.epilog = self.epilog or "", None
        super().format_help(ctx, formatter)
        formatter.write("\n  ".join(["Examples:", *examples.splitlines()]))


def command(part: Part, *examples: str, name: str | None = None) -> Callable[[F], F]:
    """Make a function a command, listed with the others of its part, its help ending with the examples."""
    return app.command(name, cls=Command, epilog="\n".join(examples), rich_help_panel=part)


@command("Start here", "rankloop version", "rankloop version --json")
def version(as_json: AsJson = False) -> None:
    """Print the version of rankloop, and of what its numbers depend on."""
    if not as_json:
        print_version()
        return
    packages = {name: metadata.version(name) for name in ("rankloop", "numpy", "scipy", "numba")}
    print_json(packages | {"python": platform.python_version(), "machine": platform.machine()})


def print_version() -> None:
    """Print the version of rankloop alone."""
    typer.echo(f"rankloop {metadata.version('rankloop')}")


@app.callback(invoke_without_command=True)
def rankloop(
    context: typer.Context, is_version: Annotated[bool, flag("--version", "Print the version.")] = False
) -> None:
    """Rankings that learn while people use them, from the little that they reveal."""
    if is_version:
        print_version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
