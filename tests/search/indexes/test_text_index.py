"""The index of words, with filters by values and dates; words are stemmed once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankloop.search.engine import QueryFilter, TextDocument
from rankloop.search.indexes import stemmers
from rankloop.search.indexes.stemmers import LANGUAGES, StemNumbers, WordStems, without_accents
from rankloop.search.indexes.text_index import IndexQuery, TextIndex

DATES = [0.0, 1.0, 86_400.0, 1e9, 4e9]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TextIndex]:
    index = TextIndex(tmp_path)
    for number, text in enumerate(["a b c", "a c", "b a", "d d", "d"], 1):
        fields = {"tag": f"Two Words\x1f{number}"}
        index.add(number, text.split(), ["x"], TextDocument("", "", "", DATES[number - 1], fields))
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
    index.add(6, ["new"], [], TextDocument("", "", ""))
    index.remove(1)
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == (set(), {1, 2, 3}, 5)
    index.rollback()
    index.commit()
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == (set(), {1, 2, 3}, 5)
    index.add(6, ["new"], [], TextDocument("", "", ""))
    index.remove(1)
    index.commit()
    assert (numbers(index, "new"), numbers(index, "a"), index.n_documents) == ({6}, {2, 3}, 5)


@given(st.sampled_from([0.0, 0.5, *DATES[1:]]), st.sampled_from([0.0, *DATES[1:], 5e9]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_dates_from_the_start_to_before_the_end(index: TextIndex, start: float, end: float) -> None:
    """A document without a date has none."""
    query = IndexQuery((("x",),), filters=(QueryFilter("at", "", start, end),))
    dated = {number for number, at in enumerate(DATES, 1) if at > 0.0 and at >= start and (at < end or end == 0.0)}
    assert {number for number, _ in index.search(query, 10)} == dated
    assert set(index.allowed(range(1, 6), query)) == dated


def test_values_filter_alone_and_among_some_documents(index: TextIndex) -> None:
    def tagged(*values: str) -> IndexQuery:
        return IndexQuery((), filters=tuple(QueryFilter("tag", value) for value in values))

    assert [number for number, _ in index.search(tagged("two words"), 3)] == [1, 2, 3]
    assert [number for number, _ in index.search(tagged("TWO words", "4"), 10)] == [4]
    assert index.search(tagged("two"), 10) == index.search(tagged("9"), 10) == index.search(tagged("\ud800"), 10) == []
    assert index.allowed([9, 4, 2], tagged("two words")) == [2, 4]
    assert index.allowed([], tagged("two words")) == []
    assert index.allowed([5, 2, 1], IndexQuery((("d",),), none_of=(("c",),))) == [5]
    assert index.allowed([9, 1], IndexQuery((("d",),))) == [9, 1]  # nothing is forbidden


def test_stems_of_english() -> None:
    stems_of = WordStems("english")
    words = ["wings", "buckling", "42", "日", "résumés", "naïve"]
    assert stems_of(words) == ["wing", "buckl", "42", "日", "resum", "naiv"]
    assert stems_of([]) == []


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_has_a_stem_for_every_word(language: str) -> None:
    words = ["a", "ing", "книгами", "مرحبا", "의", "é", "\u0301", "ii", "und", "日", "🎉", "x1"]
    stems = WordStems(language)(words)
    assert len(stems) == len(words)
    assert all(stem and " " not in stem for stem in stems)


@pytest.mark.parametrize(
    ("word", "plain"), [("köln", "koln"), ("łódź", "lodz"), ("ærø", "aero"), ("ёж", "ёж"), ("가", "가"), ("が", "が")]
)
def test_accents_of_latin_letters_only(word: str, plain: str) -> None:
    assert without_accents(word) == plain


def test_each_word_is_stemmed_once_and_told_once() -> None:
    told = list[list[tuple[str, str]]]()
    stems = WordStems("english", lambda new: told.append(list(new)))
    assert stems(["wings", "boats", "wings"]) == ["wing", "boat", "wing"]
    assert stems(["boats", "masts"]) == ["boat", "mast"]
    assert stems([]) == []
    assert told == [[("wings", "wing"), ("boats", "boat")], [("masts", "mast")]]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stemmers, "MAX_CACHED_WORDS", 10)
    stems, numbers = WordStems("english"), StemNumbers()
    for i in range(100):
        assert stems([str(i), "x"]) == [str(i), "x"]
        assert len(numbers([str(i), "x"])) == 2
    assert len(stems._stems) <= 13
    assert len(numbers) <= 13


def test_numbers_do_not_depend_on_the_process() -> None:
    assert StemNumbers()(["wing", "", "日"]).tolist() == [152159389, 46947589, 2511979346]
