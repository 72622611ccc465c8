"""The contracts have teeth: an honest learner keeps them all, and each way of breaking one is caught by it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.contracts import ContractViolation, check_learner, outcomes
from rankloop.contracts import learn_contracts as learning
from rankloop.contracts import recipe_contracts as recipes
from rankloop.contracts.cases import Contract, cases_of
from rankloop.contracts.process import run_isolated
from rankloop.contracts.suite import (
    ISOLATED_CONTRACTS,
    LEARNER_CONTRACTS,
    RECIPE_CONTRACTS,
    TRIALS,
    WRAPPED_CONTRACTS,
    _outcome_of,
    check_cases,
)
from rankloop.core.registry import entry_of, register
from rankloop.experiments.spec.plugins import Module
from tests.contracts.mutants import MUTANTS, HasNoExample, Honest
from tests.registry_entries import unregister

UNSAFE = Module("unsafe_learners", str(Path(__file__).parent / "samples"))


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    for cls in (Honest, *MUTANTS):
        register(cls.__name__)(cls)
    yield
    for cls in (Honest, *MUTANTS):
        unregister(cls.__name__, "learner")


@pytest.mark.parametrize("contract", LEARNER_CONTRACTS, ids=lambda contract: contract.name)
def test_the_honest_learner_keeps(contract: Contract):
    for case in cases_of(entry_of(Honest)):
        contract.check(case)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("mutant", "contract"), MUTANTS.items(), ids=lambda part: getattr(part, "__name__", part))
def test_caught(mutant: type, contract: Contract):
    outcome = _outcome_of(contract.name, entry_of(mutant))
    assert outcome.failure, f"{contract.name} lets {mutant.__name__} pass"
    assert outcome.fix


def test_every_contract_catches_someone():
    of_others = {learning.check_foreign_feedback, recipes.check_keywords}  # the work of the session and the registry
    assert {check_cases, *RECIPE_CONTRACTS, *LEARNER_CONTRACTS} == {*of_others, *MUTANTS.values()}
    assert set(WRAPPED_CONTRACTS) < set(MUTANTS.values())


@pytest.mark.parametrize(
    ("trial", "interpreted"), [("forged_receipts", True), ("hostile_states", True), ("hostile_states", False)]
)
def test_caught_in_a_process_of_its_own(trial, interpreted):
    kinds = ["careful", "trusting_receipts", "trusting_states", "crashing"]
    found = run_isolated(trial, kinds, [UNSAFE], interpreted)
    trusting = "trusting_receipts" if trial == "forged_receipts" else "trusting_states"
    assert found.failure_of("careful") is None
    assert "IndexError" in str(found.failure_of(trusting))
    if trial == "hostile_states":
        assert "the process ended with" in str(found.failure_of("crashing"))


def test_the_first_broken_contract_is_raised_with_how_to_fix_it():
    check = check_cases.name
    with pytest.raises(
        ContractViolation, match=rf"^{check}: HasNoExample cannot be built .*; to fix it, declare parameters"
    ):
        check_learner(HasNoExample)


def test_an_error_of_the_learner_is_reported_with_its_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Honest, "predict", lambda self, state, query: 1 // 0)
    failure = _outcome_of("rankings", entry_of(Honest)).failure
    assert re.fullmatch(r"ZeroDivisionError: .* \(test_mutants\.py, line \d+\)", str(failure))


def test_a_class_of_a_program_is_told_to_move(monkeypatch: pytest.MonkeyPatch):
    cases_of(entry_of(Honest))  # its annotations are read now: `__main__` could not explain them
    monkeypatch.setattr(Honest, "__module__", "__main__")
    faults = [
        outcome.failure
        for outcome in outcomes(entry_of(Honest))
        if outcome.name in {one.name for one in ISOLATED_CONTRACTS}
    ]
    assert len(faults) == len(ISOLATED_CONTRACTS)
    assert all("put it into its own file" in str(fault) for fault in faults)


def test_contracts_have_names_of_their_own():
    contracts = (check_cases, *RECIPE_CONTRACTS, *LEARNER_CONTRACTS, *ISOLATED_CONTRACTS)
    assert len(TRIALS) == len(contracts) + len(WRAPPED_CONTRACTS)
    for contract in (check_cases, *RECIPE_CONTRACTS, *LEARNER_CONTRACTS):
        assert contract.promise.endswith("."), contract.name
