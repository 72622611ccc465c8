"""Words of a text, the same on every Python: characters are judged by the Unicode 3.2 tables that all of them carry."""

import re
import unicodedata
from itertools import groupby
from typing import Literal

UNICODE_3_2 = unicodedata.ucd_3_2_0  # never changes; later characters count as letters and stay as they are
ASCII_WORD = re.compile("[a-z0-9]+")
MARK_RANGES = range(0x300, 0x3100), range(0xFB1E, 0xFE24), range(0x1D165, 0x1D1AE)
MARKS = "".join(chr(i) for each in MARK_RANGES for i in each if UNICODE_3_2.category(chr(i))[0] == "M") + "\uff9e\uff9f"
SURPLUS_MARKS = re.compile(f"(?<=[{MARKS}]{{30}})[{MARKS}]+")  # no word of any language has 30 in a row
IDEOGRAPH = re.compile("[\u3041-\u30ff\u3400-\u9fff\U0001f000-\U0001faff\U00020000-\U0003ffff]")  # and kana, emoji
STOP_WORDS = {
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "has", "have", "if",
    "in", "into", "is", "it", "its", "no", "not", "of", "on", "or", "s", "such", "t", "that",
    "the", "their", "then", "there", "these", "they", "this", "to", "was", "were", "will", "with",
}  # fmt: skip


def normal_form(text: str) -> str:
    """Return a text in canonical composition (NFC), without surrounding space."""
    return text.strip() if text.isascii() else _normal_form("NFC", text).strip()


def words_of(text: str) -> list[str]:
    """Split a text into runs of letters and digits, in lower case; each ideograph or emoji is a word."""
    if text.isascii():
        return ASCII_WORD.findall(text.lower())
    folded = "".join(each if _is_later(each) else each.casefold() for each in _normal_form("NFKC", text))
    words, word = [], ""
    for character in _normal_form("NFKC", folded):
        category = UNICODE_3_2.category(character)
        if IDEOGRAPH.match(character):
            words += [word, character]
            word = ""
        elif category[0] in "LN" or category == "Cn" or (word and category[0] == "M"):  # M: accents and the like
            word += character
        else:
            words.append(word)
            word = ""
    return [word for word in [*words, word] if word]


def _normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return the normal form by Unicode 3.2; later characters are kept, because Python versions differ in them."""
    text = SURPLUS_MARKS.sub("", text)  # they are sorted in quadratic time, while no other thread runs
    parts = ((is_later, "".join(run)) for is_later, run in groupby(text, _is_later))
    normal = "".join(part if is_later else UNICODE_3_2.normalize(form, part) for is_later, part in parts)
    return SURPLUS_MARKS.sub("", normal)  # a mark may have become two


def _is_later(character: str) -> bool:
    return UNICODE_3_2.category(character) == "Cn"
