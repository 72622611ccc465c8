"""The command line application; the modules of `commands` add their commands to it."""

import platform
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand

from rankloop.cli.options import AsJson, option
from rankloop.cli.output import print_json

Part = Literal["Start here", "Experiments", "Your data", "In use"]
F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(
    name="rankloop",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`rankloop COMMAND --help` has details and examples. Start with `rankloop demo`.",
)

COMMAND_EXAMPLES = tomllib.loads(Path(__file__).with_name("examples.toml").read_text(encoding="utf-8"))  # by command
NO_FILE = "-"  # print to standard output
OPTIONAL_FILES = ("--guess-schema",)


class Command(TyperCommand):
    """Command whose epilog is one example per line, which is never wrapped."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text, then the examples."""
        examples, self.epilog = self.epilog or "", None
        super().format_help(ctx, formatter)
        formatter.write("\n  ".join(["Examples:", *examples.splitlines()]))


def command(part: Part, name: str | None = None) -> Callable[[F], F]:
    """Make a function a command, with its examples.

    Args:
      part: The part of `rankloop --help` that lists the command.
      name: The command's name; by default that of the function, with dashes.
    """

    def add(function: F) -> F:
        called = name or function.__name__.replace("_", "-")
        decorate = app.command(called, cls=Command, epilog="\n".join(COMMAND_EXAMPLES[called]), rich_help_panel=part)
        return decorate(function)

    return add


@command("Start here")
def version(
    verbose: Annotated[bool, option("--verbose", "Also print the libraries and the origin of the kernels.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the version of rankloop; with --verbose or --json also of its libraries and where its kernels come from."""
    if not (verbose or as_json):
        print_version()
        return
    import numpy as np

    from rankloop.core import compilation, kernels

    kernels.ranking_of(np.zeros(2))  # asks for one kernel, to see where it comes from
    origin = next(iter(compilation.progress.origins))
    folder = compilation.PACKAGED_KERNELS if origin == "wheel" else compilation.kernel_folder()
    facts = {name: metadata.version(name) for name in ("rankloop", "numpy", "numba")}
    facts |= {"python": platform.python_version(), "machine": platform.machine()}
    facts |= {"processor": compilation.processor(), "kernels": f"from the {origin} ({folder})"}
    if as_json:
        print_json(facts)
    else:
        typer.echo("\n".join(f"{name:10} {value}" for name, value in facts.items()))


def print_version() -> None:
    """Print the version of rankloop."""
    typer.echo(f"rankloop {metadata.version('rankloop')}")


@app.callback(invoke_without_command=True)
def rankloop(
    context: typer.Context, is_version: Annotated[bool, option("--version", "Print the version.")] = False
) -> None:
    """Rank items by a model that learns while it is used: from clicks, orders or grades."""
    if is_version:
        print_version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
