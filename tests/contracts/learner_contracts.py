"""All the rules that every learner keeps."""

from collections.abc import Callable

import learning_contracts
import showing_contracts
from cases import Case

LEARNER_CONTRACTS: list[Callable[[Case], None]] = [
    rule
    for module in (showing_contracts, learning_contracts)
    for name, rule in sorted(vars(module).items())
    if name.startswith("check_")
]
