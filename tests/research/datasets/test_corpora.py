"""Documents, their topics and words, and the stream over them."""

import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import build, spec_of
from rankloop.data import data_folder
from rankloop.data.folder import absence_notice
from research.datasets.corpora import read_corpus, read_rcv1_tokens, tf_idf
from research.datasets.topics import Topics, _distinct

SGML = b"""<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1"><TOPICS><D>cocoa</D><D>trade</D></TOPICS>
<TEXT>&#2;<TITLE>BAHIA</TITLE><BODY>Rain &lt;now&gt; fell.</BODY></TEXT></REUTERS>
<REUTERS TOPICS="NO" LEWISSPLIT="TRAIN" NEWID="2"><TOPICS></TOPICS><TEXT>left out</TEXT></REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="NOT-USED" NEWID="3"><TOPICS></TOPICS><TEXT>left out</TEXT></REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" NEWID="4"><TOPICS></TOPICS><TEXT TYPE="UNPROC">no topic</TEXT></REUTERS>
"""
WORDS = {"sport": ["ball", "goal", "team"], "space": ["orbit", "moon", "star"]}


@pytest.fixture
def corpus_path(tmp_path):
    rng, lines = np.random.default_rng(0), []
    for i in range(60):
        group = ("sport", "space")[i % 2]
        text = " ".join(["common", "always", *rng.choice(WORDS[group], 4)])
        lines.append(json.dumps({"split": "train" if i < 40 else "test", "group": group, "text": text}))
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_json_lines(corpus_path):
    corpus = read_corpus(corpus_path)
    assert len(corpus.texts) == 60
    assert corpus.topic_names == ("space", "sport")
    assert corpus.is_train.sum() == 40


def test_sgml(tmp_path):
    (tmp_path / "reuters.sgm").write_bytes(SGML)
    corpus = read_corpus(tmp_path / "reuters.sgm")
    assert corpus.topics == (("cocoa", "trade"), ())
    assert corpus.texts[0].split() == ["BAHIA", "Rain", "<now>", "fell."]
    assert corpus.is_train.tolist() == [True, False]


@pytest.mark.parametrize("content", [b'{"text": "x"}', b"[]", b"3", b"\xff\xfe", b"{"])
def test_broken_lines(tmp_path, content):
    (tmp_path / "broken.jsonl").write_bytes(b"\n" + content)
    with pytest.raises(InvalidInput, match=r"broken\.jsonl, line 2"):
        read_corpus(tmp_path / "broken.jsonl")


def test_a_damaged_archive(tmp_path, corpus_path):
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(corpus_path.read_bytes())[:-9])
    with pytest.raises(InvalidInput, match=r"cut\.jsonl\.gz is cut short or damaged"):
        read_corpus(tmp_path / "cut.jsonl.gz")


def test_nothing_inside(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InvalidInput, match="holds no documents"):
        read_corpus(tmp_path / "empty")
    with pytest.raises(NotFound):
        read_corpus(tmp_path / "absent")


def test_the_words_that_tell_most_are_kept(corpus_path):
    words = tf_idf(read_corpus(corpus_path), n_words=6)
    assert set(words.names) == {word for group in WORDS.values() for word in group}
    lengths = [np.sum(words.values[a:b] ** 2) for a, b in zip(words.starts, words.starts[1:], strict=False)]
    np.testing.assert_allclose(lengths, 1)


def test_words_by_the_topic_that_they_tell_most_about(tmp_path):
    """Against scipy's χ² of each word's and topic's table; a word is worth no more for being repeated."""
    rng, topics = np.random.default_rng(3), ("a", "b", "c", "d")
    lines = []
    for i in range(80):
        group = topics[min(3, i % 7)]
        own = [f"word{group}", *rng.choice([f"w{chr(97 + k)}" for k in range(12)], 4)]
        own += ["refrain"] * (30 if group == "d" and i % 20 == 3 else i % 5 == 0)
        lines.append(json.dumps({"group": group, "text": " ".join(own)}))
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    corpus = read_corpus(tmp_path / "c.jsonl")
    names = tf_idf(corpus, 100, "presence").names
    largest = {}
    for name in names:
        has = np.array([name in text.split() for text in corpus.texts])
        tables = [[[np.sum((has == x) & (own == y)) for x in (0, 1)] for y in (0, 1)]
                  for own in (np.array([topic in t for t in corpus.topics]) for topic in topics)]  # fmt: skip
        largest[name] = max(chi2_contingency(table, correction=False).statistic for table in tables)
    best = sorted(names, key=lambda name: -largest[name])[:5]
    assert set(tf_idf(corpus, 5, "presence").names) == set(best)
    assert "refrain" in tf_idf(corpus, 5, "counts").names
    assert "refrain" not in best


