"""The choice of an estimator for a log: by examination where clicks tell it, else by propensities."""

from typing import get_args

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Clicks
from rankloop.evaluation.off_policy.estimators import Method
from rankloop.evaluation.off_policy.ranking_log import BY_POSITION
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog

AUTO_ESTIMATOR = "auto"
EXAMINATION_ESTIMATOR = "examination"
PROPENSITY_ESTIMATOR = "snips"  # the usual estimator by propensities
ESTIMATOR_NAMES = (*get_args(Method), *BY_POSITION, EXAMINATION_ESTIMATOR)


def check_estimator(estimator: str) -> None:
    """Raise `InvalidInput` if an estimator is neither "auto" nor known."""
    if estimator != AUTO_ESTIMATOR and estimator not in ESTIMATOR_NAMES:
        raise InvalidInput(f"estimator = {estimator!r} is not known{nearest(estimator, ESTIMATOR_NAMES)}")


def choose_estimator(estimator: str, log: ListLog | ChoiceLog) -> str:
    """Return the estimator that judges a log.

    Lists are judged by examination, which needs no propensities and answers for rankers without exploration. Single
    choices, and lists whose learner took other feedback than clicks, are judged by propensities.

    Args:
      estimator: The name of an estimator, which is taken, or "auto".
      log: The log.
    """
    if estimator != AUTO_ESTIMATOR:
        return estimator
    if isinstance(log, ChoiceLog):
        return PROPENSITY_ESTIMATOR
    first = None if log.rankings is None else next(log.rankings(), None)
    is_of_clicks = first is None or Clicks in first.drawn_by.learner.accepts
    return EXAMINATION_ESTIMATOR if is_of_clicks else PROPENSITY_ESTIMATOR
