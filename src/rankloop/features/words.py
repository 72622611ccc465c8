"""Words of a text, the same on every Python: characters are judged by the Unicode 3.2 tables that all of them carry."""

import re
import unicodedata

TABLES = unicodedata.ucd_3_2_0  # never changes; what was added to Unicode later counts as a letter and stays as it is
PLAIN = re.compile("[a-z0-9]+")
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "no",
        "not",
        "of",
        "on",
        "or",
        "s",
        "such",
        "t",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "were",
        "will",
        "with",
    ]
)


def normal_form(text: str) -> str:
    """Canonically composed (NFC), without space around it: texts that look the same are the same."""
    return text.strip() if text.isascii() else TABLES.normalize("NFC", text).strip()


def words_of(text: str) -> list[str]:
    """Letters and digits that stand together, in lower case; every ideograph is a word of its own."""
    if text.isascii():
        return PLAIN.findall(text.lower())
    folded = "".join(map(_folded, TABLES.normalize("NFKC", text)))
    found, word = [], ""
    for character in TABLES.normalize("NFKC", folded):
        if _is_ideograph(character):
            found += [word, character]
            word = ""
        elif _is_letter(character):
            word += character
        else:
            found.append(word)
            word = ""
    return [word for word in [*found, word] if word]


def _folded(character: str) -> str:
    return character if TABLES.category(character) == "Cn" else character.casefold()


def _is_letter(character: str) -> bool:
    return TABLES.category(character)[0] in "LMN" or TABLES.category(character) == "Cn"


def _is_ideograph(character: str) -> bool:
    """Han, Hiragana and Katakana, which are written without spaces."""
    return "\u3041" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"
