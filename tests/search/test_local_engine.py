"""The engine over local documents: what is found, what a refresh changes, and what is left when things go wrong."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import Conflict, InvalidInput
from rankloop.core.extras import MissingExtra
from rankloop.search import local_engine
from rankloop.search.engine import MATCHES, TextDocument
from rankloop.search.indexes.match_kernel import matches
from rankloop.search.local_engine import LocalEngine
from rankloop.search.sources import FolderSource, SourceDocument
from rankloop.search.texts import read_text
from tests.search.sources import Listed

DOCUMENTS = [
    TextDocument(
        "wing", "Wing in a slipstream", "Lift of a wing in the slipstream of a propeller.", 7.0, {"by": "acme"}
    ),
    TextDocument("heat", "Heat of composite slabs", "Conduction of heat; a wing is heated too."),
    TextDocument("shell", "Buckling shells", "Thin shells buckle. 日本語の文"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def engine(folder: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine(folder)
    engine.refresh(Listed(DOCUMENTS))
    yield engine
    engine.close()


def found(engine: LocalEngine, text: str, prefix: bool = False) -> list[str]:
    return [candidate.id for candidate in engine.candidates(read_text(text, prefix=prefix), 10)]


def test_words_stems_phrases(engine: LocalEngine) -> None:
    assert found(engine, "wings") == ["wing", "heat"]
    assert found(engine, 'the "composite slabs"') == ["heat"]
    assert found(engine, '"slabs composite"') == []
    assert found(engine, '"wing in the slipstream"') == ["wing"]
    assert found(engine, 'shells "a wing"') == ["wing", "heat"]  # not shell, which lacks the phrase


@pytest.mark.parametrize("typed", ["b", "bu", "buck", "buckl", "buckli", "bucklin", "buckling", "buck*"])
def test_every_beginning_of_a_word_finds_it(engine: LocalEngine, typed: str) -> None:
    """Also where the stem is shorter than what was typed: buckling is found as buckl."""
    assert found(engine, typed, prefix=True) == ["shell"]
    rows = engine.features(read_text(typed, prefix=True), ["shell", "wing"])
    assert rows[:, MATCHES.index("coverage")].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("text", ["", "  ", '"" ( ) * - : ~', "qzx", "Ω", "* *", '"'])
def test_nothing_to_look_for_finds_nothing(engine: LocalEngine, text: str) -> None:
    assert found(engine, text) == []
    assert engine.features(read_text(text), ["wing"])[0, :7].tolist() == [0.0] * 7


SCRIPTS = {
    "ru": "Москва зимой, ёлки",
    "ar": "مرحبا بالعالم",
    "hi": "हिन्दी में खोज",
    "ko": "한국어 검색 엔진",
    "el": "Καλημέρα κόσμε",
    "zh": "我爱北京天安门",
    "ja": "東京は日本の首都です",
    "th": "ภาษาไทยไม่มีช่องว่าง",
    "de": "Die Straße nach Köln",
    "emoji": "done 🎉",
}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("МОСКВА", ["ru"]),
        ("мир", []),
        ("بالعالم", ["ar"]),
        ("खोज", ["hi"]),
        ("검색", ["ko"]),
        ("ΚΑΛΗΜΈΡΑ", ["el"]),
        ("北京", ["zh"]),
        ("京北", []),
        ("首都", ["ja"]),
        ("京都", []),
        ("都", ["ja"]),
        ("ไทย", ["th"]),
        ("ยทไ", []),
        ("strasse", ["de"]),
        ("koln", ["de"]),
        ("🎉", ["emoji"]),
    ],
)
def test_other_scripts(folder: Path, text: str, ids: list[str]) -> None:
    """By words; in scripts without spaces by letters that touch."""
    engine = LocalEngine(folder)
    engine.refresh(Listed([TextDocument(id, "", body) for id, body in SCRIPTS.items()]))
    assert found(engine, text) == ids
    engine.close()


@pytest.mark.parametrize(
    ("language", "written", "typed"),
    [
        ("english", "résumés", "resume"),
        ("english", "running", "runs"),
        ("german", "Häusern", "haus"),
        ("french", "chanteuses", "chanteuse"),
        ("russian", "книгами", "книга"),
        ("spanish", "canciones", "canción"),
    ],
)
def test_stemming_by_language(folder: Path, language: str, written: str, typed: str) -> None:
    engine = LocalEngine(folder, language)
    engine.refresh(Listed([TextDocument("a", "", written)]))
    assert found(engine, typed) == ["a"]
    engine.close()


def test_unknown_languages_and_documents_are_refused(engine: LocalEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no stemming for 'klingon'; there is for arabic, danish"):
        LocalEngine(tmp_path / "other", "klingon")
    with pytest.raises(InvalidInput, match="no document 'moon'"):
        engine.features(read_text("wing"), ["moon"])


def test_without_tantivy_nothing_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    for _ in range(2):  # the folder is free again
        with pytest.raises(MissingExtra, match=r"pip install 'rankloop\[search\]'"):
            LocalEngine(folder)


def test_texts_snippets_and_fields_come_back(engine: LocalEngine) -> None:
    assert [engine.document(document.id) for document in DOCUMENTS] == DOCUMENTS
    assert engine.document("moon") is None
    documents = engine.documents(read_text(""), ["heat", "wing", "moon"])
    assert {id: dict(document.fields) for id, document in documents.items()} == {"heat": {}, "wing": {"by": "acme"}}
    (first, none) = engine.snippets(read_text('propellers "a wing"'), ["wing", "moon"])
    assert [first.text[start:end] for start, end in first.highlights] == ["a", "wing", "a", "propeller"]
    assert none == ("", ())


def test_the_kernel_is_compiled_once(engine: LocalEngine) -> None:
    for query in (read_text("wing"), read_text("win", prefix=True), read_text("")):
        engine.features(query, ["wing"])
    engine.features(read_text("wing"), [])
    assert len(matches.signatures) == 1  # type: ignore[attr-defined]


def test_threads_may_search_at_once(engine: LocalEngine) -> None:
    def search(i: int) -> list[str]:
        return found(engine, f"wings unknown{i} word{i}s")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(search, range(400))) == [["wing", "heat"]] * 400


def test_the_rarest_words_of_a_query(engine: LocalEngine) -> None:
    assert engine.rarest(read_text("wing heat conduction"), 2) == ["heat", "conduct"]
    assert engine.rarest(read_text(""), 2) == []


def test_matches_know_stems_and_titles(engine: LocalEngine) -> None:
    rows = engine.features(read_text("Heat of composite SLABS!"), ["heat", "wing"])
    heat, wing = (dict(zip(MATCHES, row)) for row in rows)
    assert (heat["exact_title"], heat["coverage_title"], wing["exact_title"]) == (1.0, pytest.approx(1.0), 0.0)
    assert (heat["title_length"], heat["body_length"], wing["at"]) == (4.0, 8.0, 7.0)


def test_a_refresh_reads_what_changed_and_drops_what_is_gone(engine: LocalEngine, folder: Path) -> None:
    assert engine.refresh(Listed(DOCUMENTS))[:4] == (0, 0, 0, 3)
    changed = [DOCUMENTS[0]._replace(body="nothing but a rudder"), DOCUMENTS[1], TextDocument("new", "Fuselage", "")]
    assert engine.refresh(Listed(changed))[:4] == (1, 1, 1, 3)
    assert (found(engine, "rudder"), found(engine, "propeller"), found(engine, "shells")) == (["wing"], [], [])
    engine.close()
    again = LocalEngine(folder)
    assert (found(again, "fuselage"), again.document("shell"), again.n_documents) == (["new"], None, 3)
    again.close()


def test_files_that_change_and_go(tmp_path: Path, folder: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"common {name}{name}")
    engine, source = LocalEngine(folder), FolderSource(tmp_path, without=folder)
    assert engine.refresh(source)[:4] == (3, 0, 0, 3)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "b.txt").write_text("common other")
    assert engine.refresh(source)[:4] == (0, 1, 1, 2)
    assert (found(engine, "aa"), found(engine, "bb"), found(engine, "other")) == ([], [], ["b.txt"])
    engine.close()


def test_of_documents_with_one_id_the_first_counts(engine: LocalEngine) -> None:
    refresh = engine.refresh(Listed([TextDocument("a", "first", ""), TextDocument("a", "second", "")]))
    assert refresh.skipped == {"a": "there is another document of this id; the first one counts"}
    assert (found(engine, "first"), found(engine, "second")) == (["a"], [])


def test_words_may_be_in_more_removed_documents_than_there_are(engine: LocalEngine) -> None:
    """An index may count removed documents until it tidies up; features stay finite."""
    for i in range(8):
        engine.refresh(Listed([TextDocument("only", f"wing {i}", "wing")]))
    rows = engine.features(read_text("wing"), ["only"])
    assert np.isfinite(rows).all()
    assert rows[0, MATCHES.index("coverage")] == 1.0


def test_a_source_without_text_is_an_error_and_keeps_the_index(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "picture.png").write_bytes(b"\0")
    reason = r"no text that can be read in .*empty; picture.png: it is not a text"
    with pytest.raises(InvalidInput, match=reason):
        engine.refresh(FolderSource(tmp_path / "empty"))
    assert found(engine, "wings") == ["wing", "heat"]


class Breaking(Listed):
    """Ends in an error after two documents that are new."""

    def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
        yield SourceDocument("wing", "new", TextDocument("wing", "changed", ""))
        yield SourceDocument("more", "new", TextDocument("more", "more", ""))
        raise KeyboardInterrupt


def test_an_interrupted_refresh_leaves_everything_as_it_was(engine: LocalEngine, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        engine.refresh(Breaking([]))
    assert (found(engine, "propeller"), found(engine, "changed more")) == (["wing"], [])
    assert engine.refresh(Listed(DOCUMENTS))[:4] == (0, 0, 0, 3)
    engine.close()
    again = LocalEngine(folder)
    assert (found(again, "propeller"), again.n_documents) == (["wing"], 3)
    again.close()


def test_while_a_refresh_runs_the_old_index_answers(engine: LocalEngine) -> None:
    class Watched(Listed):
        def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
            for one in super().documents(known):
                yield one
                assert found(engine, "propeller") == ["wing"]
                assert engine.document("wing") == DOCUMENTS[0]

    engine.refresh(Watched([DOCUMENTS[0]._replace(body="rudder"), TextDocument("new", "new", "propeller")]))
    assert found(engine, "propeller") == ["new"]


def test_a_commit_that_was_cut_off_is_made_again(engine: LocalEngine, folder: Path) -> None:
    (folder / "index" / "committing").touch()
    engine.close()
    again = LocalEngine(folder)
    assert again.n_documents == 0
    assert again.refresh(Listed(DOCUMENTS)).added == 3
    again.close()


def test_a_commit_that_fails_is_made_again_by_the_next_refresh(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise InvalidInput("no space")

    monkeypatch.setattr(engine.table, "commit", fail)
    with pytest.raises(InvalidInput, match="no space"):
        engine.refresh(Listed([TextDocument("new", "new", "")]))
    monkeypatch.undo()
    assert engine.refresh(Listed(DOCUMENTS))[:4] == (3, 0, 0, 3)
    assert found(engine, "wings") == ["wing", "heat"]


def test_an_index_of_another_version_or_language_is_made_again(
    engine: LocalEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.close()
    (folder / "memory").write_text("what was learned")
    monkeypatch.setattr(local_engine, "FORMAT_VERSION", "0")
    older = LocalEngine(folder)
    assert older.refresh(Listed(DOCUMENTS)).added == 3
    older.close()
    german = LocalEngine(folder, "german")
    assert german.n_documents == 0
    german.close()
    assert (folder / "memory").read_text() == "what was learned"


@pytest.mark.parametrize("part", ["documents.sqlite", "words", "meta.json"])
def test_a_damaged_index_is_made_again(engine: LocalEngine, folder: Path, part: str) -> None:
    engine.close()
    spoiled = [path for path in (folder / "index").rglob("*") if path.name == part]
    for path in spoiled:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.write_bytes(b"broken " * 1_000)
    again = LocalEngine(folder)
    assert again.n_documents == 0
    again.refresh(Listed(DOCUMENTS))
    assert found(again, "wings") == ["wing", "heat"]
    again.close()


def test_one_process_at_a_time(engine: LocalEngine, folder: Path) -> None:
    with pytest.raises(Conflict, match="is in use by another process"):
        LocalEngine(folder)
    assert "Conflict" in in_another_process(OPEN, folder)
    engine.close()
    assert in_another_process(OPEN, folder) == "3\n"


OPEN = """
import sys
from pathlib import Path
from rankloop.search.local_engine import LocalEngine
try:
    print(LocalEngine(Path(sys.argv[1])).n_documents)
