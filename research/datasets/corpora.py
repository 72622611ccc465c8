"""Collections of documents with topics, and their words as numbers."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.types import Floats, Ints
from rankloop.data.compression import READ_ERRORS, opened
from research.datasets.download import need, read_all

DOCUMENT = re.compile(r"<REUTERS([^>]*)>(.*?)</REUTERS>", re.DOTALL)
TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
Selection = Literal["counts", "presence"]
TEXT = re.compile(r"<TEXT[^>]*>(.*?)</TEXT>", re.DOTALL)

# RCV1-v2 as Lewis, Yang, Rose and Li (2004) publish it: files of tokens, and the topics of all documents in one file.
RCV1_TOPICS = "rcv1-v2.topics.qrels"
RCV1_FILE = re.compile(r"lyrl2004_(tokens|vectors)_(train|test)\w*\.dat(\.\w+)?")
RCV1_ID, RCV1_WORDS = ".I", ".W"


class TopicCorpus(NamedTuple):
    """Documents and the topics of each; is_train follows the split that the collection comes with."""

    texts: tuple[str, ...]
    topics: tuple[tuple[str, ...], ...]
    is_train: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Return the names of all topics."""
        return tuple(sorted({topic for topics in self.topics for topic in topics}))


class TfIdfRows(NamedTuple):
    """Documents as sparse rows: row i has values[starts[i] : starts[i + 1]] in columns[…]."""

    values: Floats
    columns: Ints
    starts: Ints
    names: tuple[str, ...]


def read_corpus(path: str | Path) -> TopicCorpus:
    """JSON lines with `text`, `group` and `split` (20 Newsgroups), or Reuters-21578 in SGML; compressed or not."""
    file = Path(path)
    content = read_all(file)
    corpus = _reuters(content) if b"<REUTERS" in content[:100_000] else _json_lines(content, file)
    if not corpus.texts:
        raise InvalidInput(f"{file.name} holds no documents")
    return corpus


def tf_idf(corpus: TopicCorpus, n_words: int = 1000, selection: Selection = "counts") -> TfIdfRows:
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
    if selection == "presence":
        scores = _max_presence(counts, topics)
    else:
        chi2 = need("sklearn.feature_selection", "turning texts into numbers").chi2
        scores = np.nan_to_num(chi2(counts, topics)[0])
    chosen = np.sort(np.argsort(-scores, kind="stable")[:n_words])
    weighted = extraction.TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, chosen]).tocsr()
    weighted.sort_indices()
    return TfIdfRows(
        values=np.array(weighted.data, dtype=np.float64),
        columns=weighted.indices.astype(np.int64),
        starts=weighted.indptr.astype(np.int64),
        names=tuple(str(name) for name in counter.get_feature_names_out()[chosen]),
    )


def _max_presence(counts: Any, topics: Any) -> Floats:
    """For each word the largest χ² over the topics of the table word or not × topic or not: n(ad − bc)² / margins."""
    n, has_word, has_topic = counts.shape[0], counts > 0, np.asarray(topics, dtype=np.float64)
    both = np.asarray(has_word.astype(np.float64).T @ has_topic)
    with_word, with_topic = np.asarray(has_word.sum(axis=0), dtype=np.float64).reshape(-1, 1), has_topic.sum(axis=0)
    margins = with_word * (n - with_word) * with_topic * (n - with_topic)
    independent = n * both - with_word * with_topic  # ad − bc
    largest: Floats = (n * independent**2 / np.where(margins > 0.0, margins, np.inf)).max(axis=1, initial=0.0)
    return largest


def _json_lines(content: bytes, file: Path) -> TopicCorpus:
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
    return TopicCorpus(tuple(texts), tuple(topics), np.array(is_train, dtype=np.bool_))


def _reuters(content: bytes) -> TopicCorpus:
    """The ModApte split: documents with TOPICS="YES" that Lewis put into training or test."""
    texts, topics, is_train = [], [], []
    for attributes, body in DOCUMENT.findall(content.decode("latin-1")):
        split = re.search(r'LEWISSPLIT="(\w+)"', attributes)
        labels, text = TOPICS.search(body), TEXT.search(body)
        if 'TOPICS="YES"' in attributes and split and split[1] in ("TRAIN", "TEST") and labels and text:
            topics.append(tuple(re.findall(r"<D>(.*?)</D>", labels[1])))
            texts.append(html.unescape(re.sub(r"<[^>]*>", " ", text[1])))
            is_train.append(split[1] == "TRAIN")
    return TopicCorpus(tuple(texts), tuple(topics), np.array(is_train, dtype=np.bool_))


