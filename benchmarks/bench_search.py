"""Search: 100,000 documents of 1 kB, how long they take to index, and a search beside the time in the engine itself."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numpy.random import default_rng

from benchmarks.measurement import Row, alone, row, timed
from rankloop.search.engine import TextDocument, TextQuery
from rankloop.search.local_engine import LocalEngine
from rankloop.search.sources import Skipped, SourceDocument
from rankloop.search.texts import read_text

N_DOCUMENTS, N_WORDS, N_DIFFERENT = 100_000, 160, 50_000
N_CANDIDATES, N_QUERIES, N_RESULTS = 100, 200, 10
N_REPEATS = 5
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return _rows(Path(folder))


def _rows(folder: Path) -> list[Row]:
    engine, source = LocalEngine(folder), Synthetic()
    made, made_cpu = _wall_and_cpu(lambda: sum(1 for _ in source.documents({})))
    before = _peak()
    seconds, cpu = _wall_and_cpu(lambda: engine.refresh(source))
    seconds -= made
    note = f"peak of memory {_peak():.0f} MB, {before:.0f} MB before; {cpu - made_cpu:.0f} s of CPU"
    rows = [alone("search: index 100,000 documents of 1 kB", seconds, target="120 s", note=note)]
    queries = [read_text(text) for text in source.queries()]
    rows += [_searches(engine, queries), _snippets(engine, queries)]
    engine.close()
    return rows


def _searches(engine: LocalEngine, queries: list[TextQuery]) -> Row:
    """Both for every query in turn, so that a busy machine hits both."""

    def ours(query: TextQuery) -> None:
        candidates = engine.candidates(query, N_CANDIDATES)
        engine.features(query, [candidate.id for candidate in candidates])

    def both(query: TextQuery) -> tuple[float, ...]:
        terms = engine._match(query).terms
        engine._memo.clear()
        index_query = engine.index_query(query, terms)
        index_seconds, index_cpu = _wall_and_cpu(lambda: engine.index.search(index_query, N_CANDIDATES))
        seconds, cpu = _wall_and_cpu(lambda: ours(query))
        return seconds, index_seconds, cpu, index_cpu

    for query in queries[:20]:  # compiles, and fills caches
        both(query)
    pairs = np.array([both(query) for query in queries])
    medians = np.median(pairs.reshape(N_REPEATS, -1, 4), axis=1)[:, :2]
    late = np.percentile(pairs[:, 0], 95)
    name = "search: candidates by words and meaning with features, 100,000 documents, beside the word index"
    cpu, own_cpu = np.median(pairs[:, 2:], axis=0) * 1e3
    note = f"p95 {late * 1e3:.1f} ms; of CPU {cpu:.1f} and {own_cpu:.1f} ms; {N_QUERIES} queries of 3 words"
    return row(name, timed(medians.tolist()), target="0.2×", note=note)


def _snippets(engine: LocalEngine, queries: list[TextQuery]) -> Row:
    times = []
    for query in queries:
        ids = [candidate.id for candidate in engine.candidates(query, N_RESULTS)]
        start = perf_counter()
        engine.snippets(query, ids)
        times.append(perf_counter() - start)
    return alone("search: snippets of a page of 10", float(np.median(times)))


class Synthetic:
    """Documents of words by Zipf's law, six of them the title; they are made again whenever they are read."""

    name = "synthetic documents"

    def __init__(self) -> None:
        rng = default_rng(0)
        self.skipped = Skipped()
        words = {"".join(rng.choice(LETTERS, rng.integers(3, 9))) for _ in range(N_DIFFERENT)}
        self._words = rng.permutation(sorted(words))
        self._sums = np.cumsum(1.0 / np.arange(1, len(self._words) + 1))

    def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
        rng = default_rng(1)
        for i in range(N_DOCUMENTS):
            words = self._drawn(rng, N_WORDS)
            yield SourceDocument(f"d{i}", "1", TextDocument(f"d{i}", " ".join(words[:6]), " ".join(words[6:])))

    def queries(self) -> list[str]:
        rng = default_rng(2)
        return [" ".join(self._drawn(rng, 3)) for _ in range(N_QUERIES)]

    def _drawn(self, rng: np.random.Generator, n: int) -> list[str]:
        words: list[str] = self._words[np.searchsorted(self._sums, rng.random(n) * self._sums[-1])].tolist()
        return words


def _wall_and_cpu(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of all threads of this process: other processes slow the clock alone."""
    start, cpu = perf_counter(), process_time()
    call()
    return perf_counter() - start, process_time() - cpu


def _peak() -> float:
    """Megabytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
