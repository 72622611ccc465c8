"""Words of texts and queries as they are indexed and looked for, and the piece of a text that is shown."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, pairwise

import xxhash

from rankloop.core.errors import InvalidInput
from rankloop.features.words import STOP_WORDS, normal_form, words_of
from rankloop.search.engine import QueryFilter, Snippet, TextQuery

MAX_WORD_CHARACTERS = 64  # characters; what is longer is several words
ASCII_SEPARATORS = "\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f"  # all of ASCII but letters and digits
IDEOGRAPH_RANGES = "\u3041-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"  # Han, Hiragana, Katakana
EMOJI_RANGE = "\U0001f000-\U0001faff"
WITHOUT_SPACES = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
VOICING_MARKS = "\u3099\u309a"  # marks of kana that may stand apart from them
ASCII_WORD = re.compile(f"[a-z0-9]{{1,{MAX_WORD_CHARACTERS}}}")
TEXT_PIECE = re.compile(
    f"[{IDEOGRAPH_RANGES}][{VOICING_MARKS}]|[{IDEOGRAPH_RANGES}{EMOJI_RANGE}]|[^{ASCII_SEPARATORS}{IDEOGRAPH_RANGES}{EMOJI_RANGE}]{{1,{MAX_WORD_CHARACTERS}}}"
)
UNSPACED_LETTERS = re.compile(f"[{WITHOUT_SPACES}]|[^{WITHOUT_SPACES}]+")
COMBINING_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff"  # accents, points and vowel signs
SPACED_LETTER = f"[^\\W_{WITHOUT_SPACES}]"
WORD_PART = re.compile(
    f"[{IDEOGRAPH_RANGES}{EMOJI_RANGE}{WITHOUT_SPACES}]|{SPACED_LETTER}(?:{SPACED_LETTER}|[{COMBINING_MARKS}])*"
)
UNSPACED_LETTER = re.compile(f"[{IDEOGRAPH_RANGES}{WITHOUT_SPACES}]")


def words_in(text: str) -> list[str]:
    """Return the letters and digits that stand together, in lower case.

    In scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Burmese, Khmer) every letter is a word,
    and so is every emoji.
    """
    if text.isascii():
        return ASCII_WORD.findall(text.lower())
    words = list[str]()
    for piece in TEXT_PIECE.findall(text):
        if piece.isascii():
            words.append(piece.lower())
        else:
            words += _words(piece)
    return words


def is_unspaced(word: str) -> bool:
    """Return True where a word has letters of a script that is written without spaces."""
    return UNSPACED_LETTER.search(word) is not None


def runs_of(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each word by itself; in scripts without spaces every two letters that follow each other."""
    runs = list[tuple[str, ...]]()
    for is_letter, group in groupby(words, is_unspaced):
        run = tuple(group)
        runs += pairwise(run) if is_letter and len(run) > 1 else ((word,) for word in run)
    return runs


def pieces_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the words of a text with their places, in characters: start, end, word."""
    if text.isascii():
        yield from ((match.start(), match.end(), match[0]) for match in ASCII_WORD.finditer(text.lower()))
        return
    for match in TEXT_PIECE.finditer(text):
        start, end = match.span()
        if match[0].isalnum() and not is_unspaced(match[0]):
            yield from ((start, end, word) for word in words_in(match[0])[:1])
        else:  # quotes or dashes beyond ASCII may stand in it, or letters that are words
            for part in WORD_PART.finditer(match[0]):
                word = part[0] if is_unspaced(part[0]) else "".join(words_in(part[0])[:1])
                yield start + part.start(), start + part.end(), word


@lru_cache(1 << 16)
def _words(piece: str) -> tuple[str, ...]:
    letters = (UNSPACED_LETTERS.findall(word) if is_unspaced(word) else [word] for word in words_of(piece))
    return tuple(part for parts in letters for part in parts)


MAX_QUERY_CHARACTERS = 20_000
MAX_QUERY_WORDS = 4_000
MAX_PHRASE_WORDS = 40
MAX_OPERATOR_CHARACTERS = 500  # a longer query is prose, in which a dash or a colon is no operator
MAX_NAME_CHARACTERS, MAX_NAME_WORDS = 200, 40  # of a query in the log
QUOTED_PHRASE = re.compile('["“„«]([^"“”„«»]*)["”“»]')
EXCLUDED_WORD = re.compile(r'(?<!\S)-(?:"([^"]{1,200})"|(\w[^\s"]{0,100}))')
FIELD_FILTER = re.compile(r'(?<!\S)(\w{1,40}):(?:"([^"]{1,200})"|([^\s":][^\s"]{0,199}))')
DATE_PATTERN = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?")


def read_text(text: str, *, prefix: bool = False, fields: Iterable[str] = ()) -> TextQuery:
    """Read a query as a visitor types it.

    Common words such as "the" are left out where others remain. What stands in quotes is a phrase that documents must
    have, `-word` excludes documents, `field:value` and `after:2024-01`, `before:2025` filter them. A last word that
    ends in `*` is only begun. Everything else that is not a letter or a digit is ignored.

    Args:
      text: At most 20,000 characters.
      prefix: The last word is only begun, because the visitor is still typing.
      fields: Names of fields that can be filtered.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a query must be a text, got {text!r:.60}")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"the query has {len(text):,} characters; shorten it to {MAX_QUERY_CHARACTERS:,}")
    kept = plain = normal_form(text)
    filters, excluded = list[QueryFilter](), list[str]()
    if len(kept) <= MAX_OPERATOR_CHARACTERS:
        filters, plain = _filters(kept, {name.lower(): name for name in fields})
        excluded = [word for match in EXCLUDED_WORD.finditer(plain) for word in words_in(match[1] or match[2])[:1]]
        plain = EXCLUDED_WORD.sub(" ", plain).strip()
    words = words_in(plain)[:MAX_QUERY_WORDS]
    is_begun = bool(words) and (plain.endswith("*") or (prefix and plain[-1].isalnum()))
    telling = [word for word in words if word not in STOP_WORDS]
    if is_begun and telling[-1:] != words[-1:]:
        telling.append(words[-1])
    phrases = [tuple(words_in(quoted)[:MAX_PHRASE_WORDS]) for quoted in QUOTED_PHRASE.findall(plain)]
    return TextQuery(
        text=kept,
        words=tuple(telling or words),
        phrases=tuple(phrase for phrase in phrases if phrase),
        prefix=is_begun,
        excluded=tuple(dict.fromkeys(excluded)),
        filters=tuple(filters),
    )


