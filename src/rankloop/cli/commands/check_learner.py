"""`rankloop check-learner`: whether a learner of your own keeps the contracts."""

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
    target: Annotated[str, argument("LEARNER", "FILE.py or a module, all its learners or FILE.py:Class; or a kind.")],
    only: Annotated[list[str] | None, option("--contract", "NAME", "Try this contract alone. May be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Try whether a learner keeps every contract, and say how to fix what does not.

    The file stays where it is; it is imported, here and in other processes. The exit code is 1 if a contract fails.
    """
    from rankloop.contracts import outcomes
    from rankloop.contracts.suite import check_names, learners_of

    check_names(only or ())
    with interruptible("nothing was changed"):
        tables = [
            _checked(entry, outcomes(entry, only or ()), as_json)
            for entry in _without_prints(partial(learners_of, target))
        ]
    if as_json:
        print_json(tables)
    if not all(table["kept"] for table in tables):
        raise typer.Exit(1)


def _checked(entry: "Entry", outcomes: Iterator["ContractOutcome"], as_json: bool) -> dict[str, Any]:
    """The contracts of one learner, each shown as soon as it was tried."""
    say = _silent if as_json else typer.echo
    say(f"{entry.kind} ({entry.cls.__module__}:{entry.cls.__qualname__})")
    started, found = time.monotonic(), []
    while outcome := _without_prints(partial(next, outcomes, None)):
        found.append(outcome)
        say(_told(outcome))
    failures = sum(outcome.failure is not None for outcome in found)
    verdict = f"fails {failures} of {len(found)} contracts" if failures else f"keeps all {len(found)} contracts"
    say(f"{entry.kind} {verdict} ({time.monotonic() - started:.0f} s)")
    return {"kind": entry.kind, "kept": not failures, "contracts": [one._asdict() for one in found]}


def _told(outcome: "ContractOutcome") -> str:
    """Return one line for a contract that is kept; a failure with its case and how to fix it."""
    if outcome.failure is None:
        return f"  {typer.style('ok', fg='green')}      {outcome.name:<26}  {outcome.promise}"
    where = f" (with {outcome.case})" if outcome.case else ""
    return (
        f"  {typer.style('FAILED', fg='red')}  {outcome.name:<26}  {outcome.promise}\n"
        f"          {outcome.failure}{where}\n          to fix it: {outcome.fix}"
    )


def _without_prints(call: Callable[[], T]) -> T:
    """What a call returns; what it prints is not part of the answer."""
    with redirect_stdout(sys.stderr):
        return call()


def _silent(text: str) -> None:
    pass
