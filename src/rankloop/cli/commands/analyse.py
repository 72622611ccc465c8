"""`rankloop analyse`: decide how fast a measure can be learned from the grades of the first items."""

from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, option
from rankloop.cli.output import print_json, show_table
from rankloop.core.errors import InvalidInput

MeasureName = Annotated[str, option("--measure -m NAME", "A measure, such as nDCG, DCG@3 or P@2.")]
Items = Annotated[int, option("--items N", "The number of items in the fixed set.")]
Depth = Annotated[int, option("--depth K", "The number of top items whose grades come back.")]
MaxGrade = Annotated[int, option("--max-grade G", "Grades are 0, 1, … up to this.")]


@command(
    "Experiments",
    "rankloop analyse --measure nDCG --items 4 --all-depths",
    "rankloop analyse -m SumLoss --items 3 --depth 2 --json",
)
def analyse(
    measure: MeasureName = "nDCG",
    items: Items = 4,
    depth: Depth = 1,
    max_grade: MaxGrade = 1,
    all_depths: Annotated[bool, option("--all-depths", "Analyse every depth from 1 to the number of items.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Say how fast a measure can be learned from the first grades.

    The verdict for a fixed set of items is trivial, √T, T^(2/3) or hopeless, with the reason. `rankloop advise` names
    a learner for it.
    """
    from rich.console import Console

    from rankloop.games import analyse as analyse_depth
    from rankloop.games import analyse_depths
    from rankloop.games.game import name_of

    with Console(stderr=True, quiet=as_json).status(f"analysing {measure} of {items} items"):
        if all_depths:
            analyses = analyse_depths(measure, items, max_grade)
        else:
            check_depth(depth, items)
            analyses = [analyse_depth(measure, items, depth, max_grade)]
    if as_json:
        tables = [analysis.as_table() for analysis in analyses]
        print_json(tables if all_depths else tables[0])
        return
    from rankloop.experiments.report.model import Table

    first = analyses[0]
    rows = [(str(analysis.depth), analysis.verdict, analysis.rate) for analysis in analyses]
    title = f"{name_of(first.measure)}, {first.n_items} items, grades 0..{first.max_grade}"
    margin = "" if first.margin is None else f", numbers below {first.margin:.0e} count as 0"
    show_table(Table(title, ("depth", "verdict", "least regret"), rows, f"decided by {first.source}{margin}"))
    for analysis in {analysis.verdict: analysis for analysis in analyses}.values():
        typer.echo(f"{analysis.verdict} at depth {analysis.depth}: {analysis.reason}")


def check_depth(depth: int | None, n_items: int | None) -> None:
    """Raise if more grades are requested than there are items.

    Args:
      depth: The value of --depth.
      n_items: The number of items.
    """
    if depth is not None and n_items is not None and depth > n_items >= 1:
        raise InvalidInput(f"--depth {depth} is larger than the number of items: give at most {n_items}")
