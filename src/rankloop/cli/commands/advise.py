"""`rankloop advise` and `analyse`: choose a learner for the feedback, and decide how fast a measure can be learned."""

from textwrap import indent
from typing import Annotated

import typer

from rankloop.advice import FEEDBACK_TEXTS, ITEM_TEXTS, ProblemSize, choices, start_of_advice, table
from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, option
from rankloop.cli.output import print_json, show, show_table
from rankloop.core.errors import InvalidInput

DEFAULT_N_ITEMS = 4  # of a fixed set whose size is not an option
MORE_HINT = (
    "\nFor the reason, a first program and alternatives add the options of a line: "
    "rankloop advise --feedback clicks --items features"
)
MeasureName = Annotated[str, option("--measure -m NAME", "A measure, such as nDCG, DCG@3 or P@2.")]
Items = Annotated[int, option("--items N", "The number of items in the fixed set.")]
Depth = Annotated[int, option("--depth K", "The number of top items whose grades come back.")]
MaxGrade = Annotated[int, option("--max-grade G", "Grades are 0, 1, … up to this.")]
ITEMS_HELP = "Items with numbers, with raw fields, or a fixed set of N."


@command("Start here")
def advise(
    feedback: Annotated[str | None, option("--feedback -f NAME", f"Feedback: {', '.join(FEEDBACK_TEXTS)}.")] = None,
    items: Annotated[str | None, option("--items features|fields|fixed|N", ITEMS_HELP)] = None,
    measure: Annotated[str | None, option("--measure -m NAME", "Check that this measure can be learned.")] = None,
    depth: Annotated[int | None, option("--depth K", "Top items whose grades come back. Default: 1.")] = None,
    max_grade: MaxGrade = 1,
    as_json: AsJson = False,
) -> None:
    """Recommend a learner for your feedback, with the reason and a first program.

    Without options, print all recommendations. With --measure, say if and how fast it can be learned.
    """
    if (feedback, items, measure, depth) == (None, None, None, None):
        lines = [
            f"{f'--feedback {row.feedback} --items {row.items}':<38}  "
            f"{FEEDBACK_TEXTS[row.feedback]}, {ITEM_TEXTS[row.items]}: {row.use}"
            for row in table()
            if not row.when
        ]
        show(as_json, [row.as_table() for row in table()], [*lines, MORE_HINT])
        return
    n_items = int(items) if items is not None and items.isdecimal() else None
    if n_items is not None and n_items < 1:
        raise InvalidInput(f"--items {items}: a fixed set has at least 1 item")
    _check_depth(depth, n_items or (DEFAULT_N_ITEMS if measure is not None else None))
    if measure is not None:
        if feedback not in (None, "grades", "top_grades"):
            works = f"--measure works with the feedback grades or top_grades, not with {feedback}"
            raise InvalidInput(f"{works}: leave one of them out")
        if items is not None and n_items is None:
            raise InvalidInput(f"--measure needs a fixed set of items: give --items a number instead of {items!r}")
        from rankloop.games import advise as advised

        shown_depth = depth if depth is not None or feedback == "grades" else 1
        advice = advised(measure, n_items or DEFAULT_N_ITEMS, shown_depth, max_grade)
        program = start_of_advice(advice)
        answer = {name: getattr(advice, name) for name in ("answer", "speed", "recommendation", "learner")}
        answer |= {"start": program, "analysis": advice.analysis.as_table()}
        show(as_json, answer, [*advice.lines, *([] if program is None else [f"\n{indent(program, '    ')}"])])
        return
    if depth is not None and depth < 1:
        raise InvalidInput(f"--depth {depth}: give 1 (the first item) or more")
    size = ProblemSize(n_items, 1 if depth is None else depth, max_grade)
    first, *others = choices(feedback or "top_grades", "fixed" if n_items else items)
    lines = [f"Use {first.use}: {first.why}.\n\n{indent(first.start(size), '    ')}"]
    lines += ["\nOtherwise"] if others else []
    lines += [f"  {row.when}: {row.use}; {row.why}" for row in others]
    if (first.feedback, first.items) == ("top_grades", "fixed"):
        check = "rankloop advise --measure nDCG --items 10"
        lines.append(f"\nTo check if a measure can be learned from these grades: {check}")
    show(as_json, first.as_table(size) | {"otherwise": [row.as_table(size) for row in others]}, lines)


@command("Experiments")
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
            _check_depth(depth, items)
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


def _check_depth(depth: int | None, n_items: int | None) -> None:
    """Raise if --depth asks for more grades than there are items."""
    if depth is not None and n_items is not None and depth > n_items >= 1:
        raise InvalidInput(f"--depth {depth} is larger than the number of items: give at most {n_items}")
