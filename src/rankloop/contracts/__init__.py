"""The contracts that every learner keeps, inside the package and outside: `rankloop check-learner`, `check_learner`."""

from rankloop.contracts.contract import Broken
from rankloop.contracts.suite import ContractOutcome, check_learner, learners_of, outcomes

__all__ = ["Broken", "ContractOutcome", "check_learner", "learners_of", "outcomes"]
