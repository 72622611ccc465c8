"""Words of texts and queries as they are indexed and looked for, and the piece of a text that is shown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.features.words import STOP_WORDS, normal_form, words_of
from rankloop.search.engine import Snippet, TextQuery

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


class WordPosition(NamedTuple):
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


def pieces_of(text: str) -> Iterator[WordPosition]:
    """The words of a text with where they stand, in characters."""
    if text.isascii():
        yield from (WordPosition(match.start(), match.end(), match[0]) for match in PLAIN.finditer(text.lower()))
        return
    for match in PIECE.finditer(text):
        start, end = match.span()
        if match[0].isalnum() and not is_unspaced(match[0]):
            yield from (WordPosition(start, end, word) for word in words_in(match[0])[:1])
        else:  # quotes or dashes beyond ASCII may stand in it, or letters that are words
            for part in PART.finditer(match[0]):
                word = part[0] if is_unspaced(part[0]) else "".join(words_in(part[0])[:1])
                yield WordPosition(start + part.start(), start + part.end(), word)


@lru_cache(1 << 16)
def _words(piece: str) -> tuple[str, ...]:
    return tuple(part for word in words_of(piece) for part in _letters(word))


def _letters(word: str) -> list[str]:
    return LETTERS.findall(word) if is_unspaced(word) else [word]


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


SIZE = 200  # characters
BEFORE = 60  # of them at most before the first word that is highlighted
MAX_SEARCHED = 100_000  # characters of a text that are searched for the piece
SPACE = str.maketrans("\n\t\r\x0b\x0c\u2028\u2029", "       ")


def snippet_of(text: str, stems: Iterable[str], begun: str, stems_of: Callable[[list[str]], list[str]]) -> Snippet:
    """The stretch with most different words of a query; of those the one with most, of those the first.

    A word is in the query if its stem is in `stems`, or if it begins with `begun`, where that is not empty. A text
    without any gives its beginning.
    """
    text_start = text[:MAX_SEARCHED]
    pieces, wanted = list(pieces_of(text_start)), set(stems)
    found = stems_of([piece.word for piece in pieces])
    hits = [
        (piece.start, piece.end, stem)
        for piece, stem in zip(pieces, found)
        if stem in wanted or (begun and piece.word.startswith(begun))
    ]
    first = _best(hits)
    start = max(hits[first][0] - BEFORE, 0) if hits else 0
    start = _at_word(text_start, start) if start else 0
    end = min(start + SIZE, len(text))
    end = _after_word(text, end)
    marked = [(a, b) for a, b, _ in hits if start <= a and b <= end]
    opening = "… " if start else ""
    shift = len(opening) - start
    shown = opening + text[start:end].translate(SPACE).rstrip() + (" …" if end < len(text.rstrip()) else "")
    return Snippet(shown, tuple((a + shift, b + shift) for a, b in marked))


def _best(hits: list[tuple[int, int, str]]) -> int:
    """The hit from which on a stretch has most different stems, then most hits."""
    best, first, end = (0, 0), 0, 0
    counts = dict[str, int]()
    for i, (start, _, stem) in enumerate(hits):
        while end < len(hits) and hits[end][1] <= start + SIZE - BEFORE:
            counts[hits[end][2]] = counts.get(hits[end][2], 0) + 1
            end += 1
        if (len(counts), end - i) > best:
            best, first = (len(counts), end - i), i
        if end > i:
            counts[stem] -= 1
            if not counts[stem]:
                del counts[stem]
        else:
            end = i + 1
    return first


def _after_word(text: str, end: int) -> int:
    """The last end of a word, a few characters before at most."""
    for at in range(end, max(end - BEFORE // 2, 0), -1):
        if at == len(text) or text[at].isspace():
            return at
    return end


def _at_word(text: str, start: int) -> int:
    """The next beginning of a word, a few characters on at most."""
    for at in range(start, min(start + BEFORE // 2, len(text))):
        if text[at - 1].isspace():
            return at
    return start
