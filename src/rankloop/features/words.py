"""Words of a text, the same on every Python: characters are judged by the Unicode 3.2 tables that all of them carry."""

import re
import unicodedata
from itertools import groupby
from typing import Literal

TABLES = unicodedata.ucd_3_2_0  # never changes; what was added to Unicode later counts as a letter and stays as it is
PLAIN = re.compile("[a-z0-9]+")
STOP_WORDS = {
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "has", "have", "if",
    "in", "into", "is", "it", "its", "no", "not", "of", "on", "or", "s", "such", "t", "that",
    "the", "their", "then", "there", "these", "they", "this", "to", "was", "were", "will", "with",
}  # fmt: skip


def normal_form(text: str) -> str:
    """Canonically composed (NFC), without space around it: texts that look the same are the same."""
    return text.strip() if text.isascii() else _composed("NFC", text).strip()


def words_of(text: str) -> list[str]:
    """Letters and digits that stand together, in lower case; every ideograph and emoji is a word of its own."""
    if text.isascii():
        return PLAIN.findall(text.lower())
    folded = "".join(map(_folded, _composed("NFKC", text)))
    found, word = [], ""
    for character in _composed("NFKC", folded):
        if _is_ideograph(character):
            found += [word, character]
            word = ""
        elif _is_letter(character) or (word and _is_mark(character)):
            word += character
        else:
            found.append(word)
            word = ""
    return [word for word in [*found, word] if word]


def _composed(form: Literal["NFC", "NFKC"], text: str) -> str:
    """The normal form by Unicode 3.2; what came later is left alone, as Pythons differ in composing it."""
    parts = ((is_later, "".join(run)) for is_later, run in groupby(text, _is_later))
    return "".join(part if is_later else TABLES.normalize(form, part) for is_later, part in parts)


def _is_later(character: str) -> bool:
    return TABLES.category(character) == "Cn"


def _folded(character: str) -> str:
    return character if _is_later(character) else character.casefold()


def _is_letter(character: str) -> bool:
    return TABLES.category(character)[0] in "LN" or _is_later(character)


def _is_mark(character: str) -> bool:
    """An accent or the like, which belongs to the letter before it."""
    return TABLES.category(character)[0] == "M"


def _is_ideograph(character: str) -> bool:
    """Han, Hiragana and Katakana, which are written without spaces, and the blocks of emoji."""
    return (
        "\u3041" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\U0001f000" <= character <= "\U0001faff"
        or "\U00020000" <= character <= "\U0003ffff"
    )
