"""Tables and verdicts on a terminal, JSON for programs."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rankloop.experiments.analysis.verdicts import Verdict
    from rankloop.experiments.report.model import Table
    from rankloop.training.trees import TreeRanker

WIDE = 160  # where the output is a file or a pipe
COLOURS = {"holds": "green", "partly": "yellow", "does not hold": "red", "cannot hold": "red"}


def print_json(answer: Any) -> None:
    """One line of JSON."""
    import msgspec
    import typer

    typer.echo(msgspec.json.encode(answer).decode())


class TrainingResult(Protocol):
    """What `train` and `train_clicks` return."""

    @property
    def notes(self) -> tuple[str, ...]: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def plot(self, path: str | os.PathLike[str]) -> None: ...
    def to_json(self) -> dict[str, Any]: ...


def print_trained(result: TrainingResult, out: Path, as_json: bool, plot: str = "held-out.png") -> None:
    """Save what was trained and its picture in a folder, and print it; notes go to standard error."""
    import typer

    out.mkdir(parents=True, exist_ok=True)
    model, picture = out / "model.rankloop", out / plot
    result.save(model)
    result.plot(picture)
    if as_json:
        print_json({"model": str(model), **result.to_json()})
        return
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{result}\nmodel: {model}\npicture: {picture}")


def save_trees(trained: "tuple[TreeRanker, dict[str, float]]", out: Path, as_json: bool) -> None:
    """Write trees to the file that a base score is computed with, and print how they rank unseen queries."""
    import typer

    trees, measures = trained
    path = out / "trees.json"
    out.mkdir(parents=True, exist_ok=True)
    trees.save(path)
    if as_json:
        answer = {"trees": str(path), "hash": trees.hash, "kind": trees.kind, "boosters": len(trees.boosters)}
        print_json(answer | {"features": list(trees.names), "unseen queries": measures})
        return
    typer.echo(f"{path}: {len(trees.boosters)} boosters of {trees.kind}, hash {trees.hash[:12]}…")
    for name, value in measures.items():
        typer.echo(f"{name:<8} {value:.4f}  (each query by the booster that has not seen it)")
    typer.echo("Its score is a feature: TreeRanker.load(FILE).scores(rows, query_id), named as `base` of a ranker.")


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
