"""All the rules that every learner keeps."""

from collections.abc import Callable

from tests.contracts import learn_contracts, rank_contracts
from tests.contracts.cases import Case

LEARNER_CONTRACTS: list[Callable[[Case], None]] = [
    rule
    for module in (rank_contracts, learn_contracts)
    for name, rule in sorted(vars(module).items())
    if name.startswith("check_")
]
