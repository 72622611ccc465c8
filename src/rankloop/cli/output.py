"""Print tables, verdicts, progress bars and JSON."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from rankloop.core.extras import MissingExtra, import_extra

if TYPE_CHECKING:
    from rankloop.experiments.analysis.verdicts import Verdict
    from rankloop.experiments.report.model import Table
    from rankloop.training.trees import TreeRanker

FILE_COLUMNS = 160  # the width of a table that is written to a file or a pipe
SECONDS_UNTIL_BAR = 1.0
TREES_HINT = (
    "Use TreeRanker.load(FILE).scores_of_values(items, query_id) as the `base` feature of a ranker, or give the "
    "file to a service as base.booster."
)
VERDICT_COLOURS = {"holds": "green", "partly": "yellow", "does not hold": "red", "cannot hold": "red"}


def print_json(answer: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(msgspec.json.encode(answer).decode())


def show(as_json: bool, answer: Any, lines: Iterable[object]) -> None:
    """Print the answer of a command as JSON or as lines of text.

    Args:
      as_json: Print JSON.
      answer: The content of the JSON.
      lines: The text.
    """
    if as_json:
        print_json(answer)
        return
    for line in lines:
        typer.echo(line)


def print_result(result: Any, as_json: bool, more: Mapping[str, Any] = {}, lines: Iterable[str] = ()) -> None:
    """Print a result as JSON or as text; its notes go to standard error.

    Args:
      result: The result of a function behind a command; it has `notes` and `to_json`, and prints as a table.
      as_json: Print JSON.
      more: Further fields of the JSON.
      lines: Further lines of the text.
    """
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    show(as_json, {**more, **result.to_json()}, [result, *lines])


def print_trained(result: Any, out: Path, as_json: bool, plot: str = "held-out.png") -> None:
    """Save a trained model and its plot in a folder, and print the result.

    Args:
      result: The result of training.
      out: The folder.
      as_json: Print JSON.
      plot: The file name of the plot.
    """
    out.mkdir(parents=True, exist_ok=True)
    model, plot_file = out / "model.rankloop", out / plot
    result.save(model)
    try:
        import_extra("matplotlib")
        result.plot(plot_file)
        plot_line = f"plot: {plot_file}"
    except MissingExtra as error:
        plot_line = f"no plot: {error}"
    print_result(result, as_json, {"model": str(model)}, [f"model: {model}", plot_line])


def save_trees(trees: "TreeRanker", measures: Mapping[str, float], out: Path, as_json: bool) -> None:
    """Save trees for a base score, and print their quality on held-out queries.

    Args:
      trees: The trees.
      measures: Values by measure, on held-out queries.
      out: The folder.
      as_json: Print JSON.
    """
    path = out / "trees.json"
    out.mkdir(parents=True, exist_ok=True)
    trees.save(path)
    lines = [f"{path}: {len(trees.boosters)} boosters, hash {trees.hash[:12]}…"]
    for name, value in measures.items():
        lines.append(f"{name:<8} {value:.4f}  (each query is scored by a booster that was trained without it)")
    if trees.columns:
        lines.append(f"features: {', '.join(f'{column.field} ({column.kind})' for column in trees.columns)}")
    answer = {"trees": str(path), "hash": trees.hash, "boosters": len(trees.boosters)}
    show(as_json, answer | {"features": list(trees.names), "held_out": measures}, [*lines, TREES_HINT])


def show_table(table: "Table") -> None:
    """Print a table with its title above and its note below; plain text if the output is not a terminal."""
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
        console.width = FILE_COLUMNS
    console.print(grid)


def show_claims(claims: "Iterable[Verdict]") -> None:
    """Print claims with their verdicts in colour."""
    for claim in claims:
        parts = [claim.because, f"paper: {claim.paper}" if claim.paper else "", claim.argument]
        numbers = typer.style(f"  {' | '.join(filter(None, parts))}", dim=True)
        typer.echo(typer.style(f"{claim.word:<14}", fg=VERDICT_COLOURS[claim.word]) + claim.statement + numbers)


@contextmanager
def progress_bar(title: str, unit: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error if the work takes longer than a second; on terminals only.

    Args:
      title: The text before the bar.
      unit: The name of the steps.

    Yields:
      The function to call with the number of finished steps and of all steps.
    """
    if not sys.stderr.isatty():
        yield lambda finished, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    console, steps = Console(stderr=True), "{task.completed:.0f} of {task.total:.0f} {task.fields[unit]}"
    elapsed, remaining = TimeElapsedColumn(), TimeRemainingColumn()
    bar = Progress("{task.description}", BarColumn(), steps, elapsed, remaining, console=console, transient=True)
    task = bar.add_task(title, total=1, unit=unit)
    timer = Timer(SECONDS_UNTIL_BAR, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda finished, of: bar.update(task, completed=finished, total=of)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
