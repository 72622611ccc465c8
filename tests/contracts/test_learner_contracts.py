"""Every registered learner keeps every contract; new ones are found by walking the registry."""

from collections.abc import Callable

import pytest
from tests.contracts.cases import Case, cases_of
from tests.contracts.learn_contracts import check_late_feedback, check_replay, check_state_form
from tests.contracts.learner_contracts import LEARNER_CONTRACTS
from tests.contracts.rank_contracts import check_log_prob

from rankloop.core.registry import Entry, build, entries

LEARNERS = entries("learner")


@pytest.mark.parametrize("contract", LEARNER_CONTRACTS, ids=lambda contract: contract.__name__)
@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_learner(entry: Entry, contract: Callable[[Case], None]):
    for case in cases_of(entry.kind, entry.cls):
        try:
            contract(case)
        except Exception as error:
            error.add_note(f"the case is {case.learner} on {case.problem}")
            raise


@pytest.mark.parametrize("contract", [check_late_feedback, check_log_prob, check_replay, check_state_form])
@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.kind)
def test_learner_inside_a_wrapper(entry: Entry, contract: Callable[[Case], None]):
    case = cases_of(entry.kind, entry.cls)[0]
    contract(case._replace(learner=build({"kind": "standardised", "inner": case.learner})))
