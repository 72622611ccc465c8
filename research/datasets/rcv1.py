"""The vectors of RCV1-v2, as they are published beside its tokens."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints
from research.datasets.corpora import rcv1_labels, rcv1_lines, rcv1_topics, required_rcv1_files, wrong_line


class TopicVectors(NamedTuple):
    """Documents as sparse rows: row i has values[starts[i] : starts[i + 1]] in columns[…], counted from 1."""

    values: Floats
    columns: Ints
    starts: Ints
    topics: tuple[tuple[str, ...], ...]
    is_train: np.ndarray[tuple[int], np.dtype[np.bool_]]


def read_rcv1_vectors(path: str | Path) -> TopicVectors:
    """The cosine-normalised tf-idf vectors that are published with the collection: `2286  864:0.05 1523:0.04 …`."""
    source = Path(path)
    files, topics = required_rcv1_files(source, "vectors"), rcv1_topics(source)
    values, columns, starts, labels, is_train = list[float](), list[int](), [0], [], []
    for file in files:
        for line, text in rcv1_lines(file):
            number, *pairs = text.split()
            if not number.isdigit():
                raise wrong_line(
                    file, line, f"{number[:40]!r} is no document's number, as in '2286  864:0.05 1523:0.04'"
                )
            for pair in pairs:
                column, value = _entry(pair, file, line)
                columns.append(column)
                values.append(value)
            starts.append(len(values))
            labels.append(rcv1_labels(topics, number, file, line))
            is_train.append("_train" in file.name)
    sizes = np.array(columns, np.int64), np.array(starts, np.int64)
    return TopicVectors(np.array(values), *sizes, tuple(labels), np.array(is_train, dtype=np.bool_))


def _entry(pair: str, file: Path, line: int) -> tuple[int, float]:
    column, _, value = pair.partition(":")
    try:
        entry = int(column), float(value)
    except ValueError:
        entry = 0, np.nan
    if entry[0] < 1 or not np.isfinite(entry[1]):
        raise wrong_line(file, line, f"{pair[:40]!r} is no term:weight, as in 864:0.05")
    return entry