def test_weights_follow_the_formula(tmp_path):
    texts = ["ball ball goal", "ball star", "goal goal goal", "star"]
    lines = [json.dumps({"group": "a" if i % 2 else "b", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    words = tf_idf(read_corpus(tmp_path / "c.jsonl"))
    idf = {word: 1 + np.log((1 + 4) / (1 + 2)) for word in ("ball", "goal", "star")}
    first = np.array([(1 + np.log(2)) * idf["ball"], 1 * idf["goal"]])
    np.testing.assert_allclose(words.values[:2], first / np.linalg.norm(first))


def test_documents_without_common_words(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"group": "a", "text": "1 2 3"}))
    with pytest.raises(InvalidInput, match="no words in common"):
        tf_idf(read_corpus(tmp_path / "c.jsonl"))


def test_the_stream_of_a_topic(corpus_path):
    stream = Topics(path=str(corpus_path), topic="sport", candidates=12, n_words=6)
    assert build(spec_of(stream)) == stream
    sport = [j for j, name in enumerate(stream.problem.feature_names) if name in WORDS["sport"]]
    assert stream.problem.n_features == 6
    for query, relevance in islice(stream.rounds(np.random.default_rng(0)), 50):
        assert query.id == "sport"
        assert query.features.shape == (12, 6)
        assert ((query.features[:, sport].sum(axis=1) > 0) == (relevance == 1)).all()
    drawn = {next(Topics(path=str(corpus_path)).rounds(np.random.default_rng(s)))[0].id for s in range(20)}
    assert drawn == {"sport", "space"}
    with pytest.raises(InvalidInput, match="did you mean 'sport'"):
        next(Topics(path=str(corpus_path), topic="sports").rounds(np.random.default_rng(0)))


def test_documents_are_distinct_and_uniform_in_every_position():
    rng, n = np.random.default_rng(0), 6000
    counts = np.zeros((5, 3))
    for _ in range(n):
        chosen = _distinct(5, rng.random(6))
        assert len(set(chosen.tolist())) == 3
        counts[chosen, np.arange(3)] += 1
    assert np.abs(counts / n - 1 / 5).max() < 4.5 * np.sqrt(4 / 25 / n)


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the folder of texts"))
@pytest.mark.parametrize(
    ("name", "train", "test", "topics"),
    [("20news_bydate.jsonl.xz", 11_314, 7532, 20), ("reuters21578.sgm.xz", 9603, 3299, 118)],
)
def test_real_collections(name, train, test, topics):
    corpus = read_corpus(data_folder() / "text" / name)
    assert (corpus.is_train.sum(), (~corpus.is_train).sum(), len(corpus.topic_names)) == (train, test, topics)


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


def write_rcv1(folder: Path) -> Path:
    folder.mkdir()
    (folder / "lyrl2004_tokens_train.dat").write_text(TRAIN)
    (folder / "lyrl2004_tokens_test_pt0.dat.gz").write_bytes(gzip.compress(TEST.encode()))
    (folder / "rcv1-v2.topics.qrels.gz").write_bytes(gzip.compress(QRELS.encode()))
    return folder


def test_tokens_and_topics_are_joined(tmp_path: Path) -> None:
    corpus = read_rcv1_tokens(write_rcv1(tmp_path / "rcv1"))
    assert corpus.texts[0] == "recov recov excit bring mexic bond bond bourse peso"
    assert corpus.topics == (("E11", "ECAT", "M11"), ("M13",), ("E11",), ("M13",))
    assert corpus.is_train.tolist() == [True, True, False, False]
    assert corpus.topic_names == ("E11", "ECAT", "M11", "M13")
    assert len(read_rcv1_tokens(tmp_path / "rcv1" / "lyrl2004_tokens_train.dat").texts) == 2


def test_what_is_wrong_names_file_and_line(tmp_path: Path) -> None:
    folder = write_rcv1(tmp_path / "rcv1")
    tokens = folder / "lyrl2004_tokens_train.dat"
    for text, message in (
        (".I x\n", "line 1: '.I x' lacks the document's number"),
        (TRAIN + ".I 2288\n", "line 10: document 2288 has no '.W': the file is cut short"),
        ("bond\n" + TRAIN, "line 1: 'bond' stands before"),
        (TRAIN.replace("2287", "9"), "line 6: document 9 has no topic"),
    ):
        tokens.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_rcv1_tokens(folder)
    packed = folder / "lyrl2004_tokens_test_pt0.dat.gz"
    packed.write_bytes(packed.read_bytes()[:-12])
    tokens.write_text(TRAIN)
    with pytest.raises(InvalidInput, match=r"pt0.dat.gz, line .*cut short"):
        read_rcv1_tokens(folder)
    (folder / "rcv1-v2.topics.qrels.gz").unlink()
    with pytest.raises(NotFound, match=r"there is no rcv1-v2.topics.qrels"):
        read_rcv1_tokens(folder)
