"""Judging what was learned: scores of rankings, what a policy would earn, comparisons, stability."""

from rankloop.evaluation.off_policy.estimate import Estimate, Options
from rankloop.evaluation.off_policy.estimators import clipped, direct, doubly_robust, estimate, ips, snips, switch
from rankloop.evaluation.off_policy.overlap import Overlap
from rankloop.evaluation.off_policy.propensities import (
    RankingPolicy,
    position_probabilities,
    prefix_probabilities,
    session_rows,
    shown_parts,
)
from rankloop.evaluation.off_policy.slates import (
    cascade,
    factored_slate_weight,
    position_wise,
    pseudo_inverse,
    slate_weight,
    whole_ranking,
)
from rankloop.evaluation.ranking.score import Scores, score_rankings, score_scores, score_session
from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run
from rankloop.logs.columns import Columns
from rankloop.logs.rows import Rows, rows_of
from rankloop.logs.table import LogTable

__all__ = [
    "Columns",
    "Estimate",
    "LogTable",
    "Options",
    "Overlap",
    "RankingPolicy",
    "Rows",
    "Scores",
    "cascade",
    "clipped",
    "direct",
    "doubly_robust",
    "estimate",
    "factored_slate_weight",
    "ips",
    "position_probabilities",
    "position_wise",
    "prefix_probabilities",
    "pseudo_inverse",
    "read_qrels",
    "read_run",
    "rows_of",
    "score_rankings",
    "score_run",
    "score_scores",
    "score_session",
    "session_rows",
    "shown_parts",
    "slate_weight",
    "snips",
    "switch",
    "whole_ranking",
]
