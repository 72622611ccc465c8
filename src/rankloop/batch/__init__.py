"""Training on whole data sets: losses, the bundle method that minimises them, and estimators."""

from rankloop.aliases import moved_from
from rankloop.batch.bundle import Solution, Step, minimise
from rankloop.batch.rank_bundle import RankBundle
from rankloop.batch.rerm import RERM, online_to_batch
from rankloop.batch.risks.base import Risk, risk_of
from rankloop.batch.trees import TreeRanker, TreeSettings, fit_trees

__all__ = ["RERM", "RankBundle", "Risk", "Solution", "Step", "TreeRanker", "TreeSettings", "fit_trees", "minimise"]
__all__ += ["online_to_batch", "risk_of"]

__getattr__ = moved_from(__name__)
