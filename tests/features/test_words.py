"""Words and normal forms, written down: another Python or platform that reads a text otherwise would fail here."""

import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.features.words import STOP_WORDS, UNICODE_3_2, normal_form, words_of

COMBINING_ACUTE = "\u0301"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \t\n", []),
        ("Red running-shoes, size 42.5!", ["red", "running", "shoes", "size", "42", "5"]),
        ("don't_stop", ["don", "t", "stop"]),
        ("Café crème", ["caf\u00e9", "cr\u00e8me"]),
        ("Cafe\u0301 CRE\u0300ME", ["caf\u00e9", "cr\u00e8me"]),  # decomposed, and in capitals
        ("Straße STRASSE strasse", ["strasse", "strasse", "strasse"]),
        ("\u1e9e", ["\u1e9e"]),  # the capital sz is newer than Unicode 3.2: it stays as it is
        ("İstanbul ISTANBUL ıstanbul", ["i\u0307stanbul", "istanbul", "\u0131stanbul"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ", "σίσυφοσ"]),  # the last sigma is one of them
        ("Москва́ МОСКВА", ["москва\u0301", "москва"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("ﾀﾜｰ", ["タ", "ワ", "ー"]),  # half width
        ("か\u3099", ["が"]),  # two characters that are one
        ("iPhone15用ケース", ["iphone15", "用", "ケ", "ー", "ス"]),
        ("𠀋𠀌", ["𠀋", "𠀌"]),  # ideographs beyond the first plane
        ("한국어 책", ["한국어", "책"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", ["한국"]),  # letters of which Hangul syllables are composed
        ("ﬁne ＦＵＬＬ ①", ["fine", "full", "1"]),
        ("مُحَمَّد محمد", ["م\u064fح\u064eم\u064e\u0651د", "محمد"]),  # marks count
        ("हिन्दी", ["हिन्दी"]),
        ("ไทย", ["ไทย"]),
        ("shoes🔥now", ["shoes", "🔥", "now"]),
        ("🥰🫠", ["🥰", "🫠"]),
        ("👍🏽", ["👍", "🏽"]),
        ("I ❤️ it", ["i", "it"]),  # an old symbol is no letter, and its selector stands on nothing
        ("☀ hot", ["hot"]),
        ("\u0301\u0302", []),  # accents on nothing
        ("x" * 3 + COMBINING_ACUTE, ["xxx\u0301"]),
        ("zero\u200dwidth", ["zero", "width"]),
        ("𞤀𞤁", ["𞤀𞤁"]),  # Adlam, of Unicode 9: taken as letters, capitals as they are
    ],
)
def test_words(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (" Acme ", "Acme"),
        ("caf\u00e9", "caf\u00e9"),
        ("cafe\u0301", "caf\u00e9"),
        ("\u212b", "\u00c5"),  # the unit and the letter
        ("ﬁ", "ﬁ"),  # a category is not folded further than it looks
        ("\u00a0x\u3000", "x"),
        ("", ""),
    ],
)
def test_normal_form(text, form):
    assert normal_form(text) == form


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73\u0f74", "\u0301\uff9e", "\u05ae\u0301"])
def test_many_marks_take_linear_time(marks):
    """The library sorts the marks of a letter in quadratic time: 20 s for these, in which nothing else runs."""
    text, start = f"a{marks * 50_000} b", process_time()
    assert words_of(text)[-1] == normal_form(text)[-1] == "b"
    assert process_time() - start < 2
    assert normal_form(normal_form(text)) == normal_form(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_texts_go_the_same_way(text):
    """The fast way for ASCII and the long one agree."""
    assert words_of(text) == words_of(text + " é")[:-1]


@given(st.text())
def test_forms_are_stable(text):
    assert normal_form(normal_form(text)) == normal_form(text)
    words = words_of(text)
    assert all(words)
    assert words_of(" ".join(words)) == words


@given(st.text())
def test_composed_or_not_is_the_same(text):
    decomposed = unicodedata.ucd_3_2_0.normalize("NFD", text)
    if any(UNICODE_3_2.category(character) == "Cn" for character in text):
        return  # what came later is left alone
    assert words_of(decomposed) == words_of(text)
    assert normal_form(decomposed) == normal_form(text)


def test_what_came_later_is_not_composed():
    """Kirat Rai (Unicode 16) has letters that newer Pythons compose and older ones do not know."""
    assert normal_form("\U00016d67\U00016d67") == "\U00016d67\U00016d67"
    assert words_of("\U00016d67\U00016d67") == ["\U00016d67\U00016d67"]


def test_stop_words():
    assert len(STOP_WORDS) == 40
    assert {"the", "of", "with", "a"} <= STOP_WORDS
    assert all(words_of(word) == [word] for word in STOP_WORDS)
