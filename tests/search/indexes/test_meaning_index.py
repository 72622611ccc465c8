"""Search by meaning through the engine: candidates, feedback, folding in, embeddings."""

from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.engine import MATCHES, TextDocument
from rankloop.search.indexes.meaning_index import NO_VECTORS, _byte_products
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text
from tests.search.sources import Listed

WORDS = {
    "car": "car automobile motor wheel driver brake garage road",
    "bread": "bread flour oven yeast dough baker crust loaf",
    "boat": "boat sail harbour mast sailor keel anchor tide",
}


def documents(n: int = 45) -> list[TextDocument]:
    """Return texts of three topics; each has five words of its topic, so that no text has all of them."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        topic = list(WORDS)[i % 3]
        rows.append(TextDocument(f"{topic}{i}", "", " ".join(rng.permutation(WORDS[topic].split())[:5])))
    return rows


@pytest.fixture
def engine(tmp_path: Path) -> LocalEngine:
    engine = LocalEngine(tmp_path)
    engine.refresh(Listed(documents()))
    return engine


def test_documents_are_found_without_any_word_of_the_query(engine: LocalEngine) -> None:
    query = read_text("automobile")
    candidates = [candidate.id for candidate in engine.candidates(query, 15)]
    with_word = {document.id for document in documents() if "automobile" in document.body}
    assert set(candidates[: len(with_word)]) == with_word  # those that have the word come first
    assert {id for id in candidates if id.startswith("car")} > with_word
    assert {id for id in candidates if id.startswith("car")} - with_word <= engine.by_meaning(query)
    rows = dict(zip(candidates, engine.features(query, candidates)))
    found_by_meaning = next(id for id in candidates if id in engine.by_meaning(query))
    assert rows[found_by_meaning][MATCHES.index("latent")] > 0.15
    assert rows[found_by_meaning][MATCHES.index("coverage")] == 0.0
    engine.close()


def test_phrases_exclusions_and_unknown_words_bring_nothing_by_meaning(engine: LocalEngine) -> None:
    assert engine.by_meaning(read_text('"automobile"')) == frozenset()
    assert engine.candidates(read_text("qwertyuiop"), 5) == []
    excluded = engine.candidates(read_text("automobile -wheel"), 100)
    bodies = {document.id: document.body for document in documents()}
    assert excluded
    assert not any("wheel" in bodies[candidate.id] for candidate in excluded)
    engine.close()


def test_new_documents_are_folded_in_and_old_ones_leave(engine: LocalEngine) -> None:
    first = engine._meaning.latent[0]
    changed = [*documents()[1:], TextDocument("new", "", "automobile wheel brake")]
    engine.refresh(Listed(changed))
    assert engine._meaning.latent[0].axes is first.axes  # folded in, not fitted again
    assert len(engine._meaning.latent[1].numbers) == 45
    ids = [candidate.id for candidate in engine.candidates(read_text("garage"), 45)]
    assert "new" in ids
    assert "car0" not in ids
    novel = [TextDocument(f"n{i}", "", f"novel{i % 4} words{i % 3} entirely") for i in range(8)]
    engine.refresh(Listed([*changed, *novel]))
    assert engine._meaning.latent[0].axes.shape != first.axes.shape  # a tenth of the words is new
    engine.close()


def test_vectors_are_there_again(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path)
    engine.refresh(Listed(documents()))
    before = engine.candidates(read_text("automobile"), 30)
    engine.close()
    again = LocalEngine(tmp_path)
    assert again.candidates(read_text("automobile"), 30) == before
    again.close()
    (tmp_path / "index" / "latent_vectors.npz").write_bytes(b"damaged")
    repaired = LocalEngine(tmp_path)
    repaired.refresh(Listed(documents()))
    assert repaired.candidates(read_text("automobile"), 30) == before
    repaired.close()


def test_meaning_is_off(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path, meaning="off")
    engine.refresh(Listed(documents()))
    with_word = {document.id for document in documents() if "automobile" in document.body}
    assert {candidate.id for candidate in engine.candidates(read_text("automobile"), 45)} == with_word
    engine.close()


def test_an_embedding_of_ones_own(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> np.ndarray:
        return np.array([[float("vehicle" in text or "wheel" in text), 1e-3 * len(text)] for text in texts])

    engine = LocalEngine(tmp_path, meaning=embed)
    engine.refresh(Listed(documents()))
    ids = [candidate.id for candidate in engine.candidates(read_text("vehicle"), 5)]
    assert ids
    assert all(id.startswith("car") for id in ids)  # no document has the word
    engine.close()
    engine = LocalEngine(tmp_path / "wrong", meaning=lambda texts: np.zeros(3))
    with pytest.raises(InvalidInput, match="one row per text"):
        engine.refresh(Listed(documents()))
    engine.close()
    with pytest.raises(InvalidInput, match="must be lsa, off, wordllama"):
        LocalEngine(tmp_path / "unknown", meaning="magic")


def test_wordllama_finds_what_the_collection_cannot_teach(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    engine = LocalEngine(tmp_path, meaning="wordllama")
    engine.refresh(Listed([TextDocument("a", "", "An automobile."), TextDocument("b", "", "Bread and butter.")]))
    assert [candidate.id for candidate in engine.candidates(read_text("car"), 1)] == ["a"]
    engine.close()


def test_bytes_keep_the_cosines() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((20, 64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    table = NO_VECTORS.changed(np.arange(20), [(np.arange(20), vectors)])
    assert table.cosines(vectors[3]) == pytest.approx(vectors @ vectors[3], abs=0.02)
    assert table.vectors(np.array([5, 99])) == pytest.approx(np.array([vectors[5], np.zeros(64)]), abs=0.02)
    rows = table.rows
    assert _byte_products(rows, rows[0]).tolist() == (rows.astype(int) @ rows[0].astype(int)).tolist()


def test_similar_queries_and_neighbours(engine: LocalEngine) -> None:
    first, second, other = (
        read_text("automobile wheel road"),
        read_text("automobile wheel brake"),
        read_text("flour oven"),
    )
    engine.remember(first)
    engine.remember(other)
    assert engine.similar_queries(second) == ["automobile wheel brake", "automobile wheel road"]
    ids = [candidate.id for candidate in engine.candidates(first, 10)]
    neighbours = engine.neighbours(first, ids, 3)
    assert all(id not in near and len(near) <= 3 for id, near in zip(ids, neighbours))
    assert any(neighbours)
    engine.past_queries.forget("automobile wheel road")
    assert engine.similar_queries(second) == ["automobile wheel brake"]
    engine.close()
