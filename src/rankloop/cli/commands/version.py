"""`rankloop version`: what to name in a bug report."""

import platform
from importlib import metadata

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson


@command("Start here", "rankloop version", "rankloop version --json")
def version(as_json: AsJson = False) -> None:
    """Print the version of rankloop, and of what its numbers depend on."""
    if not as_json:
        print_version()
        return
    from rankloop.cli.output import print_json

    packages = {name: metadata.version(name) for name in ("rankloop", "numpy", "scipy", "numba")}
    print_json(packages | {"python": platform.python_version(), "machine": platform.machine()})


def print_version() -> None:
    typer.echo(f"rankloop {metadata.version('rankloop')}")
