"""The contracts have teeth: an honest learner keeps them all, and each way of breaking one is caught by it."""

from collections.abc import Callable, Iterator

import pytest
from tests.contracts import learn_contracts as learning
from tests.contracts.cases import Case, cases_of
from tests.contracts.learner_contracts import LEARNER_CONTRACTS
from tests.contracts.mutants import MUTANTS, Honest

from rankloop.core.registry import register, unregister


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    for cls in (Honest, *MUTANTS):
        register(cls.__name__)(cls)
    yield
    for cls in (Honest, *MUTANTS):
        unregister(cls.__name__, "learner")


@pytest.mark.parametrize("contract", LEARNER_CONTRACTS, ids=lambda contract: contract.__name__)
def test_the_honest_learner_keeps(contract: Callable[[Case], None]):
    for case in cases_of("Honest", Honest):
        contract(case)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("mutant", "contract"), MUTANTS.items(), ids=lambda part: part.__name__)
def test_caught(mutant: type, contract: Callable[[Case], None]):
    caught = []
    for case in cases_of(mutant.__name__, mutant):
        try:
            contract(case)
        except Exception as error:
            caught.append(error)
    assert caught, f"{contract.__name__} lets {mutant.__name__} pass"


def test_every_contract_catches_someone():
    by_session = learning.check_foreign_feedback  # what it checks is the session's work, not the learner's
    assert set(LEARNER_CONTRACTS) == {by_session, *MUTANTS.values()}
