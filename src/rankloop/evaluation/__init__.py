"""How good rankings and policies are: by measures (`ranking`), and by what a log says of them (`off_policy`)."""

from rankloop.evaluation.off_policy.estimators import (
    Estimate,
    Options,
    clipped_ips,
    direct_method,
    doubly_robust,
    estimate,
    ips,
    snips,
    switch_dr,
)
from rankloop.evaluation.off_policy.evaluate import (
    evaluate_on_impressions,
    evaluate_on_lists,
    evaluate_on_rankings,
    evaluate_target,
)
from rankloop.evaluation.off_policy.overlap import Overlap
from rankloop.evaluation.off_policy.propensities import (
    RankingPolicy,
    position_probabilities,
    prefix_probabilities,
    session_rows,
    shown_parts,
)
from rankloop.evaluation.off_policy.slates import (
    cascade_ips,
    factored_slate_weight,
    position_wise,
    pseudo_inverse,
    slate_weight,
    whole_ranking,
)
from rankloop.evaluation.ranking.saved_model import score_model
from rankloop.evaluation.ranking.score import Scores, score_rankings, score_scores, score_session
from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run
from rankloop.evaluation.report import Report, verdicts
from rankloop.logs.columns import Columns
from rankloop.logs.rows import Rows, rows_of
from rankloop.logs.table import LogTable

__all__ = ["Columns", "Estimate", "LogTable", "Options", "Overlap", "RankingPolicy", "Report", "Rows", "Scores"]
__all__ += ["cascade_ips", "clipped_ips", "direct_method", "doubly_robust", "estimate", "evaluate_on_impressions"]
__all__ += [
    "evaluate_on_lists",
    "evaluate_on_rankings",
    "evaluate_target",
    "factored_slate_weight",
    "ips",
    "position_probabilities",
]
__all__ += ["position_wise", "prefix_probabilities", "pseudo_inverse", "read_qrels", "read_run", "rows_of"]
__all__ += ["score_model", "score_rankings", "score_run", "score_scores", "score_session", "session_rows"]
__all__ += ["shown_parts", "slate_weight", "snips", "switch_dr", "verdicts", "whole_ranking"]
