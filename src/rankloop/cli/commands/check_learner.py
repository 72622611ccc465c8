"""`rankloop check-learner`: test a learner against the contracts of all learners."""

import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, interruptible, option
from rankloop.cli.output import print_json

if TYPE_CHECKING:
    from rankloop.contracts import ContractOutcome
    from rankloop.core.registry import Entry


@command(
    "Experiments",
    "rankloop check-learner mean_grade.py",
    "rankloop check-learner my_package.learners:MeanGrade --json",
    "rankloop check-learner mean_grade.py --contract purity",
)
def check_learner(
    target: Annotated[str, argument("LEARNER", "FILE.py, a module, FILE.py:Class, or a registered kind.")],
    only: Annotated[list[str] | None, option("--contract NAME", "Test only this contract. Repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Test a learner against every contract, and say how to fix what fails.

    The file is imported, in this and in other processes. Exit code 1 if a contract fails.
    """
    from rankloop.contracts import outcomes
    from rankloop.contracts.suite import check_names, learners_of

    check_names(only or ())
    with interruptible("nothing was changed"):
        with redirect_stdout(sys.stderr):
            learners = learners_of(target)
        tables = [_check(entry, outcomes(entry, only or ()), as_json) for entry in learners]
    if as_json:
        print_json(tables)
    if not all(table["kept"] for table in tables):
        raise typer.Exit(1)


def _check(entry: "Entry", outcomes: Iterator["ContractOutcome"], as_json: bool) -> dict[str, Any]:
    """Test the contracts of a learner and print each result as soon as it is there."""

    def say(text: str) -> None:
        if not as_json:
            typer.echo(text)

    say(f"{entry.kind} ({entry.cls.__module__}:{entry.cls.__qualname__})")
    started, results = time.monotonic(), []
    while outcome := _next_without_prints(outcomes):
        results.append(outcome)
        line = f"{outcome.name:<26}  {outcome.promise}"
        if outcome.failure is None:
            say(f"  {typer.style('ok', fg='green')}      {line}")
            continue
        say(f"  {typer.style('FAILED', fg='red')}  {line}")
        case = f" (with {outcome.case})" if outcome.case else ""
        say(f"          {outcome.failure}{case}\n          to fix it: {outcome.fix}")
    failures = sum(outcome.failure is not None for outcome in results)
    verdict = f"fails {failures} of {len(results)} contracts" if failures else f"keeps all {len(results)} contracts"
    say(f"{entry.kind} {verdict} ({time.monotonic() - started:.0f} s)")
    return {"kind": entry.kind, "kept": not failures, "contracts": [outcome._asdict() for outcome in results]}


def _next_without_prints(outcomes: Iterator["ContractOutcome"]) -> "ContractOutcome | None":
    """Test the next contract; the prints of the learner go to standard error."""
    with redirect_stdout(sys.stderr):
        return next(outcomes, None)
