"""Judging what was learned: scores of rankings, comparisons, stability."""

from rankloop.evaluation.score import Scores, score_rankings, score_scores, score_session
from rankloop.evaluation.trec import read_qrels, read_run, score_run

__all__ = ["Scores", "read_qrels", "read_run", "score_rankings", "score_run", "score_scores", "score_session"]
