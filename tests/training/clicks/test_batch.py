"""Training on hashed columns all at once: the optimum of the dense solver, and a ranker that goes on from there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import Ranker
from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset, SparseDataset
from rankloop.engine import Here, Threads
from rankloop.features import Schema
from rankloop.logs.list_log import ShownList
from rankloop.training.clicks.batch import _merged, schema_rows
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import _train_on_lists
from rankloop.training.clicks.weights import weighted_clicks
from rankloop.training.rank_bundle import RankBundle
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import DEFAULT_PATH, BatchSolver, SolverSettings, fit
from tests.sparse_rows import to_array
from tests.training.clicks.test_passes import BRANDS, EXAMINED, SCHEMA, logged

CLOSE = SolverSettings(tolerance=1e-9, engine=Here())


def train_batch_with_schema(
    lists: Any, schema: Schema, loss: str = "ordinal", learner: Any = None, path: Any = DEFAULT_PATH, **more: Any
) -> ClickTraining:
    settings = more.pop("settings", SolverSettings())
    return _train_on_lists(lists, schema, BatchSolver(loss, False, path, settings), learner=learner, **more)


def collected(lists: list[ShownList], schema: Schema, grades: Any) -> SparseDataset:
    rows = schema_rows(lists, schema)
    return SparseDataset(rows.features, grades, rows.offsets, np.zeros(len(grades)), tuple(rows.query_ids))


def clicked_pairs(offsets: Any, weights: Any) -> tuple[Any, Any]:
    """Every clicked item above every other of its list, at the cost of its weight."""
    pairs = [
        (other, better)
        for start, end in itertools.pairwise(offsets.tolist())
        for better in range(start, end)
        for other in range(start, end)
        if weights[better] > 0 and other != better
    ]
    return np.array(pairs), np.array([weights[better] for _, better in pairs])


def shown(rows: Any, clicked: Any, **more: Any) -> ShownList:
    ids = [f"i{i}" for i in range(len(rows))]
    return ShownList("", ids, rows, {}, 0.0, np.arange(len(rows)), np.array(clicked, float))._replace(**more)


@pytest.mark.parametrize("loss", ["ordinal", "list_net", "clicked_items", "nDCG@3"])
def test_the_optimum_is_that_of_the_dense_solver(loss: str) -> None:
    """The same lists as one array of all columns, most of them 0; and numbers that are taken as they are."""
    linear = {"kind": "number", "scale": "linear", "mean": 50, "deviation": 25}
    schema = Schema({"brand": "category", "price": linear}, {"segment": "category"}, ("segment*brand",), bits=8)
    lists = logged(60)
    grades = np.concatenate([one.clicked for one in lists])
    sparse = collected(lists, schema, grades)
    dense = Dataset.of(to_array(sparse.features), grades, sparse.offsets)
    both = [fit(data, risk_of(loss), 0.01, settings=CLOSE) for data in (sparse, dense)]
    assert all(found.solution.converged for found in both)
    assert both[0].solution.objective == pytest.approx(both[1].solution.objective, abs=1e-9)
    np.testing.assert_allclose(both[0].weights, both[1].weights, atol=1e-5)


def test_plain_numbers_become_what_the_dense_ranking_svm_makes_of_them() -> None:
    """Identity encoding: every field a number in the dense block, clicks weighed by their positions."""
    fields = {name: {"kind": "number", "scale": "linear"} for name in ("a", "b", "c")}
    rng, lists = np.random.default_rng(0), []
    for _ in range(40):
        numbers = rng.normal(size=(4, 3))
        clicked = rng.random(4) < 1 / (1 + np.exp(-2 * numbers[:, 0] + numbers[:, 1])) * EXAMINED
        lists.append(shown([dict(zip("abc", row)) for row in numbers.tolist()], clicked))
    trained = train_batch_with_schema(
        lists, Schema(fields), path=[0.01], position_bias=EXAMINED, settings=CLOSE, clip=2.0
    )
    features = np.array([list(row.values()) for one in lists for row in one.rows])
    weights = np.concatenate([weighted_clicks(one.clicked, one.position, EXAMINED, 2.0) for one in lists])
    pairs, costs = clicked_pairs(np.arange(41) * 4, weights)
    dense = RankBundle("preferences", 0.01, tolerance=1e-9).fit_pairs(features, pairs, costs)
    assert trained.solution.objective == pytest.approx(dense.solution_.objective, abs=1e-9)
    columns, entries = trained.session.state.table.used()
    n_hashed = trained.schema.n_hashed
    np.testing.assert_allclose(entries[columns >= n_hashed][:, 0], dense.coef_, atol=1e-4)
    assert (entries[columns >= n_hashed][:, 1] > 0).all()


@pytest.mark.parametrize(
    ("loss", "learner", "kind"),
    [("ordinal", None, "fair_pairs"), ("clicked_items", None, "click_regression"), ("list_net", "pdgd", "pdgd")],
)
def test_it_learns_what_people_like_and_goes_on(loss: str, learner: str | None, kind: str, tmp_path: Path) -> None:
    trained = train_batch_with_schema(logged(), SCHEMA, loss, learner)
    assert trained.gains[trained.chosen] == max(trained.gains.values()) > trained.logged_gain + 0.1
    assert trained.solution.converged
    assert trained.examined_is_known
    np.testing.assert_allclose(trained.examined, EXAMINED, atol=0.12)
    trained.save(tmp_path / "model.rankloop")
    ranker = Ranker.load(tmp_path / "model.rankloop")
    assert ranker.schema == SCHEMA
    assert ranker.session.learned == 400
    assert ranker.session.learner.inner.__class__.__name__.lower() == kind.replace("_", "")
    items = {brand: {"brand": brand, "price": 20} for brand in BRANDS}
    for segment, best in (("sport", {"acme", "bolt"}), ("office", {"cora", "dune"})):
        shown = ranker.rank(items, context={"segment": segment})
        scores = {item: ranker.explain(shown, item).score for item in items}
        assert set(sorted(scores, key=scores.__getitem__)[2:]) == best
    before = ranker.explain(shown, "acme").score
    ranker.learn(shown, clicks=["acme"])
    assert abs(ranker.explain(shown, "acme").score - before) < 0.5  # steps are small after four hundred lists


def test_click_regression_knows_its_positions() -> None:
    """Offsets are told, or fall with the position as clicks do."""
    told = train_batch_with_schema(logged(50), SCHEMA, "clicked_items", position_bias=EXAMINED, path=[0.1])
    assert told.session.learner.inner.examination == tuple(EXAMINED)
    found = train_batch_with_schema(logged(600, fixed=True), SCHEMA, "clicked_items", path=[0.01])
    assert not found.examined_is_known
    assert found.examined[0] == 1.0
    assert found.session.state.inner.offsets[0] > found.session.state.inner.offsets[3]
    with pytest.raises(InvalidInput, match="no item stands at two positions"):
        train_batch_with_schema(logged(50, fixed=True), SCHEMA, path=[0.1])


def test_grades_are_learned_from_as_they_are() -> None:
    lists = [one._replace(clicked=np.arange(4.0), feedback="relevances") for one in logged(20)]
    trained = train_batch_with_schema(lists, SCHEMA, path=[0.1], settings=CLOSE)
    data = collected(lists, SCHEMA, np.tile(np.arange(4.0), 20))
    found = fit(data, risk_of("ordinal"), 0.1, settings=CLOSE)
    assert trained.solution.objective == pytest.approx(found.solution.objective, abs=2e-9)
    with pytest.raises(InvalidInput, match="a loss of clicks"):
        train_batch_with_schema(lists, SCHEMA, "clicked_items", path=[0.1])


def test_lists_of_a_query_are_merged_item_by_item() -> None:
    red, blue = {"brand": "acme"}, {"brand": "bolt"}
    first = shown([red, blue], [1, 0], query_id="hat")
    again = shown([blue, red], [2, 0], query_id="hat", ids=["i1", "i0"])
    other = shown([red, blue], [0, 1], query_id="hat", context={"segment": "sport"})
    dearer = shown([{"brand": "acme", "price": 2}], [1], query_id="hat")
    rows = schema_rows([first, again, other, dearer, shown([red], [1]), shown([red], [0])], SCHEMA)
    together = _merged(rows, rows.clicked)
    assert together.offsets.tolist() == [0, 3, 5, 6, 7]
    assert together.clicked.tolist() == [0.5, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert list(together.query_ids) == ["hat", "hat", "", ""]
    expected = rows.features.take(np.array([0, 1, 6, 4, 5, 7, 8]))
    np.testing.assert_array_equal(to_array(together.features), to_array(expected))


def test_the_sum_is_the_same_wherever_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.training.solution_path.ROWS_PER_PART", 64)
    engines = Here(), Threads(workers=2)
    found = [
        train_batch_with_schema(logged(100), SCHEMA, path=[0.1], settings=SolverSettings(engine=e)) for e in engines
    ]
    for mine, other in zip(*(one.session.state.table.used() for one in found)):
        np.testing.assert_array_equal(mine, other)


def test_positions_below_those_that_are_seen_do_not_count() -> None:
    lists = logged(30)
    other = [one._replace(clicked=np.append(one.clicked[:2], [1.0, 1.0])) for one in lists]
    both = [
        train_batch_with_schema(given, SCHEMA, path=[0.1], position_bias=EXAMINED, shown=2) for given in (lists, other)
    ]
    assert both[0].session.problem.shown == 2
    for mine, theirs in zip(*(one.session.state.table.used() for one in both)):
        np.testing.assert_array_equal(mine, theirs)


def test_what_cannot_be_learned_from_is_refused() -> None:
    silent = [one._replace(clicked=np.zeros(4)) for one in logged(10)]
    for lists, more, message in (
        (silent, {}, "the log has no click"),
        (logged(10)[:1], {"position_bias": EXAMINED}, "there must be at least two"),
        (logged(10), {"path": [0.0]}, "the regularisation must be above 0"),
        (logged(10), {"loss": "ordinary"}, "did you mean 'ordinal'"),
        (logged(10), {"learner": "dbgd", "position_bias": EXAMINED}, "not hashed columns"),
        (logged(10), {"position_bias": [1.0]}, "position_bias needs 4 probabilities"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train_batch_with_schema(lists, SCHEMA, **more)
