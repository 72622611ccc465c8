"""`rankloop analyse`: what can be learned at all from the grades of the first items."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, flag, option
from rankloop.cli.output import print_json, progress_bar, show_table
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.games import Analysis, Game

MeasureName = Annotated[str, option("--measure -m", "NAME", "Such as nDCG, DCG@3 or P@2.")]
Items = Annotated[int, option("--items", "N", "How many items the fixed set has.")]
Depth = Annotated[int, option("--depth", "K", "How many items from the top reveal their grades.")]
MaxGrade = Annotated[int, option("--max-grade", "G", "Grades are 0, 1, … up to this.")]


@command(
    "Experiments",
    "rankloop analyse --measure nDCG --items 4 --all-depths",
    "rankloop analyse -m SumLoss --items 3 --matrices",
)
def analyse(
    measure: MeasureName = "nDCG",
    items: Items = 4,
    depth: Depth = 1,
    max_grade: MaxGrade = 1,
    all_depths: Annotated[bool, flag("--all-depths", "Every depth from 1 to the number of items.")] = False,
    matrices: Annotated[
        bool, flag("--matrices", "Also the matrices of the game and who is whose neighbour (few items).")
    ] = False,
    enumerate_all: Annotated[
        bool, flag("--enumerate", "Go through all rankings even where a formula is known.")
    ] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Say how fast a measure can be learned from the first grades.

    For a fixed set of items: trivial, √T, T^(2/3) or hopeless, with the reason. `rankloop advise` turns the answer into
    a learner.
    """
    from rankloop.games import Game, analyse_depths
    from rankloop.games import analyse as analyse_one
    from rankloop.games.matrices import matrices_of

    if not all_depths:
        check_depth(depth, items)
    with _waiting(f"analysing {measure} of {items} items", as_json):
        if all_depths:
            found = analyse_depths(measure, items, max_grade, closed_forms=not enumerate_all)
        else:
            found = [analyse_one(measure, items, depth, max_grade, closed_forms=not enumerate_all)]
    plain: dict[str, Any] = {}
    if matrices:
        game = Game(measure=found[0].measure, n_items=items, max_grade=max_grade)
        with progress_bar("looking for neighbours", "rankings") as progress:
            plain = {"matrices": matrices_of(game, found[0].depth, progress)}
    if as_json:
        tables = [found[0].as_table() | plain, *(one.as_table() for one in found[1:])]
        print_json(tables if all_depths else tables[0])
        return
    _print_table(found)
    if matrices:
        _print_matrices(game, found[0].depth, plain["matrices"]["neighbourhood_sets"])


def check_depth(depth: int | None, n_items: int | None) -> None:
    """Refuse grades of more items than there are; in Python they are all that there are."""
    if depth is not None and n_items is not None and depth > n_items >= 1:
        raise InvalidInput(f"--depth {depth}: of {n_items} items at most {n_items} can reveal their grades")


def _waiting(title: str, quiet: bool) -> Any:
    from rich.console import Console

    return Console(stderr=True, quiet=quiet).status(title)


def _print_table(found: "list[Analysis]") -> None:
    from rankloop.experiments.report.model import Table
    from rankloop.games.game import name_of

    first = found[0]
    rows = [(str(one.depth), one.verdict, one.rate) for one in found]
    title = f"{name_of(first.measure)}, {first.n_items} items, grades 0..{first.max_grade}"
    margin = "" if first.margin is None else f", numbers below {first.margin:.0e} count as 0"
    show_table(Table(title, ("depth", "verdict", "least regret"), rows, f"decided by {first.source}{margin}"))
    for one in {one.verdict: one for one in found}.values():
        typer.echo(f"{one.verdict} at depth {one.depth}: {one.reason}")


def _print_matrices(game: "Game", depth: int, neighbourhoods: dict[str, list[int]]) -> None:
    from rankloop.experiments.report.model import Table
    from rankloop.games.game import name_of
    from rankloop.games.matrices import feedback_grid, loss_grid, ranks_of, signal_grid

    neighbours = [
        (ranks_of(game, int(row)), " ".join(ranks_of(game, member) for member in members))
        for row, members in neighbourhoods.items()
    ]
    grids: dict[str, tuple[Any, Any]] = {
        f"{name_of(game.measure)} by ranking and relevance": loss_grid(game),
        f"Grades seen at depth {depth}": feedback_grid(game, depth),
        f"Signal matrix of {ranks_of(game, 0)}": signal_grid(game, 0, depth),
        f"Neighbours of {ranks_of(game, 0)}": (("ranks", "neighbourhood set"), neighbours),
    }
    for title, (header, rows) in grids.items():
        typer.echo()
        show_table(Table(title, header, rows))
    typer.echo("\nRankings are written as the rank of every item, from 1. All of them are best for some people.")
