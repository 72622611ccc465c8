"""Judging what was learned: scores of rankings, what a policy would earn, comparisons, stability."""

from rankloop.evaluation.estimates import Estimate, Options
from rankloop.evaluation.learned import session_rows
from rankloop.evaluation.log_columns import Columns
from rankloop.evaluation.log_table import LogTable
from rankloop.evaluation.off_policy import clipped, direct, doubly_robust, estimate, ips, snips, switch
from rankloop.evaluation.overlap import Overlap
from rankloop.evaluation.propensities import RankingPolicy, place_probabilities, prefix_probabilities, shown_parts
from rankloop.evaluation.rows import Rows, rows_of
from rankloop.evaluation.score import Scores, score_rankings, score_scores, score_session
from rankloop.evaluation.slates import (
    cascade,
    factored_slate_weight,
    position_wise,
    pseudo_inverse,
    slate_weight,
    whole_ranking,
)
from rankloop.evaluation.trec import read_qrels, read_run, score_run

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
    "place_probabilities",
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
