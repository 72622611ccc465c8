"""What fields say of attraction: the minimum of the click likelihood, and a world without fields."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from rankloop.click_models.base import row_log_likelihoods
from rankloop.click_models.fit import fit_users
from rankloop.experiments.rehearsal.attraction import (
    Attraction,
    RehearsalLog,
    _fitted,
    without_memory,
)
from rankloop.features.schema import Schema
from rankloop.logs.reader import lists_in
from tests.experiments.rehearsal.worlds import shop


def test_the_regression_is_at_the_minimum_of_the_click_likelihood():
    rng = np.random.default_rng(0)
    design = sparse.csr_matrix(np.column_stack([np.ones(2000), rng.normal(size=(2000, 2))]))
    examined = rng.random(2000)
    true = np.array([-0.5, 1.0, -1.5])
    clicked = (rng.random(2000) < examined / (1 + np.exp(-(design @ true)))).astype(float)
    ridge = 1.0
    found = _fitted(design, clicked, examined, ridge)

    def loss(weights):
        return (
            -row_log_likelihoods(examined / (1 + np.exp(-(design @ weights))), clicked).sum()
            + ridge / 2 * (weights[1:] ** 2).sum()
        )

    for number in range(3):
        step = np.eye(3)[number] * 1e-4
        slope = (loss(found + step) - loss(found - step)) / 2e-4
        assert slope == pytest.approx(0.0, abs=0.1)
    assert np.abs(found - true).max() < 0.4


def test_ids_say_nothing_of_new_items():
    schema = Schema({"sku": "id", "price": "number"}, {"query": "words", "who": "category"}, ["query*sku", "who*price"])
    left = Schema({"price": "number"}, {"who": "category"}, ["who*price"])
    assert without_memory(schema).to_plain() == left.to_plain()
    assert "price" in schema.with_feature("today", "number").features


def test_a_log_of_ids_alone_is_enough():
    rows = [
        {name: row[name] for name in ("session", "query", "position", "product", "clicked", "true_attraction")}
        for row in shop("helps").to_pylist()
    ]
    truth = np.array([row.pop("true_attraction") for row in rows])
    log = RehearsalLog.of(lists_in(pa.Table.from_pylist(rows)))
    believed = Attraction.of(log, fit_users(log.pages, "pbm", folds=2))
    assert believed.fitted.evidence.prior.rows < 50
    assert np.corrcoef(believed._rows(believed.fitted.attraction), truth)[0, 1] > 0.7
