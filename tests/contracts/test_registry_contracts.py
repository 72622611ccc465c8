"""What holds for everything registered, whatever its category."""

import pytest

from rankloop.contracts.cases import Contract
from rankloop.contracts.suite import RECIPE_CONTRACTS
from rankloop.core.registry import Entry, entries
from tests.contracts.examples import examples_of


@pytest.mark.parametrize("contract", RECIPE_CONTRACTS, ids=lambda contract: contract.name)
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.category}-{entry.kind}")
def test_everything_registered(entry: Entry, contract: Contract):
    for thing in examples_of(entry.cls):
        contract.check(thing)
