"""The choice of the estimator that judges a log, and of the options that it takes."""

from collections.abc import Mapping
from typing import Any, get_args

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Clicks
from rankloop.evaluation.list_evaluation import ListOptions
from rankloop.evaluation.off_policy.estimators import Method, Options
from rankloop.evaluation.off_policy.ranking_log import BY_POSITION
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog

AUTO_ESTIMATOR = "auto"
EXAMINATION_ESTIMATOR = "examination"  # of `evaluation.list_evaluation`, without propensities
PROPENSITY_ESTIMATOR = "snips"  # the usual one by propensities
ESTIMATOR_NAMES = (*get_args(Method), *BY_POSITION, EXAMINATION_ESTIMATOR)
OPTION_NAMES = tuple(dict.fromkeys((*Options._fields, *ListOptions._fields)))


def check_choice(estimator: str, options: Mapping[str, Any]) -> None:
    """Raise if the names are unknown.

    Args:
      estimator: The name of an estimator, or "auto".
      options: Options by name.
    """
    if estimator != AUTO_ESTIMATOR and estimator not in ESTIMATOR_NAMES:
        raise InvalidInput(f"estimator = {estimator!r} is not known{nearest(estimator, ESTIMATOR_NAMES)}")
    unknown = next((name for name in options if name not in OPTION_NAMES), None)
    if unknown is not None:
        raise InvalidInput(f"{unknown!r} is no option{nearest(unknown, OPTION_NAMES)}")


def choose_estimator(log: ListLog | ChoiceLog, estimator: str = AUTO_ESTIMATOR) -> str:
    """Return the estimator that judges a log: the one that is named, or the usual one for the log.

    Lists are judged by examination, which needs no propensities and answers for rankers without exploration. Single
    choices, and lists whose learner took other feedback than clicks, are judged by propensities.

    Args:
      log: The log.
      estimator: Its name, or "auto".
    """
    if estimator != AUTO_ESTIMATOR:
        return estimator
    if isinstance(log, ChoiceLog):
        return PROPENSITY_ESTIMATOR
    first = None if log.rankings is None else next(log.rankings(), None)
    is_of_clicks = first is None or Clicks in first.drawn_by.learner.accepts
    return EXAMINATION_ESTIMATOR if is_of_clicks else PROPENSITY_ESTIMATOR
