"""Both indexes behind the three calls of an engine: what is found, what matches, and what a refresh changes."""

import json
import math
from pathlib import Path

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.engine import MATCHES, Engine
from rankloop.search.local_engine import LocalEngine
from rankloop.search.table_source import TableSource
from rankloop.search.text_query import read_text

ROWS = [
    {"id": "wing", "title": "Wing in a slipstream", "body": "Lift of a wing in the slipstream of a propeller."},
    {"id": "heat", "title": "Heat of composite slabs", "body": "Conduction of heat; a wing is heated too."},
    {"id": "shell", "title": "Buckling shells", "body": "Thin shells buckle. 日本語の文"},
]


@pytest.fixture(params=["tantivy", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "tantivy":
        pytest.importorskip("tantivy")
    return str(request.param)


def source(folder: Path, rows: list[dict[str, str]]) -> TableSource:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return TableSource(path)


def found(engine: LocalEngine, text: str) -> list[str]:
    return [candidate.id for candidate in engine.candidates(read_text(text), 10)]


@pytest.fixture
def engine(tmp_path: Path, kind: str) -> LocalEngine:
    engine = LocalEngine(tmp_path / "data", kind)
    engine.refresh(source(tmp_path, ROWS))
    return engine


def test_it_is_an_engine_that_finds_by_stem_phrase_and_beginning(engine: LocalEngine) -> None:
    assert isinstance(engine, Engine)
    assert found(engine, "wings") == ["wing", "heat"]
    assert found(engine, 'the "composite slabs"') == ["heat"]
    assert found(engine, "buck*") == ["shell"]
    assert found(engine, "日本") == ["shell"]


@pytest.mark.parametrize("text", ["", '"" ( ) * - : ~', "qzx", "\N{GREEK SMALL LETTER OMEGA}"])
def test_nothing_to_look_for_finds_nothing(engine: LocalEngine, text: str) -> None:
    assert found(engine, text) == []


def test_matches_are_those_of_the_formulas(engine: LocalEngine) -> None:
    rows = engine.features(read_text("composite wing"), ["wing", "heat"])
    wing, heat = (dict(zip(MATCHES, row)) for row in rows)
    rare, common = math.log(1 + (3 - 1 + 0.5) / 1.5), math.log(1 + (3 - 2 + 0.5) / 2.5)  # in 1 and in 2 of 3 texts
    assert heat["coverage"] == pytest.approx(1.0)
    assert wing["coverage"] == pytest.approx(common / (rare + common))
    assert heat["coverage_title"] == pytest.approx(rare / (rare + common))
    lengths = [len(row["title"].split()) for row in ROWS]
    spread = 1.2 * (0.25 + 0.75 * lengths[1] / (sum(lengths) / 3))
    assert heat["bm25_title"] == pytest.approx(rare * 2.2 / (1 + spread))
    assert (wing["title_length"], heat["title_length"]) == (lengths[0], lengths[1])


def test_phrases_and_nearness_keep_the_order_of_the_words(engine: LocalEngine) -> None:
    def match(text: str) -> dict[str, float]:
        return dict(zip(MATCHES, engine.features(read_text(text), ["heat"])[0]))

    touching, apart, turned = match("composite slabs"), match("conduction heat"), match("slabs composite")
    assert (touching["phrase"], touching["proximity"]) == (1.0, 1.0)
    assert (apart["phrase"], apart["proximity"]) == (0.0, pytest.approx(1 / 2))
    assert (turned["phrase"], turned["proximity"]) == (0.0, 0.0)
    assert match("Heat of composite SLABS!")["exact_title"] == 1.0
    assert match("heat composite")["exact_title"] == 0.0


def test_a_refresh_reads_what_changed_and_drops_what_is_gone(engine: LocalEngine, tmp_path: Path, kind: str) -> None:
    assert engine.refresh(source(tmp_path, ROWS))[:4] == (0, 0, 0, 3)
    changed = [{**ROWS[0], "body": "nothing but a rudder"}, ROWS[1], {"id": "new", "title": "Fuselage", "body": ""}]
    assert engine.refresh(source(tmp_path, changed))[:4] == (1, 1, 1, 3)
    assert (found(engine, "rudder"), found(engine, "propeller"), found(engine, "shells")) == (["wing"], [], [])
    engine.close()
    again = LocalEngine(tmp_path / "data", kind)
    assert (found(again, "fuselage"), again.document("shell")) == (["new"], None)


def test_an_index_that_was_left_half_way_is_made_again(engine: LocalEngine, tmp_path: Path, kind: str) -> None:
    (tmp_path / "data" / "index" / "committing").touch()
    engine.close()
    again = LocalEngine(tmp_path / "data", kind)
    assert again.n_documents == 0
    assert again.refresh(source(tmp_path, ROWS)).added == 3


def test_snippets_are_plain_text_with_ranges(engine: LocalEngine) -> None:
    (snippet,) = engine.snippets(read_text("propellers"), ["wing"])
    assert [snippet.text[start:end] for start, end in snippet.highlights] == ["propeller"]


def test_unknown_documents_and_engines_are_refused(engine: LocalEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no document 'moon'"):
        engine.features(read_text("wing"), ["moon"])
    with pytest.raises(InvalidInput, match="must be one of tantivy, sqlite"):
        LocalEngine(tmp_path / "other", "elastic")
