"""What people type, as words, phrases and a beginning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.search.text_query import MAX_WORDS, read_text, same_query


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
    assert read_text(text)[1:] == (words, phrases, False)


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


def test_long_queries_are_cut_and_endless_ones_refused() -> None:
    assert len(read_text(" ".join(f"w{i}" for i in range(100))).words) == MAX_WORDS
    with pytest.raises(InvalidInput, match="1001 characters; at most 1000"):
        read_text("x" * 1_001)
    with pytest.raises(InvalidInput, match="a query is a text"):
        read_text(None)  # type: ignore[arg-type]


def test_queries_that_differ_in_marks_only_are_the_same() -> None:
    assert len({same_query(read_text(text)) for text in ("Wing lift", " wing  LIFT?", '"wing" lift')}) == 1
    assert same_query(read_text("lift wing")) != same_query(read_text("wing lift"))


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    query = read_text(text, prefix=True)
    assert not query.prefix or query.words
