"""RCV1-v2 as Lewis, Yang, Rose and Li (2004) publish it: tokens or vectors of documents, and their 103 topics.

Files: `lyrl2004_tokens_train.dat`, `lyrl2004_tokens_test_pt0.dat` … (or `lyrl2004_vectors_…`), `rcv1-v2.topics.qrels`;
each may be packed.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import BROKEN, opened
from rankloop.data.readers.text import Corpus

TOPICS = "rcv1-v2.topics.qrels"
FILE = re.compile(r"lyrl2004_(tokens|vectors)_(train|test)\w*\.dat(\.\w+)?")
ID, WORDS = ".I", ".W"


class TopicVectors(NamedTuple):
    """Documents as sparse rows: row i has values[starts[i] : starts[i + 1]] in columns[…], counted from 1."""

    values: Floats
    columns: Ints
    starts: Ints
    topics: tuple[tuple[str, ...], ...]
    is_train: np.ndarray[tuple[int], np.dtype[np.bool_]]


def rcv1_files(path: Path, form: str) -> list[Path]:
    """The files of tokens or of vectors in a folder, those to train on first; or the file itself."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    found = [file for file in files if (match := FILE.fullmatch(file.name)) and match[1] == form]
    return sorted(found, key=lambda file: "_train" not in file.name)


def read_rcv1_tokens(path: str | Path) -> Corpus:
    """The documents of a folder or of one file, their stems as texts; topics stand in a file beside them."""
    source = Path(path)
    files, topics = _files(source, "tokens"), _topics(source)
    texts, labels, is_train = [], [], []
    for file in files:
        for number, text, line in _documents(file):
            texts.append(text)
            labels.append(_labels(topics, number, file, line))
            is_train.append("_train" in file.name)
    return Corpus(tuple(texts), tuple(labels), np.array(is_train, dtype=np.bool_))


def read_rcv1_vectors(path: str | Path) -> TopicVectors:
    """The cosine-normalised tf-idf vectors that are published with the collection: `2286  864:0.05 1523:0.04 …`."""
    source = Path(path)
    files, topics = _files(source, "vectors"), _topics(source)
    values, columns, starts, labels, is_train = list[float](), list[int](), [0], [], []
    for file in files:
        for line, text in _lines(file):
            number, *pairs = text.split()
            if not number.isdigit():
                raise _wrong(file, line, f"{number[:40]!r} is no document's number, as in '2286  864:0.05 1523:0.04'")
            for pair in pairs:
                column, value = _entry(pair, file, line)
                columns.append(column)
                values.append(value)
            starts.append(len(values))
            labels.append(_labels(topics, number, file, line))
            is_train.append("_train" in file.name)
    sizes = np.array(columns, np.int64), np.array(starts, np.int64)
    return TopicVectors(np.array(values), *sizes, tuple(labels), np.array(is_train, dtype=np.bool_))


def _files(source: Path, form: str) -> list[Path]:
    files = rcv1_files(source, form) if source.exists() else []
    if not files:
        raise NotFound(f"{source} holds no lyrl2004_{form}_train.dat or lyrl2004_{form}_test_pt0.dat …")
    return files


def _topics(source: Path) -> dict[str, tuple[str, ...]]:
    """The topics of each document by its number."""
    folder = source if source.is_dir() else source.parent
    file = next((each for each in sorted(folder.iterdir()) if each.name.startswith(TOPICS)), None)
    if file is None:
        raise NotFound(f"there is no {TOPICS} in {folder}, which tells the topics of each document")
    found: dict[str, tuple[str, ...]] = {}
    for line, text in _lines(file):
        parts = text.split()
        if len(parts) != 3:
            raise _wrong(file, line, f"{text[:40]!r} is no 'topic document 1'")
        found[parts[1]] = (*found.get(parts[1], ()), parts[0])
    return found


def _documents(file: Path) -> Iterator[tuple[str, str, int]]:
    """Number, tokens and line of each document: `.I number`, `.W`, then lines of tokens."""
    number, tokens, began, seen = "", list[str](), 0, False
    for line, text in _lines(file):
        if text.startswith(ID):
            if number:
                yield _complete(file, number, tokens, began, seen)
            number, tokens, began, seen = text[len(ID) :].strip(), [], line, False
            if not number.isdigit():
                raise _wrong(file, line, f"{text[:40]!r} lacks the document's number, as in '.I 2286'")
        elif text == WORDS:
            seen = True
        else:
            if not (number and seen):
                raise _wrong(file, line, f"{text[:40]!r} stands before '.I number' and '.W'")
            tokens.append(text)
    if number:
        yield _complete(file, number, tokens, began, seen)


def _complete(file: Path, number: str, tokens: list[str], began: int, seen: bool) -> tuple[str, str, int]:
    if not seen:
        raise _wrong(file, began, f"document {number} has no '.W': the file is cut short")
    return number, " ".join(tokens), began


def _entry(pair: str, file: Path, line: int) -> tuple[int, float]:
    column, _, value = pair.partition(":")
    try:
        found = int(column), float(value)
    except ValueError:
        found = 0, np.nan
    if found[0] < 1 or not np.isfinite(found[1]):
        raise _wrong(file, line, f"{pair[:40]!r} is no term:weight, as in 864:0.05")
    return found


def _labels(topics: dict[str, tuple[str, ...]], number: str, file: Path, line: int) -> tuple[str, ...]:
    if number not in topics:
        raise _wrong(file, line, f"document {number} has no topic in {TOPICS}: are the files of one collection?")
    return topics[number]


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    line = 0
    with opened(file) as content:
        try:
            for line, raw in enumerate(content, start=1):
                if text := raw.decode("utf-8", "replace").strip():
                    yield line, text
        except BROKEN as error:
            raise _wrong(file, line, f"the file is cut short or damaged behind it: {error}") from None


def _wrong(file: Path, line: int, said: str) -> InvalidInput:
    return InvalidInput(f"{file.name}, line {line}: {said}")
