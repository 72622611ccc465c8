"""Mistyped words, compounds, languages, umlauts, paths, filters: through the engine."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.search.engine import TextDocument
from rankloop.search.indexes.vocabulary import Vocabulary, _edit_distance, guess_language
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text
from tests.search.sources import Listed

JANUARY = datetime(2024, 1, 15, tzinfo=UTC).timestamp()
DOCUMENTS = [
    TextDocument("plans/budget-2019.md", "Budget 2019", "The budget of the year and the plan.", 1.0),
    TextDocument(
        "plans/budget-2024.md", "Budget", "The budget and the environment.", JANUARY, {"tag": "work\x1fmoney"}
    ),
    TextDocument("kuchen.md", "Käsekuchen", "Das ist ein Rezept für einen Käsekuchen, und er ist die beste Speise."),
    TextDocument("schuhe.md", "Schuhe", "Die Schuhe sind nicht in der Größe, die ich mit dem Händler bestellt habe."),
    TextDocument("garden.md", "Garden", "Apple trees and the pear trees are in the garden.", 0.0, {"tag": "home"}),
]


@pytest.fixture
def engine(tmp_path: Path) -> LocalEngine:
    engine = LocalEngine(tmp_path)
    engine.refresh(Listed(DOCUMENTS))
    return engine


def ids(engine: LocalEngine, text: str) -> list[str]:
    query = read_text(text, fields=engine.field_names)
    return [candidate.id for candidate in engine.candidates(query, 10)]


def test_mistyped_words_find_what_was_meant(engine: LocalEngine) -> None:
    assert set(ids(engine, "buget")) == {"plans/budget-2019.md", "plans/budget-2024.md"}
    assert ids(engine, "enviroment") == ["plans/budget-2024.md"]
    assert engine.correction(read_text("my Buget plan")) == "my budget plan"
    assert engine.correction(read_text("budget")) == ""
    assert ids(engine, "xyzzyq") == []
    engine.close()


def test_words_are_excluded(engine: LocalEngine) -> None:
    assert ids(engine, "budget -2019") == ["plans/budget-2024.md"]
    assert ids(engine, "-budget") == []
    engine.close()


def test_german_is_guessed_and_forgiven(engine: LocalEngine) -> None:
    assert set(engine.languages) == {"english", "german"}
    assert ids(engine, "Kuchen")[0] == "kuchen.md"
    assert ids(engine, "groesse") == ["schuhe.md"]
    assert ids(engine, "Schuh") == ["schuhe.md"]
    assert engine.snippets(read_text("Schuh"), ["schuhe.md"])[0].highlights
    engine.close()


def test_paths_are_searched(engine: LocalEngine) -> None:
    assert set(ids(engine, "plans")) >= {"plans/budget-2019.md", "plans/budget-2024.md"}
    assert ids(engine, "garden.md")[0] == "garden.md"
    engine.close()


def test_fields_and_dates_filter(engine: LocalEngine) -> None:
    assert ids(engine, "budget tag:Money") == ["plans/budget-2024.md"]
    assert ids(engine, "tag:home") == ["garden.md"]
    assert ids(engine, "budget after:2024-01") == ["plans/budget-2024.md"]
    assert ids(engine, "budget before:2024") == ["plans/budget-2019.md"]
    assert ids(engine, "budget after:2024-01-16") == []
    assert engine.facets(read_text("the")) == {} or "tag" in engine.facets(read_text("budget"))
    assert engine.facets(read_text("budget"))["tag"] == {"work": 1, "money": 1}
    engine.close()


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_edits_are_counted(first: str, second: str) -> None:
    distance = _edit_distance(first, second, 10)
    assert distance == _edit_distance(second, first, 10)
    assert (distance == 0) == (first == second)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))
    assert _edit_distance(first, second, 1) == min(distance, 2)


def test_swapped_letters_are_one_edit() -> None:
    assert [_edit_distance("budget", other, 2) for other in ("bugdet", "budgt", "budgets", "badget", "gadfly")] == [
        1,
        1,
        1,
        1,
        3,
    ]


def test_words_of_a_vocabulary() -> None:
    words = Vocabulary(["käse", "kuchen", "käsekuchen", "apfel", "haus", "wirtschaft"])
    assert words.compounds_of("kuchen") == ["kasekuchen"]
    assert words.parts_of("apfelkuchen") == ["apfel", "kuchen"]
    assert words.parts_of("wirtschaftshaus") == ["wirtschaft", "haus"]
    assert words.parts_of("nonsense") == []
    assert words.near_words("kuchn", lambda others: [1.0] * len(others)) == ["kuchen"]
    assert words.near_words("kuchn", lambda others: [0.0] * len(others)) == []
    assert words.near_words("kas", lambda others: [1.0] * len(others)) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat is on the roof of the house", "english"),
        ("der hund ist nicht in dem garten und die katze auch", "german"),
        ("le chat est dans la maison et il ne sort pas", "french"),
        ("wing lift drag", None),
        ("", None),
    ],
)
def test_languages_are_guessed(text: str, language: str | None) -> None:
    assert guess_language(text.split()) == language


def test_endings_forgive_a_letter_and_keep_accents() -> None:
    words = Vocabulary(["chestnut", "chestnuts", "chess", "käsekuchen", "käse"])
    counts = {"chestnut": 3.0, "chestnuts": 1.0, "chess": 5.0, "kasekuchen": 1.0, "kase": 2.0}

    def frequency(some: Sequence[str]) -> list[float]:
        return [counts[word] for word in some]

    assert words.endings_of("ches", frequency, 2) == ["chess", "chestnut"]
    assert words.endings_of("chesnu", frequency, 3) == ["chestnut", "chestnuts"]  # a letter is missing
    assert words.endings_of("chesxtnu", frequency, 1) == ["chestnut"]
    assert words.endings_of("kase", frequency, 2) == ["käse", "käsekuchen"]
    assert words.endings_of("quince", frequency, 2) == []
