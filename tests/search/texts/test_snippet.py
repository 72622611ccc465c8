"""The piece of a text that is shown: with most of the query's words, highlighted where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.search.texts.snippet import SIZE, snippet_of
from rankloop.search.texts.text_words import words_in

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
    assert len(shown) <= SIZE + 4


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
    assert len(snippet.text) <= SIZE + 4
    assert bool(snippet.highlights) == any(stem in words_in(text) for stem in stems)
