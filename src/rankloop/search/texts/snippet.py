"""The piece of a text that shows best why it was found."""

from collections.abc import Callable, Iterable

from rankloop.search.engine import Snippet
from rankloop.search.texts.text_words import pieces_of

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
