"""Trees as a base score: who has seen a query does not score it, the hash tells fits apart, files come back."""

import json
import sys

import numpy as np
import pytest

from rankloop import InvalidInput, Ranker
from rankloop.core.extras import MissingExtra
from rankloop.data.dataset import Dataset
from rankloop.training.trees import TreeRanker, TreeSettings, fit_trees, fold_of

lightgbm = pytest.importorskip("lightgbm")
SMALL = TreeSettings(n_trees=10, n_leaves=4, learning_rate=0.3, options={"min_data_in_leaf": 3})


def made(n_queries=24, seed=0):
    """Four items each, whose grade is a step of the first feature times that of the second: no line says it."""
    rng = np.random.default_rng(seed)
    features = rng.random((4 * n_queries, 3))
    grades = 2.0 * ((features[:, 0] > 0.5) == (features[:, 1] > 0.5))
    return Dataset.of(features, grades, 4 * np.arange(n_queries + 1), [f"q{i}" for i in range(n_queries)])


@pytest.fixture(scope="module")
def fitted():
    return fit_trees(made(), n_folds=3, settings=SMALL)


def test_a_query_is_scored_by_the_booster_that_has_not_seen_it(fitted):
    data = made()
    for number, name in enumerate(data.query_ids):
        rows = data.features[4 * number : 4 * number + 4]
        own = fitted.boosters[fold_of(name, 3)].predict(rows) / fitted.scale
        assert np.array_equal(fitted.scores(rows, name), own)


def test_other_grades_of_a_query_leave_its_own_booster_as_it_was(fitted):
    data = made()
    grades = data.relevance.copy()
    grades[:4] = 2.0 - grades[:4]
    other = fit_trees(data._replace(relevance=grades), n_folds=3, settings=SMALL)
    same = [one == two for one, two in zip(fitted.texts, other.texts)]
    assert same == [fold == fold_of("q0", 3) for fold in range(3)]


def test_a_new_query_is_scored_by_the_mean_of_all(fitted):
    rows = made(seed=1).features[:5]
    mean = sum(booster.predict(rows) for booster in fitted.boosters) / 3 / fitted.scale
    np.testing.assert_allclose(fitted.scores(rows, "new"), mean, rtol=1e-12)
    assert not np.array_equal(fitted.scores(rows, "q0"), fitted.scores(rows, "new"))


def test_the_score_has_unit_spread_inside_a_query(fitted):
    scores = fitted.scores_of(made()).reshape(-1, 4)
    assert np.std(scores - scores.mean(axis=1, keepdims=True)) == pytest.approx(1.0)


def test_the_hash_is_that_of_the_fit(fitted, tmp_path):
    assert fit_trees(made(), n_folds=3, settings=SMALL).hash == fitted.hash
    assert fit_trees(made(), n_folds=3, settings=SMALL._replace(n_trees=11)).hash != fitted.hash
    assert fit_trees(made(25), n_folds=3, settings=SMALL).hash != fitted.hash
    fitted.save(tmp_path / "trees.json")
    loaded = TreeRanker.load(tmp_path / "trees.json")
    assert loaded.hash == fitted.hash
    rows = made(seed=2).features
    for name in ("q0", "new"):
        assert np.array_equal(loaded.scores(rows, name), fitted.scores(rows, name))


def test_folds_go_by_the_id_alone():
    assert [fold_of(f"q{i}", 5) for i in range(4)] == [fold_of(f"q{i}", 5) for i in range(4)]
    assert {fold_of(f"q{i}", 5) for i in range(40)} == set(range(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": made()._replace(relevance=np.full(96, 0.5))}, "whole grades"),
        ({"dataset": made()._replace(relevance=np.full(96, 32.0))}, "from 0 to 31"),
        ({"weights": np.ones(3)}, "3 weights for 96 items"),
        ({"weights": -np.ones(96)}, "below 0"),
        ({"settings": SMALL._replace(options={"objective": "nonsense"})}, "LightGBM cannot fit this"),
        ({"dataset": made(2)}, "too few for 3 folds"),
        ({"n_folds": 1}, "n_folds"),
        ({"settings": SMALL._replace(n_trees=0)}, "n_trees"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, message):
    given = {"dataset": made(), "n_folds": 3, "settings": SMALL} | change
    with pytest.raises(InvalidInput, match=message):
        fit_trees(given.pop("dataset"), **given)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 2}', '{"format": 1, "boosters": [], "query_ids": [], "scale": 1}',
     '{"format": 1, "boosters": ["x"], "query_ids": [], "scale": 0}'],
)  # fmt: skip
def test_a_file_that_holds_no_trees_is_refused(content, tmp_path):
    (tmp_path / "trees.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"trees|format"):
        TreeRanker.load(tmp_path / "trees.json")


def test_boosters_that_are_none_are_refused(tmp_path):
    table = {"format": 1, "boosters": ["tree\nnonsense"], "query_ids": [], "scale": 1.0}
    (tmp_path / "trees.json").write_text(json.dumps(table))
    with pytest.raises(InvalidInput, match="not trees of LightGBM"):
        TreeRanker.load(tmp_path / "trees.json").scores(np.zeros((1, 3)))


def test_features_of_another_width_are_refused(fitted):
    with pytest.raises(InvalidInput, match="grown on 3 features, got 2"):
        fitted.scores(np.zeros((4, 2)))


def test_a_ranker_begins_with_their_order(fitted):
    rows = made(seed=3).features[:4]
    score = fitted.scores(rows, "new")
    ranker = Ranker("newton_pairs", features=["a", "b", "c", "trees"], base="trees")
    items = {f"i{i}": dict(zip("abc", row)) | {"trees": score[i]} for i, row in enumerate(rows.tolist())}
    shown = ranker.rank(items)
    assert [shown.items[i] for i in ranker.session.predict(shown.query())] == [f"i{i}" for i in np.argsort(-score)]


def test_without_lightgbm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rankloop\[trees\]'"):
        fit_trees(made())
