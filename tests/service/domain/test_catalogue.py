"""Catalogues: the rows as they are now, from the changes that were logged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rankloop.core.errors import Rejected
from rankloop.service.domain.catalogue import ItemCatalogue
from rankloop.service.records import CatalogueChanged, Record


def test_rows_follow_from_the_changes_in_the_log() -> None:
    rng = random.Random(1)
    records: list[Record] = []
    rows: dict[str, Any] = {}
    catalogue = ItemCatalogue(lambda after: [record for record in records if record.seq > after])
    for seq in range(1, 60, 2):
        changes = {rng.choice("abcde"): rng.choice([None, {"n": seq}]) for _ in range(2)}
        records.append(Record(seq, "catalogue/c", 0.0, CatalogueChanged(changes)))
        rows = {id: row for id, row in (rows | changes).items() if row is not None}
        if rng.random() < 0.5:
            catalogue.catch_up()
            completed = catalogue.completed(list("abcde"), [{"m": 1}] * 5, {"n", "m"})
            assert completed == [(rows.get(id) or {}) | {"m": 1} for id in "abcde"]
            assert (len(catalogue), catalogue.version) == (len(rows), seq)


def test_ids_are_compared_as_texts_and_equal_rows_are_no_change() -> None:
    changes = {"a": {"price": 5}, "7": {"price": 9}}
    records = [Record(3, "catalogue/c", 0.0, CatalogueChanged(changes))]
    catalogue = ItemCatalogue(lambda after: [record for record in records if record.seq > after])
    catalogue.catch_up()
    assert catalogue.completed(["b", 7], [{"price": 1}, {}], {"price"}) == [{"price": 1}, {"price": 9}]
    with pytest.raises(Rejected, match="'b' is not in the catalogue"):
        catalogue.completed(["b"], [{}], {"price"})
    assert catalogue.changes_of({"a": {"price": 5}, "b": None, "c": {}}, []) == {"c": {}}


def test_what_is_given_wins_and_other_fields_stay_outside() -> None:
    changes = {"a": {"price": 1, "brand": "Acme", "weight": 3}}
    catalogue = ItemCatalogue(lambda after: [Record(1, "catalogue/c", 0.0, CatalogueChanged(changes))])
    catalogue.catch_up()
    rows = catalogue.completed(["a", "b"], [{"price": 2}, {"price": 4}], {"price", "brand"})
    assert rows == [{"price": 2, "brand": "Acme"}, {"price": 4}]
