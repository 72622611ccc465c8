"""`rankloop list`: everything that has a name."""

from typing import Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports
from rankloop.core.errors import InvalidInput


@command("Start here", "rankloop list learners", "rankloop list measures --json", name="list")
def list_all(
    family: Annotated[
        str | None, typer.Argument(metavar="WHAT", help="learners, measures, streams, experiments …")
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that has a name: learners, measures, data, experiments.

    One line each; with --json also the parameters and their defaults.
    """
    from rankloop.core.registry import catalogue
    from rankloop.core.registry.specs import nearest
    from rankloop.experiments.papers.registry import everything

    families = catalogue()
    families["experiments"] = [{"kind": item.id, "summary": item.title} for item in everything().values()]
    if family is not None:
        if family not in families:
            raise InvalidInput(f"nothing is listed as {family!r}{nearest(family, families)}")
        families = {family: families[family]}
    if as_json:
        from rankloop.cli.output import print_json

        print_json(families)
    else:
        _print(families)


def _print(families: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for name, members in families.items():
        grid = Table(
            title=Text(name), title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        grid.add_column(no_wrap=True, style="cyan")
        grid.add_column(overflow="ellipsis", no_wrap=console.is_terminal)
        for member in members:
            grid.add_row(Text(member["kind"]), Text(member["summary"]))
        if not console.is_terminal:
            console.width = 240
        console.print(grid)
        if len(families) > 1:
            console.print()
