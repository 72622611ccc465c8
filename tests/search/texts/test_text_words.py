"""Words of a text: the same as those of features, but quick, and letter by letter where a script has no spaces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.features.words import words_of
from rankloop.search.texts.text_words import MAX_WORD, is_unspaced, pieces_of, runs_of, words_in

SPACED = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cn", "Co", "Cs"]).filter(lambda c: not is_unspaced(c)),
    max_size=MAX_WORD,
)


@given(SPACED)
@settings(deadline=None, max_examples=500)
def test_words_are_those_of_features(text: str) -> None:
    assert words_in(text) == words_of(text)


@given(st.text(st.sampled_from("aB1ßé“—日ไのк . _\n🎉"), max_size=40))
def test_pieces_are_the_words_where_they_stand(text: str) -> None:
    pieces = list(pieces_of(text))
    assert [piece.word for piece in pieces] == words_in(text)
    assert all(words_in(text[piece.start : piece.end]) == [piece.word] for piece in pieces)


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
