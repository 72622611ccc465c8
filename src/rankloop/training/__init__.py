"""Training on whole data sets: losses, the bundle method that minimises them, and estimators."""

from rankloop.training.bundle import Solution, Step, minimise
from rankloop.training.rank_bundle import RankBundle
from rankloop.training.rerm import RERM, online_to_batch
from rankloop.training.risks.base import Risk, risk_of
from rankloop.training.trees import TreeRanker, TreeSettings, fit_trees

__all__ = ["RERM", "RankBundle", "Risk", "Solution", "Step", "TreeRanker", "TreeSettings", "fit_trees", "minimise"]
__all__ += ["online_to_batch", "risk_of"]
