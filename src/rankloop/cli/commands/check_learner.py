"""`rankloop check-learner`: test a learner against the contracts of all learners."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, interruptible, option
from rankloop.cli.output import print_json

if TYPE_CHECKING:
    from rankloop.contracts import ContractOutcome
    from rankloop.core.registry import Entry

T = TypeVar("T")


@command(
    "Experiments",
    "rankloop check-learner mean_grade.py",
    "rankloop check-learner my_package.learners:MeanGrade --json",
    "rankloop check-learner mean_grade.py --contract purity",
    name="check-learner",
)
def check_learner(
    target: Annotated[str, argument("LEARNER", "FILE.py, a module, FILE.py:Class, or a registered kind.")],
    only: Annotated[list[str] | None, option("--contract", "NAME", "Test only this contract. Repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Test a learner against every contract, and say how to fix what fails.

    The file is imported, in this and in other processes. Exit code 1 if a contract fails.
    """
    from rankloop.contracts import outcomes
    from rankloop.contracts.suite import check_names, learners_of

    check_names(only or ())
    with interruptible("nothing was changed"):
        learners = _without_prints(partial(learners_of, target))
        tables = [_check(entry, outcomes(entry, only or ()), as_json) for entry in learners]
    if as_json:
        print_json(tables)
    if not all(table["kept"] for table in tables):
        raise typer.Exit(1)


def _check(entry: "Entry", outcomes: Iterator["ContractOutcome"], as_json: bool) -> dict[str, Any]:
    """Test the contracts of a learner and print each result as soon as it is there."""
    say = _silent if as_json else typer.echo
    say(f"{entry.kind} ({entry.cls.__module__}:{entry.cls.__qualname__})")
    started, results = time.monotonic(), []
    while outcome := _without_prints(partial(next, outcomes, None)):
        results.append(outcome)
        say(_outcome_line(outcome))
    failures = sum(outcome.failure is not None for outcome in results)
    verdict = f"fails {failures} of {len(results)} contracts" if failures else f"keeps all {len(results)} contracts"
    say(f"{entry.kind} {verdict} ({time.monotonic() - started:.0f} s)")
    return {"kind": entry.kind, "kept": not failures, "contracts": [outcome._asdict() for outcome in results]}


def _outcome_line(outcome: "ContractOutcome") -> str:
    """Return one line for a contract that is kept; a failure with its case and how to fix it."""
    if outcome.failure is None:
        return f"  {typer.style('ok', fg='green')}      {outcome.name:<26}  {outcome.promise}"
    where = f" (with {outcome.case})" if outcome.case else ""
    return (
        f"  {typer.style('FAILED', fg='red')}  {outcome.name:<26}  {outcome.promise}\n"
        f"          {outcome.failure}{where}\n          to fix it: {outcome.fix}"
    )


def _without_prints(call: Callable[[], T]) -> T:
    """Call a function whose prints go to standard error."""
    with redirect_stdout(sys.stderr):
        return call()


def _silent(text: str) -> None:
    pass
