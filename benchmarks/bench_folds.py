"""Rankers trained on graded queries, each tuned on the validation part of every fold: ours, trees, pairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import available_folds
from benchmarks.environment import installed
from benchmarks.measurement import Row, quality, row, timed
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, Ints
from rankloop.data import Dataset
from rankloop.engine import usable_cores
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.folds import Fold
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import DEFAULT_PATH, fit_path

TREES, RATE, PATIENCE = 500, 0.05, 30
LEAVES, DEPTHS, PENALTIES = (7, 31), (3, 6), (1.0, 10.0, 100.0, 1e3, 1e4)
MAX_PAIRS = 300_000  # more would need gigabytes
Trainer = Callable[[Fold, int], Floats]  # the scores of the test part


def run() -> list[Row]:
    return [each for name, folds in available_folds() for each in _compared(name, folds)]


def _compared(name: str, folds: list[Fold]) -> Iterator[Row]:
    """Seconds until the model is chosen, settings tried included, and what it is worth on the test part."""
    ours = [_timed(bundle, fold, 1) for fold in (folds[0], *folds)][1:]  # the first compiles
    sides: dict[str, tuple[Trainer, str]] = {
        "LightGBM": (lightgbm, f"lambdarank, leaves {LEAVES}, stops early"),
        "XGBoost": (xgboost, f"rank:ndcg, depth {DEPTHS}, stops early"),
        "LIBLINEAR": (liblinear, f"squared hinge on pairs, C {PENALTIES}"),
    }
    for peer, (train, setting) in sides.items():
        if not installed(peer) or (peer == "LIBLINEAR" and n_pairs(folds[0].train) > MAX_PAIRS):
            continue
        threads = 1 if train is liblinear else _fastest(train, folds[0])
        theirs = [_timed(train, fold, threads) for fold in folds]
        times = timed([(mine, other) for (mine, _), (other, _) in zip(ours, theirs)])
        judged = quality("nDCG@10", [value for _, value in ours], [value for _, value in theirs])
        note = f"RankBundle's path of {len(DEFAULT_PATH)} beside {setting}, {threads} thread(s); {len(folds)} folds"
        yield row(f"{name}: tuned ranker, beside {peer}", times, peer=peer, judged=judged, note=note)


def _fastest(train: Trainer, fold: Fold) -> int:
    """One thread or all cores: one is often the faster on small data, and always on a busy machine."""
    return min({1, usable_cores()}, key=lambda threads: _timed(train, fold, threads)[0])


def _timed(train: Trainer, fold: Fold, threads: int) -> tuple[float, float]:
    start = perf_counter()
    scores = train(fold, threads)
    return perf_counter() - start, judged_on(fold.test, scores)


def judged_on(part: Dataset, scores: Floats) -> float:
    return mean_of(parse_measure("nDCG@10").of_scores(np.asarray(scores, np.float64), part.relevance, part.offsets))


def bundle(fold: Fold, threads: int) -> Floats:
    held, fits = fold.validation, fit_path(fold.train, risk_of("ordinal"), DEFAULT_PATH)
    best = max(
        (solution.weights for solution in fits), key=lambda weights: judged_on(held, scores_of(held.features, weights))
    )
    return scores_of(fold.test.features, best)


def liblinear(fold: Fold, threads: int) -> Floats:
    from sklearn.svm import LinearSVC

    rows, weights = pairs_with_weights(fold.train)
    signs = np.resize([1.0, -1.0], len(rows))
    signed, best, weight = rows * signs[:, None], -1.0, np.zeros(rows.shape[1])
    for penalty in PENALTIES:
        machine = LinearSVC(C=penalty, dual=False, fit_intercept=False)
        coefficients = machine.fit(signed, signs, sample_weight=weights).coef_[0]
        value = judged_on(fold.validation, fold.validation.features @ coefficients)
        if value > best:
            best, weight = value, coefficients
    return fold.test.features @ weight


def pairs_with_weights(data: Dataset) -> tuple[Floats, Floats]:
    """Differences of all pairs of unequal grade; every query weighs the same, and all together 1."""
    rows, weights = [], []
    for first, end in pairwise(data.offsets):
        pairs = pairs_of(data.relevance[first:end])
        rows.append(data.features[first:end][pairs[:, 1]] - data.features[first:end][pairs[:, 0]])
        weights.append(np.full(len(pairs), 1.0 / (max(len(pairs), 1) * data.n_queries)))
    return np.concatenate(rows), np.concatenate(weights)


def pairs_of(relevance: Floats) -> NDArray[np.int64]:
    """Every pair (worse, better) of different grade in one list."""
    return np.argwhere(relevance[:, None] < relevance[None, :])


def n_pairs(data: Dataset) -> int:
    return sum(len(pairs_of(data.relevance[first:end])) for first, end in pairwise(data.offsets))


def lightgbm(fold: Fold, threads: int) -> Floats:
    from lightgbm import LGBMRanker, early_stopping

    train, held, models = fold.train, fold.validation, []
    common: dict[str, Any] = {"n_estimators": TREES, "learning_rate": RATE, "n_jobs": threads, "verbose": -1}
    watched: dict[str, Any] = {"eval_set": [(held.features, held.relevance.astype(int))], "eval_group": [held.sizes]}
    for leaves in LEAVES:
        model = LGBMRanker(objective="lambdarank", num_leaves=leaves, **common)
        stop = early_stopping(PATIENCE, verbose=False)
        grades = train.relevance.astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions would call eval_set otherwise
            model.fit(train.features, grades, group=train.sizes, eval_at=[10], callbacks=[stop], **watched)
        models.append(model)
    best = max(models, key=lambda model: model.best_score_["valid_0"]["ndcg@10"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about feature names, which arrays do not have
        return np.asarray(best.predict(fold.test.features), np.float64)


def xgboost(fold: Fold, threads: int) -> Floats:
    from xgboost import XGBRanker

    train, held, models = fold.train, fold.validation, []
    common: dict[str, Any] = {"n_estimators": TREES, "learning_rate": RATE, "n_jobs": threads}
    watched: dict[str, Any] = {"eval_set": [(held.features, held.relevance.astype(int))], "verbose": False}
    for depth in DEPTHS:
        settings = {"max_depth": depth, "eval_metric": "ndcg@10", "early_stopping_rounds": PATIENCE}
        model = XGBRanker(objective="rank:ndcg", **settings, **common)
        queries = {"qid": query_of_row(train), "eval_qid": [query_of_row(held)]}
        model.fit(train.features, train.relevance.astype(int), **queries, **watched)
        models.append(model)
    best = max(models, key=lambda model: model.best_score)
    return np.asarray(best.predict(fold.test.features), np.float64)


def query_of_row(data: Dataset) -> Ints:
    return np.repeat(np.arange(data.n_queries), data.sizes)
