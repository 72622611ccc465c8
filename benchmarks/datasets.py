"""The data sets that batch training is measured on: those on this machine, a synthetic one when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankloop.data import Dataset, data_folder, normalise_queries
from rankloop.training.folds import Fold, read_folds

N_FOLDS = 5


def available_folds() -> Iterator[tuple[str, list[Fold]]]:
    folder, exists = data_folder(), False
    for name, part in (("MQ2008", "letor/mq2008"), ("MSLR-WEB sample", "letor/mslr_sample/mslr_sample.txt.gz")):
        if folder is not None and (folder / part).exists():
            exists = True
            folds = read_folds(folder / part, N_FOLDS)
            yield name, folds if name == "MQ2008" else [_normalised(fold) for fold in folds]
    if not exists:
        yield "synthetic queries", [Fold(f"Fold{i}", *(_made(n, 3 * i + j) for j, n in enumerate(PARTS))) for i in FIVE]


PARTS, FIVE = (300, 100, 100), range(1, N_FOLDS + 1)


def _normalised(fold: Fold) -> Fold:
    """Raw features range over nine powers of ten; all sides get them scaled to [0, 1] inside each query."""
    return Fold(fold.name, *map(normalise_queries, fold[1:]))


def _made(n_queries: int, seed: int) -> Dataset:
    """Twenty items with 46 features each; the grades are a noisy linear function of them."""
    rng = np.random.default_rng(seed)
    features = rng.random((n_queries * 20, 46))
    true = np.random.default_rng(99).normal(size=46)
    grades = np.clip(np.round(features @ true - 0.5 * true.sum() + rng.normal(size=len(features))), 0, 2)
    return Dataset.of(features, grades, np.arange(n_queries + 1) * 20)
