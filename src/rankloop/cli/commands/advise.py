"""`rankloop advise`: choose a learner for the feedback at hand, and check that it can learn."""

from textwrap import indent
from typing import Annotated

from rankloop.advice import FEEDBACK_TEXTS, ITEM_TEXTS, Choice, ProblemSize, choices, start_of_advice, table
from rankloop.cli.app import command
from rankloop.cli.commands.analyse import MaxGrade, check_depth
from rankloop.cli.options import AsJson, option
from rankloop.cli.output import show
from rankloop.core.errors import InvalidInput

DEFAULT_N_ITEMS = 4  # of a fixed set whose size is not an option
MORE_HINT = (
    "\nFor the reason, a first program and alternatives add the options of a line: "
    "rankloop advise --feedback clicks --items features"
)
ITEMS_HELP = "Items with numbers, with raw fields, or a fixed set of N."


@command(
    "Start here",
    "rankloop advise",
    "rankloop advise --feedback clicks --items features",
    "rankloop advise --measure nDCG --depth 1 --items 10",
)
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
    check_depth(depth, n_items or (DEFAULT_N_ITEMS if measure is not None else None))
    if measure is not None:
        if feedback not in (None, "grades", "top_grades"):
            works = f"--measure works with the feedback grades or top_grades, not with {feedback}"
            raise InvalidInput(f"{works}: leave one of them out")
        if items is not None and n_items is None:
            raise InvalidInput(f"--measure needs a fixed set of items: give --items a number instead of {items!r}")
        shown_depth = depth if depth is not None or feedback == "grades" else 1
        _judge(measure, n_items or DEFAULT_N_ITEMS, shown_depth, max_grade, as_json)
        return
    if depth is not None and depth < 1:
        raise InvalidInput(f"--depth {depth}: give 1 (the first item) or more")
    size = ProblemSize(n_items, 1 if depth is None else depth, max_grade)
    _choose(choices(feedback or "top_grades", "fixed" if n_items else items), size, as_json)


def _choose(rows: tuple[Choice, ...], size: ProblemSize, as_json: bool) -> None:
    first, *others = rows
    lines = [f"Use {first.use}: {first.why}.\n\n{indent(first.start(size), '    ')}"]
    lines += ["\nOtherwise"] if others else []
    lines += [f"  {row.when}: {row.use}; {row.why}" for row in others]
    if (first.feedback, first.items) == ("top_grades", "fixed"):
        check = "rankloop advise --measure nDCG --items 10"
        lines.append(f"\nTo check if a measure can be learned from these grades: {check}")
    show(as_json, first.as_table(size) | {"otherwise": [row.as_table(size) for row in others]}, lines)


def _judge(measure: str, n_items: int, depth: int | None, max_grade: int, as_json: bool) -> None:
    from rankloop.games import advise as advised

    advice = advised(measure, n_items, depth, max_grade)
    program = start_of_advice(advice)
    answer = {name: getattr(advice, name) for name in ("answer", "speed", "recommendation", "learner")}
    answer |= {"start": program, "analysis": advice.analysis.as_table()}
    show(as_json, answer, [*advice.lines, *([] if program is None else [f"\n{indent(program, '    ')}"])])
