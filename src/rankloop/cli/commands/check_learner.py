"""`rankloop check-learner`: test a learner against the contracts of all learners."""

import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, argument, interruptible, option
from rankloop.cli.output import print_json

if TYPE_CHECKING:
    from rankloop.contracts import ContractOutcome
    from rankloop.core.registry import Entry


@command("Experiments")
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
    report = None if as_json else sys.stdout
    with interruptible("nothing was changed"), redirect_stdout(sys.stderr):  # for what a learner prints
        tables = [_check(entry, outcomes(entry, only or ()), report) for entry in learners_of(target)]
    if as_json:
        print_json(tables)
    if not all(table["kept"] for table in tables):
        raise typer.Exit(1)


def _check(entry: "Entry", outcomes: Iterator["ContractOutcome"], report: TextIO | None) -> dict[str, Any]:
    """Test the contracts of a learner and print each result as soon as it is there."""

    def say(text: str) -> None:
        if report is not None:
            typer.echo(text, file=report)

    say(f"{entry.kind} ({entry.cls.__module__}:{entry.cls.__qualname__})")
    started, results = time.monotonic(), []
    for outcome in outcomes:
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
