"""Stems of words, each computed once."""

from collections.abc import Callable, Sequence

MAX_KNOWN = 300_000  # words that are kept


class WordStems:
    """What an index stems, with a memory: most words of a text were in another one before."""

    def __init__(self, stemmed: Callable[[list[str]], list[str]]) -> None:
        self._stemmed = stemmed
        self._known: dict[str, str] = {}

    def __call__(self, words: Sequence[str]) -> list[str]:
        known = self._known
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if len(known) + len(missing) > MAX_KNOWN:
            known.clear()
            missing = list(dict.fromkeys(words))
        if missing:
            known.update(zip(missing, self._stemmed(missing)))
        return [known[word] for word in words]
