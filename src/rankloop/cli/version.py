"""`rankloop version`: what to name in a bug report."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

from rankloop.cli.app import app


@app.command(epilog="Example: rankloop version --json")
def version(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Print the version of rankloop, and of what its numbers depend on."""
    if not as_json:
        print_version()
        return
    import msgspec

    packages = {name: metadata.version(name) for name in ("rankloop", "numpy", "scipy", "numba")}
    typer.echo(msgspec.json.encode(packages | {"python": platform.python_version(), "machine": platform.machine()}))


def print_version() -> None:
    typer.echo(f"rankloop {metadata.version('rankloop')}")
