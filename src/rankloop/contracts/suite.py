"""Every contract of a learner, one after another: what `rankloop check-learner` runs."""

import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from rankloop.contracts import learn_contracts, rank_contracts, recipe_contracts
from rankloop.contracts.cases import Case, cases_of
from rankloop.contracts.contract import Broken, Contract, contract, contracts_of
from rankloop.contracts.process import Trial, try_apart
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import Entry, build, entries, entry_of
from rankloop.core.registry.specs import nearest
from rankloop.experiments.spec.plugins import Module, import_modules, modules_of

RECIPE_CONTRACTS = contracts_of(recipe_contracts)
LEARNER_CONTRACTS = (*contracts_of(rank_contracts), *contracts_of(learn_contracts))
WRAPPED_CONTRACTS = (
    learn_contracts.check_late_feedback,
    rank_contracts.check_log_prob,
    learn_contracts.check_replay,
    learn_contracts.check_state_form,
)


class ContractOutcome(NamedTuple):
    """What became of one contract; `fault` is None where it was kept."""

    name: str
    promise: str
    mend: str
    fault: str | None = None
    case: str = ""


class _Apart(NamedTuple):
    """A contract that is tried in a process of its own."""

    name: str
    promise: str
    mend: str
    trial: Trial
    interpreted: bool


APART = (
    _Apart(
        "forged_receipts",
        "A receipt that was tampered with is refused or harmless: no access past an array.",
        "check sizes and indices with `check_receipt` before a kernel reads them",
        "forged_receipts",
        True,
    ),
    _Apart(
        "hostile_states",
        "A saved state that was tampered with is refused or harmless: no crash, no endless loop.",
        "give the state a method `reachable(initial)` that says no to what indices and divisors cannot bear",
        "hostile_states",
        True,
    ),
    _Apart(
        "hostile_states_compiled",
        "The same with compiled kernels, which do not check what they read.",
        "give the state a method `reachable(initial)`, and end each loop after a number of steps that is known",
        "hostile_states",
        False,
    ),
)


@contract("name parameters to try it with (`examples: ClassVar`) or a problem that fits (`example_problem: ClassVar`)")
def check_cases(entry: Entry) -> None:
    """It can be built and tried, with its `examples` or without parameters, on some problem."""
    cases_of(entry.kind, entry.cls)


def names() -> tuple[str, ...]:
    """The names of all contracts, in the order in which they are tried."""
    found = [check_cases.name, *(one.name for one in (*RECIPE_CONTRACTS, *LEARNER_CONTRACTS))]
    return (*found, *(_name_when_wrapped(one) for one in WRAPPED_CONTRACTS), *(one.name for one in APART))


def check_names(names_of_contracts: Iterable[str]) -> None:
    """Raise `InvalidInput` for a name that no contract has."""
    for name in names_of_contracts:
        if name not in names():
            raise InvalidInput(f"there is no contract {name!r}{nearest(name, names())}")


def learners_of(target: str) -> list[Entry]:
    """Return the registered learners of a .py file or a module, one of its classes, or the one of this kind.

    Args:
      target: A kind, `FILE.py`, a module, or either of these with `:Class`; the file or module is imported.

    Raises:
      NotFound: If there is no such kind, module or class.
      InvalidInput: If it registers no learner.
    """
    of_kind = [entry for entry in entries("learner") if entry.kind == target]
    if of_kind:
        return of_kind
    source, _, name = target.rpartition(":") if ":" in target[2:] else (target, "", "")
    try:
        import_modules([source])
    except NotFound as error:
        raise NotFound(f"{error}{nearest(target, [entry.kind for entry in entries('learner')])}") from None
    (module,) = modules_of([source])
    of_module = [entry for entry in entries("learner") if entry.cls.__module__ == module.name]
    learners = [entry for entry in of_module if name in ("", entry.cls.__name__)]
    if not learners and name and not hasattr(sys.modules[module.name], name):
        raise NotFound(f"{source} has no class {name!r}")
    if not learners:
        raise InvalidInput(f'{target} registers no learner: write @register("a_name") above its class')
    return learners


def check_learner(cls: type) -> None:
    """Raise `Broken` for the first contract that a registered class breaks: a test of your learner in one line."""
    for outcome in outcomes(entry_of(cls)):
        if outcome.fault is not None:
            raise Broken(f"{outcome.name}: {outcome.fault}; to mend it, {outcome.mend}")


def outcomes(entry: Entry, only: Collection[str] = ()) -> Iterator[ContractOutcome]:
    """Try every contract, or `only` those of some names; where it cannot be built, the first alone."""
    chosen = set(only or names())
    first = outcome_of(check_cases, entry)
    if first.fault is not None or first.name in chosen:
        yield first
    if first.fault is not None:
        return
    for one in (*RECIPE_CONTRACTS, *LEARNER_CONTRACTS):
        if one.name in chosen:
            yield outcome_of(one, entry)
    for one in WRAPPED_CONTRACTS:
        if _name_when_wrapped(one) in chosen:
            yield _outcome(one, [_wrapped(cases_of(entry.kind, entry.cls)[0])], _name_when_wrapped(one))
    for apart in APART:
        if apart.name in chosen:
            yield _outcome_apart(apart, entry)


def outcome_of(one: Contract, entry: Entry) -> ContractOutcome:
    """Try a contract on every case of a learner, or on its recipes, until it is broken."""
    if one is check_cases:
        return _outcome(one, [("", entry)])
    cases = cases_of(entry.kind, entry.cls)
    if one in RECIPE_CONTRACTS:
        return _outcome(one, [(str(learner), learner) for learner in dict.fromkeys(case.learner for case in cases)])
    return _outcome(one, [(f"{case.learner} on {case.problem}", case) for case in cases])


def _outcome(one: Contract, subjects: Iterable[tuple[str, Any]], name: str | None = None) -> ContractOutcome:
    outcome = ContractOutcome(name or one.name, one.promise, one.mend)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # NumPy's: an overflow that nobody meant
        for told, subject in subjects:
            try:
                one(subject)
            except Exception as error:
                return outcome._replace(fault=_words(error), case=told)
    return outcome


def _outcome_apart(apart: _Apart, entry: Entry) -> ContractOutcome:
    outcome = ContractOutcome(apart.name, apart.promise, apart.mend)
    try:
        modules = _modules_of(entry.cls)
    except InvalidInput as error:
        return outcome._replace(fault=str(error))
    found = try_apart(apart.trial, [entry.kind], modules, apart.interpreted)
    return outcome._replace(fault=found.fault_of(entry.kind))


def _modules_of(cls: type) -> tuple[Module, ...]:
    """What another process has to import before it knows the class."""
    if cls.__module__.partition(".")[0] == "rankloop":
        return ()
    if cls.__module__ == "__main__":
        raise InvalidInput(f"another process cannot import {cls.__name__} of a program: put it into a file of its own")
    return modules_of([cls.__module__])


def _wrapped(case: Case) -> tuple[str, Case]:
    wrapped = build({"kind": "standardised", "inner": case.learner}, "learner")
    return f"{wrapped} on {case.problem}", case._replace(learner=wrapped)


def _name_when_wrapped(one: Contract) -> str:
    return f"{one.name}_in_a_wrapper"


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
