"""Tables and verdicts on a terminal, JSON for programs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankloop.experiments.analysis.verdicts import Verdict
    from rankloop.experiments.report.model import Table

WIDE = 160  # where the output is a file or a pipe
COLOURS = {"holds": "green", "partly": "yellow", "does not hold": "red", "cannot hold": "red"}


def print_json(answer: Any) -> None:
    """One line of JSON."""
    import msgspec
    import typer

    typer.echo(msgspec.json.encode(answer).decode())


def show_table(table: "Table") -> None:
    """A table with its title above and its note below; plain text where the output is no terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD, caption=Text(table.note))
    grid.pad_edge, grid.collapse_padding, grid.show_edge = False, True, False  # so that it fits 80 columns
    grid.caption_justify = "left"
    for position, name in enumerate(table.header):
        grid.add_column(name, justify="right" if position else "left", no_wrap=position > 0)
    for row in table.rows:
        grid.add_row(*map(Text, row))
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    console.print(grid)


def show_claims(claims: "Iterable[Verdict]") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for claim in claims:
        parts = [claim.because, f"paper: {claim.paper}" if claim.paper else "", claim.argument]
        numbers = " | ".join(part for part in parts if part)
        console.print(
            Text.assemble((f"{claim.word:<14}", COLOURS[claim.word]), claim.statement, (f"  {numbers}", "dim"))
        )
