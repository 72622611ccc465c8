"""Estimators: scikit-learn's conventions, without needing it, and models that rankloop reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop import load
from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.evaluation.ranking.score import score_session
from rankloop.training import RankBundle
from rankloop.training.risks.base import risk_of


def sample(n_queries: int = 40, n_items: int = 8, seed: int = 0, noise: float = 0.5) -> tuple[Any, Any, Any]:
    rng = default_rng(seed)
    X = rng.normal(size=(n_queries * n_items, 4))
    y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + noise * rng.normal(size=len(X))), 0, 2)
    return X, y, np.repeat(np.arange(n_queries), n_items)


@pytest.mark.parametrize("loss", ["ordinal", "least_squares", "preferences", "list_net", "slam"])
def test_it_learns_to_rank_new_queries(loss: str):
    model = RankBundle(loss, 1e-2).fit(*sample())
    assert model.score(*sample(seed=1)) > 0.85
    assert model.solution_.converged


def test_queries_are_kept_apart():
    X, y = np.array([[0.0, 1], [1, 1], [0, 9], [1, 9]]), np.array([0.0, 1, 5, 6])
    with_queries = RankBundle(regularisation=1e-2).fit(X, y, qid=[1, 1, 2, 2])
    assert with_queries.coef_[1] == pytest.approx(0.0, abs=1e-9)  # it tells queries apart, not items
    assert RankBundle(regularisation=1e-2).fit(X, y).coef_[1] > 0.0


def test_more_is_better_in_the_score_of_a_loss():
    X, y, qid = sample()
    good, bad = RankBundle(measure="AUCLoss").fit(X, y, qid=qid), RankBundle(measure="AUCLoss").fit(X, y, qid=qid)
    bad.coef_ = -bad.coef_
    assert bad.score(X, y, qid=qid) < good.score(X, y, qid=qid) <= 0.0
    gain = RankBundle(measure="AUC").fit(X, y, qid=qid).score(X, y, qid=qid)
    assert good.score(X, y, qid=qid) == pytest.approx(gain - 1.0)


def test_minus_one_job_is_one_per_core():
    X, y, qid = sample()
    one = RankBundle(n_jobs=1).fit(X, y, qid=qid).coef_
    np.testing.assert_allclose(RankBundle(n_jobs=-1).fit(X, y, qid=qid).coef_, one, atol=1e-9)
    for wrong in (0, -2, 1.5):
        with pytest.raises(InvalidInput, match="n_jobs"):
            RankBundle(n_jobs=wrong).fit(X, y, qid=qid)


def test_a_score_that_forgets_the_queries_is_reported():
    X, y, qid = sample()
    with pytest.warns(RuntimeWarning, match="judged as one query"):
        RankBundle().fit(X, y, qid=qid).score(X, y)


def test_rows_of_a_query_need_not_be_together():
    X, y, qid = sample()
    order = default_rng(3).permutation(len(y))
    together, apart = RankBundle().fit(X, y, qid=qid), RankBundle().fit(X[order], y[order], qid=qid[order])
    assert together.score(X, y, qid=qid) == pytest.approx(apart.score(X, y, qid=qid), abs=0.01)


@pytest.mark.parametrize("loss", ["nDCG@3", "P@2", "neru", "eru"])
def test_tight_is_never_worse_than_the_ordinal_start_in_its_own_terms(loss: str):
    X, y, qid = sample(noise=3.0)
    start = RankBundle("ordinal", 1e-2).fit(X, y, qid=qid)
    tight = RankBundle(loss, 1e-2, tight=True).fit(X, y, qid=qid)
    risk, offsets = risk_of(loss), np.arange(0, len(y) + 1, 8)

    def objective(w: Any) -> float:
        scores = X @ w
        value, _ = risk.of_lists(scores, y, offsets)
        shift = risk.ideal_anchors(y, offsets) - risk.anchors(scores, y, offsets)
        return (value + shift @ scores) / 40 + 0.5e-2 * w @ w

    assert objective(tight.coef_) <= objective(start.coef_) + 1e-9


def test_a_loss_whose_optimum_is_zero_is_reported():
    rng = default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400).astype(float)  # nothing to be learned
    with pytest.warns(RuntimeWarning, match="no better than w = 0.*the loss ordinal, or the tight bound"):
        RankBundle("nDCG@5", 1e-2).fit(X, y, qid=np.repeat(np.arange(40), 10))


def test_too_few_iterations_are_reported():
    with pytest.warns(RuntimeWarning, match="raise the regularisation or max_iterations"):
        RankBundle(regularisation=1e-5, max_iterations=2).fit(*sample())


def test_preferences_without_grades():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    model = RankBundle("preferences", 1e-2).fit_pairs(X, [(0, 1), (0, 2)], costs=[1.0, 0.5])
    assert model.predict(X)[0] == model.predict(X).min()
    with pytest.raises(InvalidInput, match="X has 0 to 2"):
        model.fit_pairs(X, [(0, 3)])
    with pytest.raises(InvalidInput, match='needs loss="preferences"'):
        RankBundle().fit_pairs(X, [(0, 1)])


def test_costs_make_a_list_of_pairs_the_mean_over_queries():
    """The supplement divides by the pairs of a query: costs of |P| / (n · |P_q|) do the same to one list of pairs."""
    X, y, qid = sample(n_queries=6, n_items=5)
    X, y, qid = X[:-2], y[:-2], qid[:-2]  # the last query has fewer pairs
    by_query = [
        [(i, j) for i in np.flatnonzero(qid == q) for j in np.flatnonzero(qid == q) if y[i] < y[j]] for q in range(6)
    ]
    pairs = [pair for of_query in by_query for pair in of_query]
    costs = [len(pairs) / (6 * len(of_query)) for of_query in by_query for _ in of_query]
    graded = RankBundle("preferences", 0.1, tolerance=1e-10).fit(X, y, qid=qid)
    listed = RankBundle("preferences", 0.1, tolerance=1e-10).fit_pairs(X, pairs, costs)
    assert listed.coef_ == pytest.approx(graded.coef_, abs=1e-4)
    assert RankBundle("preferences", 0.1).fit_pairs(X, pairs).coef_ != pytest.approx(graded.coef_, abs=1e-3)


def test_a_warm_start_goes_on_from_the_weights():
    data = sample()
    model = RankBundle(regularisation=1e-4, warm_start=True).fit(*data)
    first = model.solution_.evaluations
    assert model.fit(*data).solution_.evaluations < first


def test_threads_do_not_change_the_weights(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rankloop.training.solution_path.ROWS_PER_PART", 50)
    one, three = (RankBundle(n_jobs=n).fit(*sample()).coef_ for n in (1, 3))
    assert np.array_equal(one, three)


def test_saved_models_are_sessions_that_rank_the_same(tmp_path: Path):
    X, y, qid = sample()
    model = RankBundle().fit(X, y, qid=qid)
    model.save(tmp_path / "model.rankloop", feature_names=["a", "b", "c", "d"])
    session = load(tmp_path / "model.rankloop")
    data = Dataset.of_rows(X, y, qid)
    assert score_session(session, data, ["nDCG@10"]).overall["nDCG@10"] == model.score(X, y, qid=qid)
    assert session.problem.feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: RankBundle("ordinl").fit(*sample()), "did you mean 'ordinal'"),
        (lambda: RankBundle(regularisation=-1.0).fit(*sample()), "regularisation = -1.0 must be"),
        (lambda: RankBundle(tight=True).fit(*sample()), "tight applies to losses"),
        (lambda: RankBundle().predict([[1.0]]), "call fit first"),
        (lambda: RankBundle().fit(*sample()).predict([[1.0]]), "X has 1 features"),
        (lambda: RankBundle().fit([[np.nan]], [1.0]), "row 0, column 0"),
        (lambda: RankBundle().fit(np.empty((0, 2)), []), "0 sample"),
        (lambda: RankBundle().set_params(los="x"), "did you mean 'loss'"),
    ],
)
def test_what_is_wrong_is_said(wrong: Any, complaint: str):
    with pytest.raises(InvalidInput, match=complaint):
        wrong()


def test_scikit_learn_is_not_imported():
    code = "import sys; from rankloop.training import RankBundle; RankBundle().fit([[0.], [1.]], [0, 1])"
    code += "; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
