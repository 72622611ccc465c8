"""All contracts of a learner, one after another, as `rankloop check-learner` runs them."""

import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from rankloop.contracts import learn_contracts, rank_contracts, recipe_contracts, robust_contracts
from rankloop.contracts.cases import Contract, ContractViolation, cases_of, contract, contracts_of, require
from rankloop.contracts.process import Trial, run_isolated
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import Entry, build, entries, entry_of
from rankloop.core.registry.specs import nearest
from rankloop.experiments.spec.plugins import import_modules, modules_of, place_of

RECIPE_CONTRACTS = contracts_of(recipe_contracts)
LEARNER_CONTRACTS = tuple(
    entry for module in (rank_contracts, learn_contracts, robust_contracts) for entry in contracts_of(module)
)
WRAPPED_CONTRACTS = (
    learn_contracts.check_late_feedback,
    rank_contracts.check_log_prob,
    learn_contracts.check_replay,
    learn_contracts.check_state_form,
)
Subjects = Iterable[tuple[str, Any]]  # what a contract is tried on, each with a description


class ContractOutcome(NamedTuple):
    """The outcome of one contract."""

    name: str
    promise: str
    fix: str
    failure: str | None = None  # what the learner did instead; None if it keeps the contract
    case: str = ""  # the parameters and the problem with which it failed


@contract("check sizes and indices with `check_receipt` before a kernel reads them")
def check_forged_receipts(entry: Entry) -> None:
    """A receipt that was tampered with is refused or harmless: no access past an array."""
    _require_isolated("forged_receipts", entry)


@contract("give the state a method `reachable(initial)` that refuses bad indices and divisors")
def check_hostile_states(entry: Entry) -> None:
    """A saved state that was tampered with is refused or harmless: no crash, no endless loop."""
    _require_isolated("hostile_states", entry)


@contract("give the state a method `reachable(initial)`, and end each loop after a known number of steps")
def check_hostile_states_compiled(entry: Entry) -> None:
    """Compiled kernels, which do not check the bounds of arrays, are safe with such states too."""
    _require_isolated("hostile_states", entry, interpreted=False)


ISOLATED_CONTRACTS = (check_forged_receipts, check_hostile_states, check_hostile_states_compiled)


def _require_isolated(trial: Trial, entry: Entry, interpreted: bool = True) -> None:
    """Try a learner in another process, by interpreted or by compiled kernels."""
    module, name = entry.cls.__module__, entry.cls.__name__
    require(module != "__main__", f"another process cannot import {name} of a program: put it into its own file")
    modules = () if module.partition(".")[0] == "rankloop" else modules_of([module])
    failure = run_isolated(trial, [entry.kind], modules, interpreted).failure_of(entry.kind)
    require(failure is None, str(failure))


@contract("declare parameters to try (`examples: ClassVar`) or a problem that fits (`example_problem: ClassVar`)")
def check_cases(entry: Entry) -> None:
    """It can be built with its `examples` or without parameters, and accepts some problem."""
    cases_of(entry)


def _class(entry: Entry) -> Subjects:
    return [("", entry)]


def _recipes(entry: Entry) -> Subjects:
    return [(str(learner), learner) for learner in dict.fromkeys(case.learner for case in cases_of(entry))]


def _cases(entry: Entry) -> Subjects:
    return [(f"{case.learner} on {case.problem}", case) for case in cases_of(entry)]


def _wrapped_case(entry: Entry) -> Subjects:
    case = cases_of(entry)[0]
    wrapped = build({"kind": "standardised", "inner": case.learner}, "learner")
    return [(f"{wrapped} on {case.problem}", case._replace(learner=wrapped))]


# The contracts by name, in the order in which they are tried, with what each is tried on.
TRIALS: dict[str, tuple[Contract, Callable[[Entry], Subjects]]] = {
    check_cases.name: (check_cases, _class),
    **{checked.name: (checked, _recipes) for checked in RECIPE_CONTRACTS},
    **{checked.name: (checked, _cases) for checked in LEARNER_CONTRACTS},
    **{f"{checked.name}_in_a_wrapper": (checked, _wrapped_case) for checked in WRAPPED_CONTRACTS},
    **{checked.name: (checked, _class) for checked in ISOLATED_CONTRACTS},
}


def check_names(names_of_contracts: Iterable[str]) -> None:
    """Raise `InvalidInput` for a name that no contract has."""
    for name in names_of_contracts:
        if name not in TRIALS:
            raise InvalidInput(f"there is no contract {name!r}{nearest(name, tuple(TRIALS))}")


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
    """Raise `ContractViolation` for the first contract that a registered class fails: a test in one line."""
    for outcome in outcomes(entry_of(cls)):
        if outcome.failure is not None:
            raise ContractViolation(f"{outcome.name}: {outcome.failure}; to fix it, {outcome.fix}")


def outcomes(entry: Entry, only: Collection[str] = ()) -> Iterator[ContractOutcome]:
    """Yield the outcome of each contract as soon as it was tried; if the learner cannot be built, only the first.

    Args:
      entry: The registered learner.
      only: The names of contracts to try; all if empty.
    """
    can_be_built = _outcome_of(check_cases.name, entry)
    if can_be_built.failure is not None:
        yield can_be_built
        return
    for name in TRIALS:
        if not only or name in only:
            yield can_be_built if name == check_cases.name else _outcome_of(name, entry)


def _outcome_of(name: str, entry: Entry) -> ContractOutcome:
    """Try a contract on every case of a learner, on its recipes or on its class, until it fails."""
    checked, subjects_of = TRIALS[name]
    outcome = ContractOutcome(name, checked.promise, checked.fix)
    subjects = subjects_of(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # NumPy warns of an unintended overflow.
        for description, subject in subjects:
            try:
                checked.check(subject)
            except Exception as error:
                text = " ".join(str(error).split())
                if not isinstance(error, AssertionError):
                    text = f"{type(error).__name__}: {text}{place_of(error)}"
                return outcome._replace(failure=text, case=description)
    return outcome
