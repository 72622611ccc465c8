"""Rows become pages: by ids of lists, and by visits and queries that come again."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.logs.tables.pages import pages_of


def cut(column, lists, position, queries=None, items=None):
    pages = pages_of(lists, column, np.array(position, dtype=float), queries, items, "log")
    return pages.offsets.tolist(), pages.n_repeated


def test_a_visit_with_two_queries_has_two_pages():
    assert cut("session", "ssss", [1, 2, 3, 4], queries="aabb") == ([0, 2, 4], 0)
    assert cut("session", "ssss", [1, 2, 3, 4]) == ([0, 4], 0)


def test_a_position_that_comes_again_begins_a_page():
    assert cut("session_id", "ssss", [1, 2, 1, 2], queries="aaaa") == ([0, 2, 4], 0)
    assert cut("query", "aabbaa", [2, 1, 1, 2, 1, 2]) == ([0, 2, 4, 6], 0)
    assert cut("visit", "sss", [0, 0, 0]) == ([0, 1, 2, 3], 0)


def test_an_order_within_a_page_does_not_matter():
    assert cut("session", "ssstt", [3, 1, 2, 2, 1]) == ([0, 3, 5], 0)


@pytest.mark.parametrize("column", ["impression", "session", "qid"])
def test_scattered_rows_are_refused(column):
    with pytest.raises(InvalidInput, match=f"do not stand together; sort by '{column}'"):
        cut(column, "abab", [1, 1, 2, 2])


def test_the_ids_of_lists_are_trusted():
    assert cut("impression", "aabb", [1, 1, 1, 2]) == ([0, 2, 4], 0)
    assert cut("impression", "aaabb", [1, 1, 2, 1, 2], items="xxyxy") == ([0, 2, 4], 1)
    assert cut("mine", "aaaa", [1, 2, 1, 2], items="xyxy") == ([0, 2], 2)