def _filters(text: str, fields: Mapping[str, str]) -> tuple[list[QueryFilter], str]:
    """Return the filters of a query and its text without them; a name that is no field stays a word."""
    filters, pieces, end = list[QueryFilter](), list[str](), 0
    for match in FIELD_FILTER.finditer(text):
        name, value = match[1].lower(), match[2] or match[3]
        date = date_of(value) if name in ("after", "before") else None
        if date is not None:
            start, until = (date, 0.0) if name == "after" else (0.0, date)
            filters.append(QueryFilter("at", value, start, until))
        elif name in fields:
            filters.append(QueryFilter(fields[name], value))
        else:
            continue
        pieces.append(text[end : match.start()])
        end = match.end()
    return filters, " ".join([*pieces, text[end:]]).strip() if filters else text


def date_of(text: str) -> float | None:
    """Return the first second of 2024, 2024-01 or 2024-01-31 since 1970; None for a text that is no date."""
    if match := DATE_PATTERN.fullmatch(text):
        with suppress(ValueError):
            return datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1), tzinfo=UTC).timestamp()
    return None


def same_query(query: TextQuery) -> str:
    """Return a name that is equal for queries that differ in capitals, spaces and punctuation only."""
    # Of a long query it is the beginning and a hash of all words.
    words = words_in(query.text)
    name = " ".join(words[:MAX_NAME_WORDS])
    if len(words) <= MAX_NAME_WORDS and len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[:MAX_NAME_CHARACTERS]} {xxhash.xxh3_64_hexdigest(' '.join(words).encode())}"


SNIPPET_CHARACTERS = 200
MAX_CHARACTERS_BEFORE = 60  # the first word that is highlighted
MAX_CHARACTERS_TO_WORD = 30  # by which a piece is moved to the beginning or end of a word
MAX_SEARCHED_CHARACTERS = 100_000  # of a text, for the best piece
LINE_BREAKS_TO_SPACES = str.maketrans("\n\t\r\x0b\x0c\u2028\u2029", "       ")


def snippet_of(text: str, stems: Iterable[str], begun: str, stems_of: Callable[[list[str]], list[str]]) -> Snippet:
    """Return the piece with most different words of a query; of those the one with most hits, of those the first.

    Args:
      text: The body of a document. Without any word of the query its beginning is returned.
      stems: Of the query's words.
      begun: The beginning of a word that is still being typed; may be empty.
      stems_of: Returns the stems of words of the text.
    """
    text_start = text[:MAX_SEARCHED_CHARACTERS]
    pieces, query_stems = list(pieces_of(text_start)), set(stems)
    text_stems = stems_of([word for _, _, word in pieces])
    hits = [
        (start, end, stem)
        for (start, end, word), stem in zip(pieces, text_stems)
        if stem in query_stems or (begun and word.startswith(begun))
    ]
    first = _best(hits)
    start = max(hits[first][0] - MAX_CHARACTERS_BEFORE, 0) if hits else 0
    if start:  # The piece begins and ends with a word.
        nearest = range(start, min(start + MAX_CHARACTERS_TO_WORD, len(text_start)))
        start = next((at for at in nearest if text_start[at - 1].isspace()), start)
    end = min(start + SNIPPET_CHARACTERS, len(text))
    nearest = range(end, max(end - MAX_CHARACTERS_TO_WORD, 0), -1)
    end = next((at for at in nearest if at == len(text) or text[at].isspace()), end)
    marked = [(a, b) for a, b, _ in hits if start <= a and b <= end]
    opening, closing = "… " if start else "", " …" if end < len(text.rstrip()) else ""
    shown = text[start:end].translate(LINE_BREAKS_TO_SPACES).rstrip()
    shift = len(opening) - start
    return Snippet(opening + shown + closing, tuple((a + shift, b + shift) for a, b in marked))


def _best(hits: list[tuple[int, int, str]]) -> int:
    """Return the hit from which on a piece has most different stems, then most hits."""
    best, first, end = (0, 0), 0, 0
    counts = dict[str, int]()  # of the stems from hit i to `end`, which fit into one piece
    for i, (start, _, stem) in enumerate(hits):
        while end < len(hits) and hits[end][1] <= start + SNIPPET_CHARACTERS - MAX_CHARACTERS_BEFORE:
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
