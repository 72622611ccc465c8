"""Scores of rankings by measures (`ranking`), and estimates from logs of what rankers and policies would earn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankloop.evaluation.off_policy.estimators import Estimate, Options, doubly_robust, estimate, ips, snips
from rankloop.evaluation.off_policy.ranking_log import (
    RankingPolicy,
    position_probabilities,
    prefix_probabilities,
    session_rows,
    shown_parts,
)
from rankloop.evaluation.off_policy.running_sums import Overlap
from rankloop.evaluation.off_policy.slates import pseudo_inverse, slate_weight
from rankloop.evaluation.ranking.score import Scores, score_model, score_rankings, score_session
from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run
from rankloop.evaluation.report import Report, verdict
from rankloop.logs.choice_log import ChoiceLog, ChoiceRows, rows_of

if TYPE_CHECKING:
    from rankloop.evaluation.list_estimate import ListEstimate
    from rankloop.evaluation.list_evaluation import ListOptions, evaluate_pages
    from rankloop.evaluation.list_pages import ShownPage
    from rankloop.evaluation.log_evaluation import Evaluation, evaluate
    from rankloop.evaluation.propensity_evaluation import evaluate_policies

__all__ = ["ChoiceLog", "ChoiceRows", "Estimate", "Evaluation", "ListEstimate", "ListOptions", "Options", "Overlap"]
__all__ += ["RankingPolicy", "Report", "Scores", "ShownPage"]
__all__ += ["doubly_robust", "estimate", "evaluate", "evaluate_pages", "evaluate_policies", "ips"]
__all__ += ["position_probabilities", "prefix_probabilities", "pseudo_inverse", "read_qrels"]
__all__ += ["read_run", "rows_of", "score_model", "score_rankings", "score_run", "score_session"]
__all__ += ["session_rows", "shown_parts", "slate_weight", "snips", "verdict"]

# Imported when first used: a service that only ranks needs none of it, nor scipy's optimisers.
_LATER = ("list_evaluation", "list_pages", "log_evaluation", "propensity_evaluation")


def __getattr__(name: str) -> Any:
    if name in __all__:
        modules = (import_module(f"rankloop.evaluation.{module}") for module in _LATER)
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'rankloop.evaluation' has no attribute {name!r}")
