"""What people type into a search box, read as words, phrases and a beginning; nothing in it is an operator."""

import re

from rankloop.core.errors import InvalidInput
from rankloop.features.words import STOP_WORDS, normal_form, words_of
from rankloop.search.engine import TextQuery

MAX_CHARACTERS = 1_000
MAX_WORDS = 40
QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')


def read_text(text: str, *, prefix: bool = False) -> TextQuery:
    """The words of a text, common ones such as "the" left out where others remain.

    What stands in quotes is a phrase. A last word that ends in `*`, or any last word when `prefix` is set (somebody is
    still typing), is only begun. Everything else that is not a letter or a digit is ignored.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a query is a text, got {text!r:.60}")
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(f"a query of {len(text)} characters; at most {MAX_CHARACTERS} are taken")
    kept = normal_form(text)
    begun = prefix and bool(kept) and kept[-1].isalnum()
    words = words_of(kept)[:MAX_WORDS]
    telling = [word for word in words if word not in STOP_WORDS]
    if begun and words and (not telling or telling[-1] != words[-1]):
        telling.append(words[-1])
    phrases = [tuple(words_of(found)[:MAX_WORDS]) for found in QUOTED.findall(kept)]
    return TextQuery(
        kept,
        tuple(telling or words),
        tuple(phrase for phrase in phrases if phrase),
        (begun or kept.endswith("*")) and bool(words),
    )


def same_query(query: TextQuery) -> str:
    """What is the same for queries that differ in capitals, spaces and punctuation only."""
    return " ".join(words_of(query.text)[:MAX_WORDS])
