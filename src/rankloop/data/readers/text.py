"""Collections of documents with topics, and their words as numbers."""

import html
import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import read_all
from rankloop.data.download import need

DOCUMENT = re.compile(r"<REUTERS([^>]*)>(.*?)</REUTERS>", re.DOTALL)
TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
Selection = Literal["counts", "presence"]
TEXT = re.compile(r"<TEXT[^>]*>(.*?)</TEXT>", re.DOTALL)


class Corpus(NamedTuple):
    """Documents and the topics of each; is_train follows the split that the collection comes with."""

    texts: tuple[str, ...]
    topics: tuple[tuple[str, ...], ...]
    is_train: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topics in self.topics for topic in topics}))


class Words(NamedTuple):
    """Documents as sparse rows: row i has values[starts[i] : starts[i + 1]] in columns[…]."""

    values: Floats
    columns: Ints
    starts: Ints
    names: tuple[str, ...]


def read_corpus(path: str | Path) -> Corpus:
    """JSON lines with `text`, `group` and `split` (20 Newsgroups), or Reuters-21578 in SGML; compressed or not."""
    file = Path(path)
    content = read_all(file)
    corpus = _reuters(content) if b"<REUTERS" in content[:100_000] else _json_lines(content, file)
    if not corpus.texts:
        raise InvalidInput(f"{file.name} holds no documents")
    return corpus


def tf_idf(corpus: Corpus, n_words: int = 1000, selection: Selection = "counts") -> Words:
    """The n_words words that tell most about the topics (χ²), weighted by tf-idf; rows have length 1.

    `selection` = "presence" judges a word by the topic that it tells most about, from which documents have it at all
    (Lewis, Yang, Rose and Li, 2004, RCV1); "counts" by the sum over topics, from how often documents have it.
    Weight of word w in a document: (1 + log count) · (1 + log((1 + n) / (1 + n_w))), n_w of n documents having w.
    """
    extraction = need("sklearn.feature_extraction.text", "turning texts into numbers")
    preparation = need("sklearn.preprocessing", "turning texts into numbers")
    counter = extraction.CountVectorizer(stop_words="english", min_df=2, token_pattern=r"[A-Za-z]{2,}")
    try:
        counts = counter.fit_transform(corpus.texts)
    except ValueError as error:
        raise InvalidInput(f"these documents have no words in common: {error}") from None
    topics = preparation.MultiLabelBinarizer().fit_transform(corpus.topics)
    scores = _max_presence(counts, topics) if selection == "presence" else _summed_counts(counts, topics)
    chosen = np.sort(np.argsort(-scores, kind="stable")[:n_words])
    weighted = extraction.TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, chosen]).tocsr()
    return _words(weighted, tuple(str(name) for name in counter.get_feature_names_out()[chosen]))


def _summed_counts(counts: Any, topics: Any) -> Floats:
    selection = need("sklearn.feature_selection", "turning texts into numbers")
    summed: Floats = np.nan_to_num(selection.chi2(counts, topics)[0])
    return summed


def _max_presence(counts: Any, topics: Any) -> Floats:
    """For each word the largest χ² over the topics of the table word or not × topic or not: n(ad − bc)² / margins."""
    n, has_word, has_topic = counts.shape[0], counts > 0, np.asarray(topics, dtype=np.float64)
    both = np.asarray(has_word.astype(np.float64).T @ has_topic)
    with_word, with_topic = np.asarray(has_word.sum(axis=0), dtype=np.float64).reshape(-1, 1), has_topic.sum(axis=0)
    margins = with_word * (n - with_word) * with_topic * (n - with_topic)
    independent = n * both - with_word * with_topic  # ad − bc
    largest: Floats = (n * independent**2 / np.where(margins > 0.0, margins, np.inf)).max(axis=1, initial=0.0)
    return largest


def _words(matrix: Any, names: tuple[str, ...]) -> Words:
    matrix.sort_indices()
    values = np.array(matrix.data, dtype=np.float64)
    return Words(values, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64), names)


def _json_lines(content: bytes, file: Path) -> Corpus:
    texts, topics, is_train = [], [], []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                entry = json.loads(line)
                texts.append(str(entry["text"]))
                topics.append((str(entry["group"]),))
                is_train.append(entry.get("split") == "train")
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InvalidInput(
                    f"{file.name}, line {number}: a JSON object with text, group and split was expected"
                ) from None
    return Corpus(tuple(texts), tuple(topics), np.array(is_train, dtype=np.bool_))


def _reuters(content: bytes) -> Corpus:
    """The ModApte split: documents with TOPICS="YES" that Lewis put into training or test."""
    texts, topics, is_train = [], [], []
    for attributes, body in DOCUMENT.findall(content.decode("latin-1")):
        split = re.search(r'LEWISSPLIT="(\w+)"', attributes)
        labels, text = TOPICS.search(body), TEXT.search(body)
        if 'TOPICS="YES"' in attributes and split and split[1] in ("TRAIN", "TEST") and labels and text:
            topics.append(tuple(re.findall(r"<D>(.*?)</D>", labels[1])))
            texts.append(html.unescape(re.sub(r"<[^>]*>", " ", text[1])))
            is_train.append(split[1] == "TRAIN")
    return Corpus(tuple(texts), tuple(topics), np.array(is_train, dtype=np.bool_))
