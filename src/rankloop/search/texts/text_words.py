"""The words of a text, as they are indexed and looked for, and where they stand in it."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

from rankloop.features.words import words_of

MAX_WORD = 64  # characters; what is longer is several words
SEPARATORS = "\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f"  # all of ASCII but letters and digits
IDEOGRAPHS = "\u3041-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"  # Han, Hiragana, Katakana
EMOJI = "\U0001f000-\U0001faff"
WITHOUT_SPACES = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
VOICED = "\u3099\u309a"  # marks of kana that may stand apart from them
PLAIN = re.compile(f"[a-z0-9]{{1,{MAX_WORD}}}")
PIECE = re.compile(f"[{IDEOGRAPHS}][{VOICED}]|[{IDEOGRAPHS}{EMOJI}]|[^{SEPARATORS}{IDEOGRAPHS}{EMOJI}]{{1,{MAX_WORD}}}")
LETTERS = re.compile(f"[{WITHOUT_SPACES}]|[^{WITHOUT_SPACES}]+")
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff"  # accents, points and vowel signs
SPACED = f"[^\\W_{WITHOUT_SPACES}]"
PART = re.compile(f"[{IDEOGRAPHS}{EMOJI}{WITHOUT_SPACES}]|{SPACED}(?:{SPACED}|[{MARKS}])*")
UNSPACED = re.compile(f"[{IDEOGRAPHS}{WITHOUT_SPACES}]")


class Piece(NamedTuple):
    """A part of a text that is one word."""

    start: int
    end: int
    word: str


def words_in(text: str) -> list[str]:
    """Letters and digits that stand together, in lower case.

    In scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Burmese, Khmer) every letter is a word,
    and so is every emoji.
    """
    if text.isascii():
        return PLAIN.findall(text.lower())
    found = list[str]()
    for piece in PIECE.findall(text):
        if piece.isascii():
            found.append(piece.lower())
        else:
            found += _words(piece)
    return found


def is_unspaced(word: str) -> bool:
    """Whether letters are in it of a script in which a word is several of them, with no spaces between."""
    return UNSPACED.search(word) is not None


def runs_of(words: Sequence[str]) -> list[tuple[str, ...]]:
    """What to look for: each word; in scripts without spaces every two letters that follow each other."""
    found = list[tuple[str, ...]]()
    for is_letter, group in groupby(words, is_unspaced):
        run = tuple(group)
        found += pairwise(run) if is_letter and len(run) > 1 else ((word,) for word in run)
    return found


def pieces_of(text: str) -> Iterator[Piece]:
    """The words of a text with where they stand, in characters."""
    if text.isascii():
        yield from (Piece(match.start(), match.end(), match[0]) for match in PLAIN.finditer(text.lower()))
        return
    for match in PIECE.finditer(text):
        start, end = match.span()
        if match[0].isalnum() and not is_unspaced(match[0]):
            yield from (Piece(start, end, word) for word in words_in(match[0])[:1])
        else:  # quotes or dashes beyond ASCII may stand in it, or letters that are words
            for part in PART.finditer(match[0]):
                word = part[0] if is_unspaced(part[0]) else "".join(words_in(part[0])[:1])
                yield Piece(start + part.start(), start + part.end(), word)


@lru_cache(1 << 16)
def _words(piece: str) -> tuple[str, ...]:
    return tuple(part for word in words_of(piece) for part in _letters(word))


def _letters(word: str) -> list[str]:
    return LETTERS.findall(word) if is_unspaced(word) else [word]
