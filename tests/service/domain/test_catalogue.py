"""Catalogues: rows as they are and as they were, whatever was forgotten meanwhile."""

from __future__ import annotations

import random
from typing import Any

from rankloop.service.domain.catalogue import ItemCatalogue, catalogue_of, merged_rows
from rankloop.service.records import CatalogueChanged, Record


def test_a_row_is_found_as_it_was() -> None:
    catalogue = ItemCatalogue()
    catalogue.put(3, {"a": {"price": 1}, "b": {"price": 2}})
    catalogue.put(7, {"a": {"price": 5}, "b": None, "7": {"price": 9}})
    assert catalogue.rows(["a", "b", 7], 7) == [{"price": 5}, None, {"price": 9}]
    assert catalogue.rows(["a", "b", 7], 3) == [{"price": 1}, {"price": 2}, None]
    assert (len(catalogue), catalogue.version, 7 in catalogue, "b" in catalogue) == (2, 7, True, False)
    assert catalogue.changed({"a": {"price": 5}, "b": None, "c": {}}) == {"c": {}}


def test_every_version_is_found_whatever_is_forgotten() -> None:
    """Against plain copies of each version; what is no longer in memory is read from the log."""
    rng = random.Random(1)
    records: list[Record] = []
    versions: dict[int, dict[str, Any]] = {0: {}}
    catalogue = ItemCatalogue(lambda after: iter([record for record in records if record.seq > after]))
    for seq in range(1, 60, 2):
        changes = {rng.choice("abcde"): rng.choice([None, {"n": seq}]) for _ in range(2)}
        records.append(Record(seq, "catalogue/c", 0.0, CatalogueChanged(changes)))
        catalogue.put(seq, changes)
        versions[seq] = {id: row for id, row in (versions[max(versions)] | changes).items() if row is not None}
        if rng.random() < 0.2:
            catalogue.keep_since(rng.choice(list(versions)))
    for version, rows in versions.items():
        assert catalogue.rows(list("abcde"), version) == [rows.get(id) for id in "abcde"]
    assert catalogue_of(records).rows(list("abcde"), 9) == [versions[9].get(id) for id in "abcde"]
    catalogue.keep_since(10**9)
    assert catalogue.replaced == 0
    assert catalogue.rows(list("abcde"), 9) == [versions[9].get(id) for id in "abcde"]


def test_what_is_given_wins_and_other_fields_stay_outside() -> None:
    found = [{"price": 1, "brand": "Acme", "weight": 3}, None]
    rows = merged_rows(found, [{"price": 2}, {"price": 4}], {"price", "brand"})
    assert rows == [{"price": 2, "brand": "Acme"}, {"price": 4}]
