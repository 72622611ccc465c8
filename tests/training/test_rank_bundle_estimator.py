"""RankBundle inside scikit-learn: clone, pipelines, searches with groups, and its own estimator checks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

sklearn = pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 or newer is not installed")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, GroupKFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

from rankloop.training import RankBundle  # noqa: E402


def sample(seed: int = 0) -> tuple[Any, Any, Any]:
    rng = default_rng(seed)
    X = rng.normal(size=(240, 4)) * [1, 10, 100, 1000]
    y = np.clip(np.round(X / [1, 10, 100, 1000] @ [1.0, -1.0, 0.5, 0.0]), 0, 2)
    return X, y, np.repeat(np.arange(30), 8)


def test_a_clone_has_the_parameters_and_no_weights():
    model = RankBundle(loss="list_net", regularisation=0.5, tight=False, n_jobs=1).fit(*sample())
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(sample()[0])


def test_pipelines_and_searches_hand_the_queries_on():
    X, y, qid = sample()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), RankBundle(n_jobs=1))
        grid = {"rankbundle__regularisation": [1e-2, 100.0]}
        search = GridSearchCV(pipeline, grid, cv=GroupKFold(3)).fit(X, y, groups=qid, qid=qid)
        assert search.best_params_ == {"rankbundle__regularisation": 1e-2}
        own = search.best_estimator_[-1].score(search.best_estimator_[0].transform(X), y, qid=qid)
        assert search.score(X, y, qid=qid) == own > 0.9


OTHER_WORDS = {"check_dtype_object": "a dict among the features is an InvalidInput here, not a TypeError"}


@pytest.mark.parametrize("estimator", [RankBundle(n_jobs=1)], ids=lambda model: type(model).__name__)
def test_every_estimator_check_passes(estimator: Any):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(
            estimator, on_skip=None, on_fail=None, expected_failed_checks=OTHER_WORDS
        )
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) >= 30
