"""Batch training: its losses beside their slow forms, the bundle method beside LIBLINEAR, rankers beside trees."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.svm import LinearSVC

from rankloop.batch.pairs import pairs_of
from rankloop.batch.risk import risk_of
from rankloop.batch.training import Settings, fit
from rankloop.batch.validation import judged
from rankloop.core.types import Floats
from rankloop.data import Dataset, concatenate, data_folder, normalise_queries, read_letor
from rankloop.engine import usable_cores
from rankloop.measures.base import mean_of, parse_measure

REPEATS, REGULARISATION, CLOSE = 7, 1e-2, 1e-3
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
MOST_PAIRS = 300_000  # more would need gigabytes
TREES, LEAVES, RATE = 200, 31, 0.05


class Split(NamedTuple):
    """One training and one test part."""

    name: str
    train: Dataset
    test: Dataset


def run() -> list[dict[str, Any]]:
    rows = [_ordinal(), _rectangular()]
    for split in splits():
        rows += [*_liblinear(split), *_trees(split)]
    return rows


def splits() -> Iterator[Split]:
    """The sets that are on this machine; a synthetic one when there is none."""
    folder = data_folder()
    parts = {"MQ2008": "letor/mq2008", "MQ2007 (85 %)": "letor/mq2007_partial"} if folder else {}
    found = False
    for name, part in parts.items():
        files = sorted((folder / part).glob("S*.txt*")) if folder else []
        if len(files) == 5:
            found = True
            yield Split(name, concatenate([read_letor(file) for file in files[:3]]), read_letor(files[4]))
    sample = folder / "letor/mslr_sample/mslr_sample.txt.gz" if folder else None
    if sample is not None and sample.exists():
        found = True
        data = normalise_queries(read_letor(sample))
        cut = data.n_queries * 4 // 5
        yield Split("MSLR sample", data.subset(range(cut)), data.subset(range(cut, data.n_queries)))
    if not found:
        yield Split("synthetic", _made(300, 0), _made(100, 1))


def _ordinal() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    m, risk = 100_000, risk_of("ordinal")
    scores, grades, offsets = rng.normal(size=m), rng.integers(0, 5, m).astype(float), np.array([0, m])
    seconds = _best(lambda: risk.of_lists(scores, grades, offsets))
    return {"name": "ordinal loss and slope, 100,000 items", "ours_seconds": seconds, "target": "≤ 150 ms"}


def _rectangular() -> dict[str, Any]:
    """The same loss by an assignment of all 500 items to all 500 positions, those beyond the cutoff worth nothing."""
    rng = np.random.default_rng(0)
    m, k, risk = 500, 10, risk_of("nDCG@10")
    scores, grades, offsets = rng.normal(size=m), rng.integers(0, 3, m).astype(float), np.array([0, m])
    a, c = np.zeros(m), np.zeros(m)
    a[:k], c[:k] = 1.0 / np.log2(np.arange(k) + 2.0), (np.arange(k) + 1.0) ** -0.25
    gains = 2.0**grades - 1.0
    ideal = np.sort(gains)[::-1] @ a
    anchors = risk.ideal_anchors(grades, offsets)

    def square() -> float:
        worth = np.outer(scores, c) - np.outer(gains / ideal, a)
        return 1.0 + worth[linear_sum_assignment(worth, maximize=True)].sum() - anchors @ scores

    value = risk.of_lists(scores, grades, offsets)[0]
    if abs(square() - value) > 1e-9 * value:
        raise AssertionError("the two assignments disagree")
    ours, peer = _best(lambda: risk.of_lists(scores, grades, offsets), 50), _best(square)
    return _row("nDCG@10 loss and slope, 500 items", ours, peer, 50.0, "peer: scipy's square assignment")


def _liblinear(split: Split) -> Iterator[dict[str, Any]]:
    """Seconds until the objective is within 0.1 % of the optimum; LIBLINEAR is given its pairs for nothing."""
    data, risk = split.train, risk_of("ordinal")
    if sum(len(pairs_of(data.relevance[a:b])) for a, b in pairwise(data.offsets)) > MOST_PAIRS:
        return
    optimum = fit(data, risk, REGULARISATION, settings=Settings(tolerance=1e-6)).solution
    near = Settings(tolerance=CLOSE * optimum.objective)
    ours = _best(lambda: fit(data, risk, REGULARISATION, settings=near), 3)
    rows, weights = _pairs(data)
    signs = np.resize([1.0, -1.0], len(rows))
    signed = rows * signs[:, None]
    for tolerance in TOLERANCES:
        start = perf_counter()
        machine = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=tolerance, max_iter=100_000, random_state=0)
        machine.fit(signed, signs, sample_weight=weights)
        peer = perf_counter() - start
        found = machine.coef_[0]
        objective = REGULARISATION * (0.5 * found @ found + np.sum(weights * np.maximum(0.0, 1.0 - rows @ found)))
        if objective <= optimum.objective * (1.0 + CLOSE):
            break
    note = f"peer: LIBLINEAR on {len(rows):,} pairs, {rows.nbytes / 1e6:.0f} MB; objective {objective:.4f}"
    yield _row(f"{split.name}: ordinal to 0.1 %", ours, peer, None, note)


def _pairs(data: Dataset) -> tuple[Floats, Floats]:
    rows, weights = [], []
    for first, end in pairwise(data.offsets):
        pairs = pairs_of(data.relevance[first:end])
        rows.append(data.features[first:end][pairs[:, 1]] - data.features[first:end][pairs[:, 0]])
        weights.append(np.full(len(pairs), 1.0 / (max(len(pairs), 1) * data.n_queries * REGULARISATION)))
    return np.concatenate(rows), np.concatenate(weights)


def _trees(split: Split) -> Iterator[dict[str, Any]]:
    """Not the same model: linear weights beside hundreds of trees. Both qualities are in the note."""
    start = perf_counter()
    linear = fit(split.train, risk_of("ordinal"), REGULARISATION).weights
    ours = perf_counter() - start
    quality = judged(linear, split.test, "nDCG@10")
    for name, train in (("LightGBM lambdarank", _lightgbm), ("XGBoost rank:ndcg", _xgboost)):
        library = name.split()[0].lower()
        if importlib.util.find_spec(library) is None:
            continue
        peer, scores = min((_timed(train, split, threads) for threads in (1, usable_cores())), key=lambda run: run[0])
        theirs = mean_of(parse_measure("nDCG@10").of_scores(scores, split.test.relevance, split.test.offsets))
        note = f"test nDCG@10: linear {quality:.4f}, {name} {theirs:.4f} ({TREES} trees)"
        yield _row(f"{split.name}: {name}", ours, peer, None, note)


def _timed(train: Callable[[Split, int], Floats], split: Split, threads: int) -> tuple[float, Floats]:
    """One thread is often the faster on small data, and always on a busy machine."""
    start = perf_counter()
    scores = train(split, threads)
    return perf_counter() - start, scores


def _lightgbm(split: Split, threads: int) -> Floats:
    import lightgbm

    model = lightgbm.LGBMRanker(
        objective="lambdarank", n_estimators=TREES, num_leaves=LEAVES, learning_rate=RATE, n_jobs=threads, verbose=-1
    )
    model.fit(split.train.features, split.train.relevance.astype(int), group=split.train.sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about feature names, which arrays do not have
        return np.asarray(model.predict(split.test.features), dtype=np.float64)


def _xgboost(split: Split, threads: int) -> Floats:
    import xgboost

    model = xgboost.XGBRanker(
        objective="rank:ndcg", n_estimators=TREES, max_leaves=LEAVES, max_depth=6, learning_rate=RATE, n_jobs=threads
    )
    queries = np.repeat(np.arange(split.train.n_queries), split.train.sizes)
    model.fit(split.train.features, split.train.relevance.astype(int), qid=queries)
    return np.asarray(model.predict(split.test.features), dtype=np.float64)


def _made(n_queries: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    features = rng.random((n_queries * 20, 46))
    true = np.random.default_rng(99).normal(size=46)
    grades = np.clip(np.round(features @ true - 0.5 * true.sum() + rng.normal(size=len(features))), 0, 2)
    return Dataset.of(features, grades, np.arange(n_queries + 1) * 20)


def _best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least seconds of several runs; the first, which compiles, does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return min(seconds)


def _row(name: str, ours: float, peer: float, target: float | None, note: str) -> dict[str, Any]:
    return {
        "name": name,
        "ours_seconds": ours,
        "peer_seconds": peer,
        "ratio": peer / ours,
        "target": target,
        "note": note,
    }
