"""Pages as a table: the same wherever the ranker is asked, and what no shown item had, counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import Problem, Query, Session, build
from rankloop.engine import Here, Threads
from rankloop.evaluation.list_pages import PageTable, ShownPage, _unknown_shares
from rankloop.features.encoder import Encoder
from rankloop.logs.list_log import weighted_outcomes
from tests.training.clicks.test_passes import SCHEMA, logged, train_with_schema


def plain_pages(count: int) -> list[ShownPage]:
    rng = np.random.default_rng(0)
    return [
        ShownPage(
            Query(f"q{number % 7}", rng.normal(size=(6, 3)), np.empty(0)),
            rng.permutation(6),
            (rng.random(size=number % 5) < 0.3).astype(float),  # of some pages nothing was seen
            outcomes={"money": rng.random(size=number % 5)},
            session=None if number % 3 else f"s{number % 11}",
            pairs=None if number % 2 else [f"i{item}" for item in range(6)],
        )
        for number in range(count)
    ]


def exploring() -> Session:
    return Session(build({"kind": "3pr", "swap": 0.5}, "learner"), Problem(n_features=3, shown=4), 0)


def hashed() -> tuple[Session, list[ShownPage]]:
    lists = logged(300)
    session = train_with_schema(lists[:40], SCHEMA, passes=1).session
    encoder = Encoder(SCHEMA)
    pages = [
        ShownPage(
            shown.query(encoder),
            np.arange(len(shown.ids)),
            shown.clicked,
            shown.position,
            outcomes=weighted_outcomes(shown.clicked),
            pairs=[(shown.query_id, item) for item in shown.ids],
        )
        for shown in lists
    ]
    return session, pages


def columns_of(table: Any) -> list[Any]:
    columns = table._asdict()
    return [*(columns | {"outcomes": 0, "worth": 0}).values(), *table.outcomes.values(), *table.worth.values()]


@pytest.mark.parametrize("kind", ["plain", "hashed"])
def test_the_table_is_the_same_on_every_engine_to_the_last_bit(kind: str) -> None:
    session, pages = (exploring(), plain_pages(600)) if kind == "plain" else hashed()
    here, there = (PageTable.of(pages, session, positions=4, seed=3, engine=e) for e in (Here(), Threads(workers=2)))
    assert here.n_pages == sum(len(page.clicked) > 0 for page in pages)
    assert len(here.slots) == 8  # it explores
    for ours, theirs in zip(columns_of(here), columns_of(there), strict=True):
        assert np.array_equal(ours, theirs)


def test_rows_point_to_the_items_of_their_own_page() -> None:
    pages = [page for page in plain_pages(600) if len(page.clicked)]
    table = PageTable.of(pages, exploring(), positions=4)
    for number, page in enumerate(pages):
        rows = np.flatnonzero(table.page == number)
        seen = rows[: len(page.clicked)]
        assert np.array_equal(table.position[seen], np.arange(len(seen)))
        assert np.array_equal(table.features[seen, :3], page.query.features[page.ranking[: len(seen)]])
        assert np.isin(table.slots[:, number, : len(seen)], rows).all()


def test_what_no_shown_item_had_is_counted_row_by_row() -> None:
    rows = [np.array(own, np.int64) for own in ([1, 2], [3], [], [2, 9, 8], [5])]
    assert _unknown_shares(rows, np.array([1, 3, 8])).tolist() == [1 / 2, 0, 0, 1 - 1 / 3, 1]
    assert _unknown_shares([np.empty(0, np.int64)] * 2, np.empty(0, np.int64)).tolist() == [0, 0]
