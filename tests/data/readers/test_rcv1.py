"""RCV1 in the format of LYRL2004."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rankloop import build
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.readers.rcv1 import read_rcv1_tokens, read_rcv1_vectors
from research.papers.coactive.click_streams import THEIRS, available_streams

TRAIN = """.I 2286
.W
recov recov excit bring mexic bond bond
bourse peso

.I 2287
.W
drill gas gas field

"""
TEST = ".I 26151\n.W\npeso mexic rate bond\ngas price\n\n.I 26152\n.W\nfield oil gas drill\n\n"
QRELS = "E11 2286 1\nECAT 2286 1\nM11 2286 1\nM13 2287 1\nE11 26151 1\nM13 26152 1\n"
VECTORS = "2286  864:0.0497399253756197 1523:0.044664135988103\n2287  1:1.0\n"


def write(folder: Path) -> Path:
    folder.mkdir()
    (folder / "lyrl2004_tokens_train.dat").write_text(TRAIN)
    (folder / "lyrl2004_tokens_test_pt0.dat.gz").write_bytes(gzip.compress(TEST.encode()))
    (folder / "rcv1-v2.topics.qrels.gz").write_bytes(gzip.compress(QRELS.encode()))
    (folder / "lyrl2004_vectors_train.dat").write_text(VECTORS)
    return folder


def test_tokens_and_topics_are_joined(tmp_path: Path) -> None:
    corpus = read_rcv1_tokens(write(tmp_path / "rcv1"))
    assert corpus.texts[0] == "recov recov excit bring mexic bond bond bourse peso"
    assert corpus.topics == (("E11", "ECAT", "M11"), ("M13",), ("E11",), ("M13",))
    assert corpus.is_train.tolist() == [True, True, False, False]
    assert corpus.topic_names == ("E11", "ECAT", "M11", "M13")
    assert len(read_rcv1_tokens(tmp_path / "rcv1" / "lyrl2004_tokens_train.dat").texts) == 2


def test_vectors_are_rows_of_terms(tmp_path: Path) -> None:
    found = read_rcv1_vectors(write(tmp_path / "rcv1"))
    assert (found.starts.tolist(), found.columns.tolist()) == ([0, 2, 3], [864, 1523, 1])
    assert found.values[0] == 0.0497399253756197
    assert found.topics[1] == ("M13",)


def test_the_click_worlds_know_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn turns texts into numbers")
    write(tmp_path / "rcv1")
    (tmp_path / "yahoo").mkdir()
    (tmp_path / "yahoo" / "set1.train.txt").write_text("1 qid:1 1:0.5\n")
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    found = available_streams(THEIRS)[0]
    assert [stream.name for stream in found[1:]] == ["Yahoo", "RCV1"]
    stream = build(found[2].stream | {"candidates": 4, "n_words": 6}, "stream")
    query, relevance = next(stream.rounds(np.random.default_rng(0)))
    assert query.features.shape == (4, 6)
    assert relevance.sum() == sum(query.id in topics for topics in read_rcv1_tokens(tmp_path / "rcv1").topics)
    assert len(list(islice(stream.rounds(np.random.default_rng(1)), 3))) == 3
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path / "yahoo"))
    assert len(available_streams(THEIRS)[0]) == 1


def test_what_is_wrong_names_file_and_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "rcv1")
    tokens, vectors = folder / "lyrl2004_tokens_train.dat", folder / "lyrl2004_vectors_train.dat"
    for text, message in (
        (".I x\n", "line 1: '.I x' lacks the document's number"),
        (TRAIN + ".I 2288\n", "line 10: document 2288 has no '.W': the file is cut short"),
        ("bond\n" + TRAIN, "line 1: 'bond' stands before"),
        (TRAIN.replace("2287", "9"), "line 6: document 9 has no topic"),
    ):
        tokens.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_rcv1_tokens(folder)
    for text, message in (
        ("2286 864:\n", "line 1: '864:' is no term:weight"),
        (VECTORS + "a 1:2\n", "line 3: 'a' is no document"),
    ):
        vectors.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_rcv1_vectors(folder)
    packed = folder / "lyrl2004_tokens_test_pt0.dat.gz"
    packed.write_bytes(packed.read_bytes()[:-12])
    tokens.write_text(TRAIN)
    with pytest.raises(InvalidInput, match=r"pt0.dat.gz, line .*cut short"):
        read_rcv1_tokens(folder)
    (folder / "rcv1-v2.topics.qrels.gz").unlink()
    with pytest.raises(NotFound, match=r"there is no rcv1-v2.topics.qrels"):
        read_rcv1_tokens(folder)