def rcv1_files(path: Path, form: str) -> list[Path]:
    """The files of tokens or of vectors in a folder, those to train on first; or the file itself."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    matching_files = [file for file in files if (match := RCV1_FILE.fullmatch(file.name)) and match[1] == form]
    return sorted(matching_files, key=lambda file: "_train" not in file.name)


def read_rcv1_tokens(path: str | Path) -> TopicCorpus:
    """The documents of a folder or of one file, their stems as texts; topics stand in a file beside them."""
    source = Path(path)
    files, topics = required_rcv1_files(source, "tokens"), rcv1_topics(source)
    texts, labels, is_train = [], [], []
    for file in files:
        for number, text, line in _documents(file):
            texts.append(text)
            labels.append(rcv1_labels(topics, number, file, line))
            is_train.append("_train" in file.name)
    return TopicCorpus(tuple(texts), tuple(labels), np.array(is_train, dtype=np.bool_))


def required_rcv1_files(source: Path, form: str) -> list[Path]:
    """Return the files of a form of RCV1, or raise if they are missing.

    Args:
      source: The folder.
      form: The form of the files.
    """
    files = rcv1_files(source, form) if source.exists() else []
    if not files:
        raise NotFound(f"{source} holds no lyrl2004_{form}_train.dat or lyrl2004_{form}_test_pt0.dat …")
    return files


def rcv1_topics(source: Path) -> dict[str, tuple[str, ...]]:
    """The topics of each document by its number."""
    folder = source if source.is_dir() else source.parent
    file = next((each for each in sorted(folder.iterdir()) if each.name.startswith(RCV1_TOPICS)), None)
    if file is None:
        raise NotFound(f"there is no {RCV1_TOPICS} in {folder}, which tells the topics of each document")
    topics_by_document: dict[str, tuple[str, ...]] = {}
    for line, text in rcv1_lines(file):
        parts = text.split()
        if len(parts) != 3:
            raise wrong_line(file, line, f"{text[:40]!r} is no 'topic document 1'")
        topics_by_document[parts[1]] = (*topics_by_document.get(parts[1], ()), parts[0])
    return topics_by_document


def _documents(file: Path) -> Iterator[tuple[str, str, int]]:
    """Number, tokens and line of each document: `.I number`, `.W`, then lines of tokens."""
    number, tokens, began, has_text = "", list[str](), 0, False
    for line, text in rcv1_lines(file):
        if text.startswith(RCV1_ID):
            if number:
                yield _complete(file, number, tokens, began, has_text)
            number, tokens, began, has_text = text[len(RCV1_ID) :].strip(), [], line, False
            if not number.isdigit():
                raise wrong_line(file, line, f"{text[:40]!r} lacks the document's number, as in '.I 2286'")
        elif text == RCV1_WORDS:
            has_text = True
        else:
            if not (number and has_text):
                raise wrong_line(file, line, f"{text[:40]!r} stands before '.I number' and '.W'")
            tokens.append(text)
    if number:
        yield _complete(file, number, tokens, began, has_text)


def _complete(file: Path, number: str, tokens: list[str], began: int, has_text: bool) -> tuple[str, str, int]:
    if not has_text:
        raise wrong_line(file, began, f"document {number} has no '.W': the file is cut short")
    return number, " ".join(tokens), began


def rcv1_labels(topics: dict[str, tuple[str, ...]], number: str, file: Path, line: int) -> tuple[str, ...]:
    """Return the topics of a document, or raise if it has none.

    Args:
      topics: The topics by document.
      number: The document.
      file: The file, for the error message.
      line: The line, for the error message.
    """
    if number not in topics:
        raise wrong_line(file, line, f"document {number} has no topic in {RCV1_TOPICS}, of another collection?")
    return topics[number]


def rcv1_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    line = 0
    with opened(file) as content:
        try:
            for line, raw in enumerate(content, start=1):
                if text := raw.decode("utf-8", "replace").strip():
                    yield line, text
        except READ_ERRORS as error:
            raise wrong_line(file, line, f"the file is cut short or damaged behind it: {error}") from None


def wrong_line(file: Path, line: int, said: str) -> InvalidInput:
    """Return the error for a line of a file.

    Args:
      file: The file.
      line: The line.
      said: The text of the error.
    """
    return InvalidInput(f"{file.name}, line {line}: {said}")
