"""Stems are computed once per word, and the numbers of stems are the same everywhere."""

import pytest

from rankloop.search.indexes import word_stems
from rankloop.search.indexes.word_stems import StemNumbers, WordStems


def test_each_word_is_stemmed_once_and_told_once() -> None:
    asked, told = list[list[str]](), list[tuple[str, str]]()

    def stemmed(words: list[str]) -> list[str]:
        asked.append(words)
        return [word.upper() for word in words]

    stems = WordStems(stemmed, told.extend)
    assert stems(["a", "b", "a"]) == ["A", "B", "A"]
    assert stems(["b", "c"]) == ["B", "C"]
    assert stems([]) == []
    assert asked == [["a", "b"], ["c"]]
    assert told == [("a", "A"), ("b", "B"), ("c", "C")]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_stems, "MAX_KNOWN", 10)
    stems, numbers = WordStems(list), StemNumbers()
    for i in range(100):
        assert stems([str(i), "x"]) == [str(i), "x"]
        assert len(numbers([str(i), "x"])) == 2
    assert len(stems._known) <= 13
    assert len(numbers._known) <= 13


def test_numbers_do_not_depend_on_the_process() -> None:
    assert StemNumbers()(["wing", "", "日"]).tolist() == [152159389, 46947589, 2511979346]
