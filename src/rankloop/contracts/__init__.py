"""The contracts of learners, inside the package and outside: `rankloop check-learner` and `check_learner` test them."""

from rankloop.contracts.cases import ContractViolation
from rankloop.contracts.suite import ContractOutcome, check_learner, learners_of, outcomes

__all__ = ["ContractOutcome", "ContractViolation", "check_learner", "learners_of", "outcomes"]
