"""Training on whole data sets and logs: losses, the bundle method that minimises them, trees, and estimators."""

from rankloop.training.bundle import Solution, Step, minimise
from rankloop.training.clicks.passes import OnlinePasses
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import train_clicks
from rankloop.training.policy import PolicyTraining, train_policy
from rankloop.training.rank_bundle import RankBundle
from rankloop.training.risks.base import Risk, risk_of
from rankloop.training.solution_path import BatchSolver, SolverSettings
from rankloop.training.train import DatasetTraining, train
from rankloop.training.trees import TreeRanker, TreeSettings, fit_trees

__all__ = ["BatchSolver", "ClickTraining", "DatasetTraining", "OnlinePasses", "PolicyTraining", "RankBundle"]
__all__ += ["Risk", "Solution", "SolverSettings", "Step", "TreeRanker", "TreeSettings", "fit_trees", "minimise"]
__all__ += ["risk_of", "train", "train_clicks", "train_policy"]
