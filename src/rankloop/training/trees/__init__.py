"""Gradient-boosted trees as a base score: fitted here, or from the file of a booster that others fitted."""

from rankloop.training.trees.tree_ranker import N_FOLDS, TreeRanker, TreeSettings, fit_trees, fold_of

__all__ = ["N_FOLDS", "TreeRanker", "TreeSettings", "fit_trees", "fold_of"]