except Exception as error:
    print(type(error).__name__)
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.search.sources import Listed
from rankloop.search.engine import TextDocument
from rankloop.search.local_engine import LocalEngine

class Deadly(Listed):
    def documents(self, known):
        yield from super().documents(known)
        os.kill(os.getpid(), signal.SIGKILL)

engine = LocalEngine(Path(sys.argv[1]))
engine.refresh(Deadly([TextDocument(f"d{i}", "new", "word " * 100) for i in range(200)]))
"""
FULL = """
import resource, sys
from pathlib import Path
from tests.search.sources import Listed
from rankloop.core.errors import InvalidInput
from rankloop.search.engine import TextDocument
from rankloop.search.local_engine import LocalEngine
from rankloop.search.texts import read_text
from rankloop.search.indexes.match_kernel import matches

engine = LocalEngine(Path(sys.argv[1]))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
try:
    engine.refresh(Listed([TextDocument(f"d{i}", "new", f"w{i} " * 200) for i in range(2_000)]))
except InvalidInput as error:
    print(error)
print([one.id for one in engine.candidates(read_text("wings"), 5)])
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(engine.refresh(Listed([TextDocument("new", "new", "wings")])))
"""


def in_another_process(script: str, folder: Path) -> str:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src")])
    run = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.stdout


def test_a_killed_process_leaves_the_old_index_and_no_lock(engine: LocalEngine, folder: Path) -> None:
    engine.close()
    in_another_process(KILLED, folder)
    again = LocalEngine(folder)
    assert (found(again, "wings"), found(again, "new"), again.n_documents) == (["wing", "heat"], [], 3)
    assert again.refresh(Listed([*DOCUMENTS, TextDocument("new", "new", "")]))[:4] == (1, 0, 0, 4)
    again.close()


def test_no_space_left(engine: LocalEngine, folder: Path) -> None:
    """Files may not grow, as on a full disk: the error says so, the old index answers, and later all is well."""
    engine.close()
    said, old, later = in_another_process(FULL, folder).splitlines()
    assert "What was indexed before is kept" in said
    assert old == "['wing', 'heat']"
    assert later.startswith("Refresh(added=1, changed=0, removed=3, documents=1")


def test_large_documents_take_little_memory(folder: Path) -> None:
    """Of 20 documents with 60,000 words each, one at a time is in memory."""

    class Large(Listed):
        def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
            for i in range(20):
                yield SourceDocument(f"d{i}", "1", TextDocument(f"d{i}", "large", f"word{i} and other " * 20_000))

    engine = LocalEngine(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine.refresh(Large([]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kB
    assert found(engine, "word7") == ["d7"]
    engine.close()


def test_misspellings_of_the_documents_themselves_are_corrected(folder: Path) -> None:
    """Two documents of a thousand write enviroment; forty the word that is meant."""
    words = ["enviroment"] * 2 + ["environment"] * 40 + ["other"] * 958
    engine = LocalEngine(folder)
    engine.refresh(Listed([TextDocument(f"d{i}", f"Note {i}", word) for i, word in enumerate(words)]))
    query = read_text("enviroment")
    assert engine.correction(query) == "environment"
    assert len(engine.candidates(query, 100)) == 42
    assert engine.correction(read_text("environment")) == ""
    engine.close()


def test_endings_of_another_language_do_not_hide_a_mistyped_word(folder: Path) -> None:
    dutch = "De hond en de kat zijn niet in het huis van een man die er ook was, maar dat is het wel"
    german = "Der Hund und die Katze sind nicht in dem Haus, das ist ein Haus mit einer Tür und der Hund"
    texts = ["The budget of the year is with the board and it was of use to all"] * 3 + ["bug bugs"] * 9
    engine = LocalEngine(folder)
    engine.refresh(Listed([TextDocument(f"d{i}", "", text) for i, text in enumerate([*texts, dutch, german])]))
    assert len(engine.languages) == 3
    assert engine.correction(read_text("buget")) == "budget"
    assert set(found(engine, "buget")) >= {"d0", "d1", "d2"}
    engine.close()


def test_stems_of_the_few_documents_in_another_language_do_not_outweigh_rare_words(tmp_path: Path) -> None:
    """The rules of English leave `les` and `fichiers` as words that are in one document only."""
    french = "le texte de la page {} est dans les fichiers que le programme lit pour des utilisateurs"
    rows = [TextDocument(f"page {i}", "", french.format(i)) for i in range(40)]
    rows.append(
        TextDocument("afficher", "", "la commande pour afficher les fichiers est une des plus connues dans le système")
    )
    rows.append(
        TextDocument("english", "", "the name of the programme is les fichiers and it is not in the list of files")
    )
    engine = LocalEngine(tmp_path, meaning="off")
    engine.refresh(Listed(rows))
    assert engine.languages == ("french", "english")
    assert engine.candidates(read_text("afficher les fichiers"), 3)[0].id == "afficher"
    assert "english" in [candidate.id for candidate in engine.candidates(read_text("files"), 3)]
    engine.close()


def test_a_word_that_is_begun_is_not_corrected(folder: Path) -> None:
    engine = LocalEngine(folder)
    texts = ["the annual budget", "a budget review", "an outward bud"]
    engine.refresh(Listed([TextDocument(f"d{i}", "", text) for i, text in enumerate(texts)]))
    assert found(engine, "budg", prefix=True) == ["d0", "d1"]
    assert found(engine, "budg") == ["d2"]  # a whole word is: the nearest one of the collection
    engine.close()


def test_meaning_counts_less_in_a_collection_of_short_documents(engine: LocalEngine) -> None:
    words, features = np.array([1.0, 0.5]), np.zeros((2, len(MATCHES)))
    features[1, local_engine.LATENT] = 1.0
    assert engine._corpus[1].sum() < 15
    score = partial(engine._mixed, words, features, local_engine.LATENT, (2.0, 1.0, 1.0))
    assert score().tolist() == pytest.approx([1.0, 0.5 + 0.15 * 2.0])
    engine._corpus = 3, np.array([10.0, 30.0])
    assert score()[1] == pytest.approx(0.5 + 0.25 * 2.0)
    engine._corpus = 3, np.array([10.0, 300.0])
    assert score()[1] == pytest.approx(0.5 + 2.0)


def test_a_snippet_does_not_repeat_the_title_above_it(folder: Path) -> None:
    engine = LocalEngine(folder)
    engine.refresh(
        Listed([TextDocument("a", "Tides", "Tides\n\nHigh tides are late."), TextDocument("b", "Tides", "Tides")])
    )
    assert [text for text, _ in engine.snippets(read_text("tides"), ["a", "b"])] == ["High tides are late.", "Tides"]
    engine.close()
