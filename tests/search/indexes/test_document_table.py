"""The table of documents, and words as numbers."""

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.engine import TextDocument
from rankloop.search.indexes.document_table import MAX_WORDS, DamagedIndex, DocumentTable
from rankloop.search.indexes.match_kernel import joined
from rankloop.search.indexes.stemmers import StemNumbers


@pytest.fixture
def table(tmp_path: Path) -> DocumentTable:
    return DocumentTable(tmp_path / "documents.sqlite")


def test_a_document_in_place_of_another(table: DocumentTable) -> None:
    numbers = StemNumbers()
    table.put(1, "s", TextDocument("a", "t", "b"), numbers(["t"]), numbers(["b"]))
    table.put(2, "s2", TextDocument("a", "u", "b", 3.0, {"x": "y"}), numbers(["u"]), numbers(["b", "b", "b"]))
    assert table.entries() == {}
    table.commit()
    assert table.entries() == {"a": (2, "s2")}
    assert table.documents_of(["a", "z"]) == {"a": TextDocument("a", "u", "b", 3.0, {"x": "y"})}
    assert [(row.number, row.id) for row in table.rows_by_number([1, 2])] == [(2, "a")]
    assert (table.numbers().tolist(), table.titles(3)) == ([2], ["u"])
    assert (row := table.rows_by_number([2])[0]).title + row.body == numbers(["u", "b", "b", "b"]).tobytes()
    assert table.plain_texts([2], 3) == ["u\nb"]
    n, means = table.count()
    assert (n, means.tolist()) == (1, [1.0, 3.0])
    table.remove("a")
    table.rollback()
    assert table.fields_of([2]) == [{"x": "y"}]
    table.close()


def test_beginnings_are_looked_up_among_words_as_written(table: DocumentTable) -> None:
    table.add_words(
        [("buckling", "buckl"), ("buckles", "buckl"), ("bucket", "bucket"), ("zebra", "zebra"), ("b\U0001f600", "x")]
    )
    table.commit()
    assert table.stems_from("buck", 10) == ["bucket", "buckl"]
    assert table.stems_from("buckl", 10) == ["buckl"]
    assert table.stems_from("b", 1) == ["x"]
    assert table.stems_from("%", 10) == []
    table.close()


def test_words_are_packed_and_long_texts_cut(table: DocumentTable) -> None:
    numbers = StemNumbers()
    long = np.arange(MAX_WORDS + 5)
    table.put(1, "", TextDocument("a", "", ""), numbers(["one", "two", "one"]), long)
    table.commit()
    row = table.rows_by_id(["a"])["a"]
    texts = joined([row.title, b"", row.body])
    assert texts.starts.tolist() == [0, 3, 3, 3 + MAX_WORDS]
    assert texts.words[:3].tolist() == numbers(["one", "two", "one"]).tolist()
    assert texts.words[3:].tolist() == long[:MAX_WORDS].tolist()
    table.close()


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("this is no database, whatever its name may say")
    with pytest.raises(DamagedIndex, match="bad: file is not a database"):
        DocumentTable(tmp_path / "bad")
    with pytest.raises(InvalidInput, match="unable to open"):
        DocumentTable(tmp_path)
