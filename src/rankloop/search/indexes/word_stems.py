"""Stems of words, and stems as numbers, each computed once."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import xxhash

from rankloop.core.types import Ints

MAX_KNOWN = 300_000  # words that are kept
NUMBER = np.dtype("<u4")


class WordStems:
    """What an index stems, with a memory: most words of a text were in another one before.

    `on_new` is told of words that were not, with their stems.
    """

    def __init__(
        self,
        stemmed: Callable[[list[str]], list[str]],
        on_new: Callable[[Iterable[tuple[str, str]]], None] = lambda stems: None,
    ) -> None:
        self._stemmed, self._on_new = stemmed, on_new
        self._known: dict[str, str] = {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        known = self._known
        try:
            return list(map(known.__getitem__, words))
        except KeyError:
            if len(known) > MAX_KNOWN:  # other threads go on with the old ones
                known = self._known = {}
        missing = [word for word in dict.fromkeys(words) if word not in known]
        new = dict(zip(missing, self._stemmed(missing)))
        self._on_new(new.items())
        known.update(new)
        return list(map(known.__getitem__, words))


class StemNumbers:
    """Stems as numbers of 32 bits, the same everywhere."""

    def __init__(self) -> None:
        self._known = _Numbers()

    def __call__(self, stems: Sequence[str]) -> Ints:
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        return np.fromiter(map(self._known.__getitem__, stems), NUMBER, len(stems))


class _Numbers(dict[str, int]):
    def __missing__(self, stem: str) -> int:
        number = self[stem] = xxhash.xxh32_intdigest(stem.encode(errors="replace"))
        return number
