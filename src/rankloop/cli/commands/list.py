"""`rankloop list`: everything that has a name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.core.registry import Entry

EXPERIMENTS = "experiments"


@command("Start here", "rankloop list learners", "rankloop list measures --json", name="list")
def list_all(
    what: Annotated[
        str | None, typer.Argument(metavar="WHAT", help="learners, measures, streams, experiments …")
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that has a name: learners, measures, data, experiments.

    One line each; with --json also the parameters and their defaults.
    """
    from rankloop.core.specs import nearest

    families = _families()
    if what is not None:
        if what not in families:
            raise InvalidInput(f"nothing is listed as {what!r}{nearest(what, families)}")
        families = {what: families[what]}
    if as_json:
        from rankloop.cli.output import print_json

        print_json(families)
    else:
        _print(families)


def _families() -> dict[str, list[dict[str, Any]]]:
    """Plural name of the category → its members."""
    from rankloop.core.registry import categories, entries
    from rankloop.experiments.papers.registry import everything

    found = {_plural(category): [_described(entry) for entry in entries(category)] for category in categories()}
    return found | {EXPERIMENTS: [{"kind": item.id, "summary": item.title} for item in everything().values()]}


def _plural(category: str) -> str:
    return (
        category
        if category.endswith(("feedback", "interleaving"))
        else category.removesuffix("y") + ("ies" if category.endswith("y") else "s")
    )


def _described(entry: Entry) -> dict[str, Any]:
    fields = dataclasses.fields(entry.cls)
    parameters = [{"name": field.name, "type": str(field.type)} | _default(field) for field in fields if field.init]
    return {"kind": entry.kind, "summary": entry.summary, "parameters": parameters}


def _default(field: dataclasses.Field[Any]) -> dict[str, Any]:
    from rankloop.core.registry import spec_of

    value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    if value is dataclasses.MISSING:
        return {}
    return {"default": spec_of(value) if dataclasses.is_dataclass(value) else value}


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
