"""What people type into a search box, read as words, phrases and a beginning; nothing in it is an operator."""

import re

import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.features.words import STOP_WORDS, normal_form
from rankloop.search.engine import TextQuery
from rankloop.search.texts.text_words import words_in

MAX_CHARACTERS = 1_000
MAX_WORDS = 40
MAX_NAME = 200  # characters of a query in the log
QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')


def read_text(text: str, *, prefix: bool = False) -> TextQuery:
    """The words of a text, common ones such as "the" left out where others remain.

    What stands in quotes is a phrase. A last word that ends in `*`, or any last word when `prefix` is set (somebody is
    still typing), is only begun. Everything else that is not a letter or a digit is ignored. Of a long text the first
    40 words are looked for; one of more than 1,000 characters is refused.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a query is a text, got {text!r:.60}")
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(f"a query of {len(text)} characters; at most {MAX_CHARACTERS} are taken")
    kept = normal_form(text)
    words = words_in(kept)[:MAX_WORDS]
    is_begun = bool(words) and (_is_open(kept) if prefix else kept.endswith("*"))
    telling = [word for word in words if word not in STOP_WORDS]
    if is_begun and telling[-1:] != words[-1:]:
        telling.append(words[-1])
    phrases = [tuple(words_in(found)[:MAX_WORDS]) for found in QUOTED.findall(kept)]
    return TextQuery(kept, tuple(telling or words), tuple(phrase for phrase in phrases if phrase), is_begun)


def same_query(query: TextQuery) -> str:
    """What is the same for queries that differ in capitals, spaces and punctuation only.

    Of a long one it is the beginning, and a number in place of the rest.
    """
    name = " ".join(words_in(query.text)[:MAX_WORDS])
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]} {xxhash.xxh3_64_hexdigest(name.encode())}"


def _is_open(text: str) -> bool:
    """Whether the last word may still go on."""
    return text[-1].isalnum() or text.endswith("*")
