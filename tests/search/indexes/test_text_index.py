"""Both indexes find the same, and words are stemmed once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.search.indexes import stemmers
from rankloop.search.indexes.stemmers import LANGUAGES, StemNumbers, WordStems, without_accents
from rankloop.search.indexes.text_index import IndexQuery, SqliteIndex, TantivyIndex, TextIndex


@pytest.fixture(params=[TantivyIndex, SqliteIndex])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TextIndex]:
    index = request.param(tmp_path)
    for number, text in enumerate(["a b c", "a c", "b a", "d d", "d"], 1):
        index.add(number, text.split(), ["x"])
    index.commit()
    yield index
    index.close()


def numbers(index: TextIndex, *runs: str, all_of: tuple[str, ...] = (), n: int = 10) -> set[int]:
    query = IndexQuery(tuple(tuple(run.split()) for run in runs), tuple(tuple(run.split()) for run in all_of))
    return {number for number, _ in index.search(query, n)}


def test_any_and_all(index: TextIndex) -> None:
    assert numbers(index, "a") == {1, 2, 3}
    assert numbers(index, "a b") == {1}
    assert numbers(index, "b a", "c") == {1, 2, 3}
    assert numbers(index, "a", all_of=("c",)) == {1, 2}
    assert numbers(index, "a", all_of=("b", "b c")) == {1}
    assert numbers(index, "a", "d", all_of=("z",)) == set()
    assert numbers(index) == numbers(index, "a", n=0) == set()


def test_more_is_better_and_ties_go_by_number(index: TextIndex) -> None:
    assert [number for number, _ in index.search(IndexQuery((("d",),)), 10)] == [4, 5]
    scores = index.search(IndexQuery((("x",),)), 10)
    assert [number for number, _ in sorted(scores, key=lambda hit: (-hit[1], hit[0]))] == [n for n, _ in scores]


def test_frequencies_by_field(index: TextIndex) -> None:
    assert index.frequencies(["a", "x", "z"]).tolist() == [[3, 0], [0, 5], [0, 0]]
    assert index.frequencies([]).shape == (0, 2)


def test_nothing_counts_before_a_commit(index: TextIndex) -> None:
    index.add(6, ["new"], [])
    index.remove(1)
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == (set(), {1, 2, 3}, 5)
    index.rollback()
    index.commit()
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == (set(), {1, 2, 3}, 5)
    index.add(6, ["new"], [])
    index.remove(1)
    index.commit()
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == ({6}, {2, 3}, 5)


def test_stems_of_english(index: TextIndex) -> None:
    assert index.stemmed(["wings", "buckling", "42", "日", "résumés", "naïve"], "english") == [
        "wing",
        "buckl",
        "42",
        "日",
        "resum",
        "naiv",
    ]
    assert index.stemmed([], "english") == []


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_has_a_stem_for_every_word(tmp_path: Path, language: str) -> None:
    words = ["a", "ing", "книгами", "مرحبا", "의", "é", "\u0301", "ii", "und", "日", "🎉", "x1"]
    for number, kind in enumerate((TantivyIndex, SqliteIndex)):
        index = kind(tmp_path / str(number))
        stems = index.stemmed(words, language)
        assert len(stems) == len(words)
        assert all(stem and " " not in stem for stem in stems)
        index.close()


@pytest.mark.parametrize(
    ("word", "plain"), [("köln", "koln"), ("łódź", "lodz"), ("ærø", "aero"), ("ёж", "ёж"), ("가", "가"), ("が", "が")]
)
def test_accents_of_latin_letters_only(word: str, plain: str) -> None:
    assert without_accents(word) == plain


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
    monkeypatch.setattr(stemmers, "MAX_CACHED_WORDS", 10)
    stems, numbers = WordStems(list), StemNumbers()
    for i in range(100):
        assert stems([str(i), "x"]) == [str(i), "x"]
        assert len(numbers([str(i), "x"])) == 2
    assert len(stems._stems) <= 13
    assert len(numbers) <= 13


def test_numbers_do_not_depend_on_the_process() -> None:
    assert StemNumbers()(["wing", "", "日"]).tolist() == [152159389, 46947589, 2511979346]
