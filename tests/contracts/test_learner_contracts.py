"""Every registered learner keeps every contract; new ones are found by walking the registry."""

import pytest

from rankloop.contracts.cases import Contract, cases_of
from rankloop.contracts.suite import LEARNER_CONTRACTS, WRAPPED_CONTRACTS
from rankloop.core.registry import Entry, build, entries

LEARNERS = entries("learner")


@pytest.mark.parametrize("contract", LEARNER_CONTRACTS, ids=lambda contract: contract.name)
@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_learner(entry: Entry, contract: Contract):
    for case in cases_of(entry):
        try:
            contract.check(case)
        except Exception as error:
            error.add_note(f"the case is {case.learner} on {case.problem}")
            raise


@pytest.mark.parametrize("contract", WRAPPED_CONTRACTS, ids=lambda contract: contract.name)
@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_learner_inside_a_wrapper(entry: Entry, contract: Contract):
    case = cases_of(entry)[0]
    contract.check(case._replace(learner=build({"kind": "standardised", "inner": case.learner})))
