"""RCV1 in the format of LYRL2004: its vectors, and the streams of clicks over it."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import research.datasets.topics  # noqa: F401
from rankloop import build
from rankloop.core.errors import InvalidInput
from research.datasets.corpora import read_rcv1_tokens
from research.datasets.rcv1 import read_rcv1_vectors
from research.papers.coactive.click_streams import PAPER_STREAMS, available_streams
from tests.research.datasets.test_corpora import write_rcv1

VECTORS = "2286  864:0.0497399253756197 1523:0.044664135988103\n2287  1:1.0\n"


def write(folder: Path) -> Path:
    write_rcv1(folder)
    (folder / "lyrl2004_vectors_train.dat").write_text(VECTORS)
    return folder


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
    found = available_streams(PAPER_STREAMS)[0]
    assert [stream.name for stream in found[1:]] == ["Yahoo", "RCV1"]
    stream = build(found[2].stream | {"candidates": 4, "n_words": 6}, "stream")
    query, relevance = next(stream.rounds(np.random.default_rng(0)))
    assert query.features.shape == (4, 6)
    assert relevance.sum() == sum(query.id in topics for topics in read_rcv1_tokens(tmp_path / "rcv1").topics)
    assert len(list(islice(stream.rounds(np.random.default_rng(1)), 3))) == 3
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path / "yahoo"))
    assert len(available_streams(PAPER_STREAMS)[0]) == 1


def test_what_is_wrong_names_file_and_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "rcv1")
    vectors = folder / "lyrl2004_vectors_train.dat"
    for text, message in (
        ("2286 864:\n", "line 1: '864:' is no term:weight"),
        (VECTORS + "a 1:2\n", "line 3: 'a' is no document"),
    ):
        vectors.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_rcv1_vectors(folder)
