"""`rankloop advise`: which learner for this feedback, why, how to start; and whether it can be learned at all."""

from textwrap import indent
from typing import Annotated

import typer

from rankloop.advice import FEEDBACK, ITEMS, Choice, ProblemSize, choices, start, start_of_advice, table
from rankloop.cli.app import command
from rankloop.cli.commands.analyse import MaxGrade, check_depth
from rankloop.cli.options import AsJson, option
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput

USUAL_ITEMS = 4  # where a fixed set is asked about without its size


@command(
    "Start here",
    "rankloop advise",
    "rankloop advise --feedback clicks --items features",
    "rankloop advise --measure nDCG --depth 1 --items 10",
)
def advise(
    feedback: Annotated[str | None, option("--feedback -f", "NAME", f"What comes back: {', '.join(FEEDBACK)}.")] = None,
    items: Annotated[
        str | None,
        option("--items", "features|fields|fixed|N", "With numbers, with fields as they are, or a fixed set of N."),
    ] = None,
    measure: Annotated[
        str | None, option("--measure -m", "NAME", "Can this be learned, for a fixed set and its first grades?")
    ] = None,
    depth: Annotated[
        int | None, option("--depth", "K", "How many items from the top reveal their grades; 1 unless given.")
    ] = None,
    max_grade: MaxGrade = 1,
    as_json: AsJson = False,
) -> None:
    """Name the learner for your feedback, say why and how to start.

    Without options, the whole table. With --measure, whether it can be learned at all.
    """
    if (feedback, items, measure, depth) == (None, None, None, None):
        _show_all(as_json)
        return
    n_items = int(items) if items is not None and items.isdecimal() else None
    if n_items is not None and n_items < 1:
        raise InvalidInput(f"a fixed set has at least 1 item, got {items}")
    check_depth(depth, n_items or (USUAL_ITEMS if measure is not None else None))
    if measure is not None:
        _check_measure(feedback, items, n_items)
        every = feedback == "grades" and depth is None
        _judge(measure, n_items or USUAL_ITEMS, None if every else 1 if depth is None else depth, max_grade, as_json)
        return
    if depth is not None and depth < 1:
        raise InvalidInput(f"--depth counts from 1 (the first item), got {depth}")
    size = ProblemSize(n_items, 1 if depth is None else depth, max_grade)
    _choose(choices(feedback or "top_grades", "fixed" if n_items else items), size, as_json)


def _check_measure(feedback: str | None, items: str | None, n_items: int | None) -> None:
    if feedback not in (None, "grades", "top_grades"):
        raise InvalidInput(f"--measure is answered for grades and top_grades, not for {feedback}: leave it out")
    if items is not None and n_items is None:
        raise InvalidInput(f"--measure is answered for a fixed set of items: --items is a number then, got {items!r}")


def _choose(rows: tuple[Choice, ...], size: ProblemSize, as_json: bool) -> None:
    first, *others = rows
    if as_json:
        print_json(first.as_table(size) | {"otherwise": [row.as_table(size) for row in others]})
        return
    typer.echo(f"Use {first.use}: {first.why}.\n\n{indent(start(first, size), '    ')}")
    if others:
        typer.echo("\nOtherwise")
    for row in others:
        typer.echo(f"  {row.when}: {row.use}; {row.why}")
    if (first.feedback, first.items) == ("top_grades", "fixed"):
        typer.echo("\nWhether a measure can be learned from so little: rankloop advise --measure nDCG --items 10")


def _judge(measure: str, n_items: int, depth: int | None, max_grade: int, as_json: bool) -> None:
    from rankloop.games import advise as advised

    advice = advised(measure, n_items, depth, max_grade)
    program = start_of_advice(advice)
    if as_json:
        fields = {name: getattr(advice, name) for name in ("answer", "speed", "recommendation", "learner")}
        print_json(fields | {"start": program, "analysis": advice.analysis.as_table()})
        return
    for line in advice.lines:
        typer.echo(line)
    if program is not None:
        typer.echo(f"\n{indent(program, '    ')}")


def _show_all(as_json: bool) -> None:
    if as_json:
        print_json([row.as_table() for row in table()])
        return
    for row in table():
        if not row.when:
            options = f"--feedback {row.feedback} --items {row.items}"
            typer.echo(f"{options:<38}  {FEEDBACK[row.feedback]}, {ITEMS[row.items]}: {row.use}")
    more = "rankloop advise --feedback clicks --items features"
    typer.echo(f"\nWhy, how to start and what else there is, with the options of a line: {more}")
