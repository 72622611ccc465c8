"""Words of texts and queries, and the piece of a text that is shown."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.features.words import words_of
from rankloop.search.engine import QueryFilter
from rankloop.search.texts import (
    MAX_NAME_WORDS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    MAX_WORD_CHARACTERS,
    SNIPPET_CHARACTERS,
    date_of,
    is_unspaced,
    pieces_of,
    read_text,
    runs_of,
    same_query,
    snippet_of,
    words_in,
)

SPACED = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cn", "Co", "Cs"]).filter(lambda c: not is_unspaced(c)),
    max_size=MAX_WORD_CHARACTERS,
)


@given(SPACED)
@settings(deadline=None, max_examples=500)
def test_words_are_those_of_features(text: str) -> None:
    assert words_in(text) == words_of(text)


@given(st.text(st.sampled_from("aB1ßé“—日ไのк . _\n🎉"), max_size=40))
def test_pieces_are_the_words_where_they_stand(text: str) -> None:
    pieces = list(pieces_of(text))
    assert [word for _, _, word in pieces] == words_in(text)
    assert all(words_in(text[start:end]) == [word] for start, end, word in pieces)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Straße, “naïve” wing—tip", ["strasse", "naïve", "wing", "tip"]),
        ("日本語 ok", ["日", "本", "語", "ok"]),
        ("か\u3099", ["が"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("Ёж_и", ["ёж", "и"]),
        ("🎉party🎉", ["🎉", "party", "🎉"]),
    ],
)
def test_words_in_other_scripts(text: str, words: list[str]) -> None:
    assert words_in(text) == words


def test_a_word_without_end_is_several() -> None:
    assert [len(word) for word in words_in("x" * 150)] == [64, 64, 22]
    assert [len(word) for word in words_in("é" * 150)] == [64, 64, 22]


def test_letters_of_a_script_without_spaces_are_looked_for_by_two() -> None:
    assert runs_of(["wing", "日", "本", "語", "ok", "文"]) == [("wing",), ("日", "本"), ("本", "語"), ("ok",), ("文",)]


@pytest.mark.parametrize(
    ("text", "words", "phrases"),
    [
        ("The lift of a wing", ("lift", "wing"), ()),
        ("to be or not to be", ("to", "be", "or", "not", "to", "be"), ()),
        ('heat "of composite slabs"', ("heat", "composite", "slabs"), (("of", "composite", "slabs"),)),
        ("“curly” «quotes»", ("curly", "quotes"), (("curly",), ("quotes",))),
        ('an "open quote', ("open", "quote"), ()),
        ('"" AND (-) ~', ("and",), ()),
        ("", (), ()),
        ("   ", (), ()),
        ('"*" () + - : ^ ~', (), ()),
    ],
)
def test_words_and_phrases(text: str, words: tuple[str, ...], phrases: tuple[tuple[str, ...], ...]) -> None:
    assert read_text(text)[1:4] == (words, phrases, False)


@pytest.mark.parametrize(
    ("text", "prefix", "words", "begun"),
    [
        ("buck*", False, ("buck",), True),
        ("wing buck", True, ("wing", "buck"), True),
        ("wing buck ", True, ("wing", "buck"), True),
        ("wing buck.", True, ("wing", "buck"), False),
        ("lift of th", True, ("lift", "th"), True),
        ("lift of the", True, ("lift", "the"), True),
        ("*", False, (), False),
        ("", True, (), False),
    ],
)
def test_a_last_word_may_be_begun(text: str, prefix: bool, words: tuple[str, ...], begun: bool) -> None:
    query = read_text(text, prefix=prefix)
    assert (query.words, query.prefix) == (words, begun)


def test_long_queries_are_read_and_endless_ones_refused() -> None:
    assert len(read_text(" ".join(f"w{i}" for i in range(100))).words) == 100
    assert len(read_text("x " * 10_000).words) == MAX_QUERY_WORDS
    with pytest.raises(InvalidInput, match="20,001 characters; shorten it to 20,000"):
        read_text("x" * (MAX_QUERY_CHARACTERS + 1))
    with pytest.raises(InvalidInput, match="a query must be a text"):
        read_text(None)  # type: ignore[arg-type]


def test_words_are_excluded_and_documents_filtered() -> None:
    query = read_text('budget -2019 -"old plan" tag:Work after:2024-02 before:2025 note:x well-known', fields=["tag"])
    assert query.words == ("budget", "note", "x", "well", "known")
    assert query.excluded == ("2019", "old")
    tag, after, before = query.filters
    assert tag == QueryFilter("tag", "Work")
    assert (after.field, after.start, after.end) == ("at", datetime(2024, 2, 1, tzinfo=UTC).timestamp(), 0.0)
    assert (before.start, before.end) == (0.0, datetime(2025, 1, 1, tzinfo=UTC).timestamp())
    assert read_text("after:soon before:2024-13").filters == ()
    assert read_text("- a --b -").excluded == ()


def test_prose_has_no_operators() -> None:
    prose = "A long question of an agent. " * 20 + "-not after:2024 tag:x"
    assert (read_text(prose, fields=["tag"]).excluded, read_text(prose, fields=["tag"]).filters) == ((), ())


@pytest.mark.parametrize(
    ("text", "day"), [("2024", 19723), ("2023-02", 19389), ("2024-02-29", 19782), ("2023-02-29", None), ("x", None)]
)
def test_dates_are_years_months_and_days(text: str, day: int | None) -> None:
    assert date_of(text) == (None if day is None else 86_400.0 * day)


def test_names_of_long_queries_differ() -> None:
    words = [f"w{i}" for i in range(MAX_NAME_WORDS)]
    names = {same_query(read_text(" ".join([*words, last]))) for last in ("a", "b", "")}
    assert len(names) == 3


def test_queries_that_differ_in_marks_only_are_the_same() -> None:
    assert len({same_query(read_text(text)) for text in ("Wing lift", " wing  LIFT?", '"wing" lift')}) == 1
    assert same_query(read_text("lift wing")) != same_query(read_text("wing lift"))


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    query = read_text(text, prefix=True)
    assert not query.prefix or query.words


FAR = "Nothing of interest. " * 30


def same(words: list[str]) -> list[str]:
    return [word.rstrip("s") for word in words]


def marked(text: str, stems: set[str], begun: str = "") -> tuple[str, list[str]]:
    snippet = snippet_of(text, stems, begun, same)
    return snippet.text, [snippet.text[start:end] for start, end in snippet.highlights]


def test_the_whole_of_a_short_text() -> None:
    assert marked("Two wings,\none wing.", {"wing"}) == ("Two wings, one wing.", ["wings", "wing"])


def test_the_stretch_with_most_different_words() -> None:
    text = f"wing wing wing. {FAR} A wing with lift. {FAR}"
    shown, found = marked(text, {"wing", "lift"})
    assert found == ["wing", "lift"]
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= SNIPPET_CHARACTERS + 4


def test_a_text_without_the_words_begins_at_the_beginning() -> None:
    shown, found = marked(FAR, {"wing"})
    assert (shown.startswith("Nothing of interest."), found) == (True, [])


def test_a_beginning_is_highlighted_where_it_stands() -> None:
    assert marked("Propellers propel.", set(), "prop")[1] == ["Propellers", "propel"]


@pytest.mark.parametrize(("text", "word"), [("Это “зима”—здесь", "зима"), ("東京は日本の首都", "日"), ("a 🎉!", "🎉")])
def test_highlights_in_other_scripts_have_no_marks_around(text: str, word: str) -> None:
    assert marked(text, {word})[1] == [word]


def test_markup_stays_text() -> None:
    assert marked("<script>alert(1)</script> wing", {"wing"})[0] == "<script>alert(1)</script> wing"


@given(st.text(st.sampled_from("ab é日\n. "), max_size=600), st.sets(st.sampled_from(["a", "b", "ab", "日"])))
def test_highlights_are_words_of_the_query_in_order(text: str, stems: set[str]) -> None:
    snippet = snippet_of(text, stems, "", list)
    ends = [0, *(end for _, end in snippet.highlights)]
    for before, (start, end) in zip(ends, snippet.highlights):
        assert start >= before
        assert snippet.text[start:end] in stems
    assert len(snippet.text) <= SNIPPET_CHARACTERS + 4
    assert bool(snippet.highlights) == any(stem in words_in(text) for stem in stems)
