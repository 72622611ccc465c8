"""Users who want documents of one topic, out of a collection."""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.random import Generator

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import kernel
from rankloop.core.registry import register
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.data.dataset import NO_CONTEXT
from rankloop.data.folder import data_path
from research.datasets.corpora import (
    Selection,
    TfIdfRows,
    TopicCorpus,
    rcv1_files,
    read_corpus,
    read_rcv1_tokens,
    tf_idf,
)


@register("topics")
class Topics:
    """Random documents of a collection as candidates; those of the person's topic have grade 1, all others 0.

    The features are tf-idf weights of the `n_words` words that tell most about the topics, chosen as `selection` says:
    by the sum of χ² over topics on counts, or by its maximum over topics on presence. One run is one person; the topic
    is drawn per run unless given. After Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable Coactive
    Learning via Perturbation". `path` is 20 Newsgroups, Reuters-21578, or the folder of RCV1's tokens. Needs the extra
    `data`.
    """

    path: str
    topic: str | None = None
    candidates: int = 50
    n_words: int = 1000
    selection: Selection = "counts"

    def __post_init__(self) -> None:
        check_at_least(1, candidates=self.candidates, n_words=self.n_words)

    @property
    def problem(self) -> Problem:
        """Return the problem that learners are initialised with."""
        names = self._loaded()[1].names
        return Problem(n_features=len(names), feature_names=names)

    def rounds(self, rng: Generator) -> Iterator[tuple[Query, Floats]]:
        """Yield queries and their hidden relevances."""
        corpus, words = self._loaded()
        topic = self._topic(corpus, rng)
        is_relevant = np.array([topic in topics for topics in corpus.topics], dtype=np.float64)
        size = min(self.candidates, len(is_relevant))
        while True:
            rows = _distinct(len(is_relevant), rng.random(2 * size))
            yield (
                Query(topic, _dense(words.values, words.columns, words.starts, rows, len(words.names)), NO_CONTEXT),
                is_relevant[rows],
            )

    def frequencies(self) -> dict[str, float]:
        """The share of the documents that each topic has, by its name."""
        topics, n_documents = self._loaded()[0].topics, len(self._loaded()[0].texts)
        counts = Counter(topic for document_topics in topics for topic in document_topics)
        return {topic: count / n_documents for topic, count in sorted(counts.items())}

    def _topic(self, corpus: TopicCorpus, rng: Generator) -> str:
        names = corpus.topic_names
        drawn = names[int(rng.random() * len(names))]
        if self.topic is not None and self.topic not in names:
            raise InvalidInput(f"no topic {self.topic!r} in {self.path!r}{nearest(self.topic, names)}")
        return drawn if self.topic is None else self.topic

    def _loaded(self) -> tuple[TopicCorpus, TfIdfRows]:
        return _load(str(data_path(self.path)), self.n_words, self.selection)


@functools.lru_cache(maxsize=2)
def _load(path: str, n_words: int, selection: Selection) -> tuple[TopicCorpus, TfIdfRows]:
    of_rcv1 = rcv1_files(Path(path), "tokens")
    corpus = read_rcv1_tokens(path) if of_rcv1 else read_corpus(path)
    return corpus, tf_idf(corpus, n_words, selection)


@kernel
def _distinct(n: int, draws: Floats) -> Ints:
    """len(draws) / 2 different numbers below n in random order: Floyd's method, then a Fisher–Yates shuffle."""
    size = len(draws) // 2
    chosen = np.empty(size, np.int64)
    for i in range(size):
        top = n - size + i
        candidate = int(draws[i] * (top + 1))
        for j in range(i):
            if chosen[j] == candidate:
                candidate = top
                break
        chosen[i] = candidate
    for i in range(size):
        j = i + int(draws[size + i] * (size - i))
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return chosen


@kernel
def _dense(values: Floats, columns: Ints, starts: Ints, rows: Ints, n_columns: int) -> Floats:
    table = np.zeros((len(rows), n_columns))
    for i in range(len(rows)):
        for position in range(starts[rows[i]], starts[rows[i] + 1]):
            table[i, columns[position]] = values[position]
    return table
