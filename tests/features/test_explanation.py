"""Explanations: contributions by name add up to the score, and names that share a column say so."""

from types import SimpleNamespace

import numpy as np
import pytest

from rankloop.adapter import RawValues
from rankloop.core.kernels import scores_of
from rankloop.core.weight_table import WeightTable
from rankloop.features import Encoder, Schema
from rankloop.features.explanation import LearnedWeights, _dense_names

SCHEMA = Schema(
    {
        "price": "number",
        "brand": "category",
        "size": {"kind": "number", "scale": "linear"},
        "v": "vector(size=2)",
        "sku": "id",
    },
    {"segment": "category"},
    ["segment*brand"],
    16,
)
ROW, ASKED = {"price": 0.75, "brand": ["x", "y"], "size": 3, "v": [1.0, -2.0]}, {"segment": "sport"}


def random_table(schema, seed=0):
    rng, n_columns = np.random.default_rng(seed), schema.n_hashed + schema.n_dense
    values = np.abs(rng.normal(size=(n_columns, 2)))
    values[:, 0] *= rng.choice([-1.0, 1.0], n_columns)
    return WeightTable.of(n_columns, np.arange(n_columns), values)


def weights_in(table, schema=SCHEMA):
    return LearnedWeights(SimpleNamespace(table=table), schema.problem())


def test_contributions_add_up():
    encoder, table = Encoder(SCHEMA), random_table(SCHEMA)
    explanation = weights_in(table).explanation_of_values(encoder, "p", ROW, RawValues([ROW], ASKED, 0.0, 1))
    rows = encoder.rows(["p"], [ROW], ASKED)
    weights = table.at(np.concatenate([rows.columns, SCHEMA.n_hashed + np.arange(SCHEMA.n_dense)]))[:, 0]
    assert explanation.score == pytest.approx(scores_of(rows, weights)[0], abs=1e-12)
    assert explanation.score == pytest.approx(sum(part.contribution for part in explanation.contributions))
    sizes = [abs(part.contribution) for part in explanation.contributions]
    assert sizes == sorted(sizes, reverse=True)
    parts = {part.name: part for part in explanation.contributions}
    assert set(parts) == {
        *("price ≈ 0.75", "brand = x", "brand = y", "size", "v[0]", "v[1]", "sku = p"),
        *("segment = sport × brand = x", "segment = sport × brand = y"),
    }
    assert parts["size"].value == 3.0
    assert parts["v[1]"].value == -2.0
    assert parts["brand = x"].value == pytest.approx(1 / np.sqrt(2))
    assert all(part.contribution == part.value * part.weight for part in parts.values())
    assert str(explanation).splitlines()[0].endswith("p")
    assert len(str(explanation).splitlines()) == 1 + len(parts)


def test_huge_numbers_can_be_told():
    row = {"price": -1.7e308}
    weights = weights_in(random_table(SCHEMA))
    explanation = weights.explanation_of_values(Encoder(SCHEMA), "p", row, RawValues([row], {}, 0.0, 1))
    assert any("price ≈ -" in part.name for part in explanation.contributions)


def test_names_that_share_a_column():
    schema = Schema({"tags": "category"}, bits=4)
    encoder, table = Encoder(schema), random_table(schema)
    row = {"tags": [f"t{i}" for i in range(20)]}
    by_column = {}
    for column in encoder.columns("i", row, {}):
        by_column.setdefault(column.column, set()).add(column.name)
    weights, values = weights_in(table, schema), RawValues([row], {}, 0.0, 1)
    for part in weights.explanation_of_values(encoder, "i", row, values).contributions:
        column = next(names for names in by_column.values() if part.name in names)
        assert set(part.shares_column_with) == column - {part.name}
    for name, (weight, others) in weights.by_value(encoder, [(["i"], values)]).items():
        column, names = next((column, names) for column, names in by_column.items() if name in names)
        assert weight == table.at(np.array([column]))[0, 0]
        assert set(others) == names - {name}


def test_named_weights():
    encoder, table = Encoder(SCHEMA), random_table(SCHEMA)
    requests = [(["p"], RawValues([ROW], ASKED, 0.0, 1)), (["q"], RawValues([{"brand": "z"}], {}, 0.0, 1))]
    weights = weights_in(table).by_value(encoder, requests)
    assert {"brand = x", "brand = z", "price missing", "segment missing × brand = z", "sku = q", "v[0]", "size"} <= set(
        weights
    )
    sizes = [abs(weight) for weight, _ in weights.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_dense_names_after_evolution():
    evolved = SCHEMA.evolved(features={"w": "vector(size=2)"}, remove=["v"])
    assert _dense_names(Encoder(SCHEMA)) == [("size", 0), ("v[0]", 1), ("v[1]", 2)]
    assert _dense_names(Encoder(evolved)) == [("size", 0), ("w[0]", 3), ("w[1]", 4)]
