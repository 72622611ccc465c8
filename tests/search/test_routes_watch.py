"""`--watch`: files that change are read again."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import MissingExtra
from rankloop.search import routes
from rankloop.search.local_engine import LocalEngine, Refresh
from rankloop.search.routes import SearchPage
from rankloop.search.sources import READ_LATER, FolderSource, TableSource
from rankloop.search.texts import read_text
from tests.search.boxes import write_notes
from tests.service.page.server import eventually


@pytest.fixture
def page(tmp_path: Path) -> Iterator[SearchPage]:
    """A page over notes, with its data inside of their folder."""
    notes = write_notes(tmp_path / "notes")
    engine = LocalEngine(notes / "data")
    yield SearchPage(engine, FolderSource(notes, notes / "data"))
    engine.close()


def found(page: SearchPage, word: str) -> list[str]:
    return [candidate.id for candidate in page.engine.candidates(read_text(word), 10)]


def test_new_changed_and_deleted_files_are_read(page: SearchPage, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    notes, end = tmp_path / "notes", page.watch()
    try:
        # The first changes may come before the watching has begun, so that they are written until they are seen.
        def new() -> None:
            (notes / "tides.md").write_text("# Tides\n\nHigh water", encoding="utf-8")
            assert "tides.md" in found(page, "water")

        eventually(new)
        (notes / "tides.md").write_text("# Tides\n\nEbb and flow", encoding="utf-8")
        eventually(lambda: _expect(found(page, "ebb"), ["tides.md"]))
        (notes / "tides.md").unlink()
        eventually(lambda: _expect(found(page, "ebb"), []))
        counts = page.last_refresh
        (notes / "data" / "noise").write_text("not a note", encoding="utf-8")
        end.wait(1.0)
        assert page.last_refresh is counts  # the box's own files are no change
    finally:
        end.set()


def _expect(ids: list[str], expected: list[str]) -> None:
    assert ids == expected


def test_a_page_with_many_office_files_is_there_before_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes as long as a refresh may wait for such files, so that the others appear one after the other."""
    notes = write_notes(tmp_path / "notes")
    cells = {name: json.dumps({"cells": [{"source": [f"quokka {name}"]}]}) for name in "abcd"}
    write_notes(notes, {f"{name}.ipynb": text for name, text in cells.items()})
    (notes / "b.ipynb").write_text("damaged", encoding="utf-8")
    monkeypatch.setattr(routes, "MAX_OFFICE_SECONDS", 1e-9)
    first = list[Refresh]()
    monkeypatch.setattr(SearchPage, "_try_refresh", lambda page: first.append(page.last_refresh) or page._refresh())
    engine = LocalEngine(tmp_path / "data")
    try:
        page = SearchPage(engine, FolderSource(notes, tmp_path / "data"))
        eventually(lambda: _expect(sorted(found(page, "quokka")), ["a.ipynb", "c.ipynb", "d.ipynb"]))
        eventually(lambda: _expect([thread.name for thread in threading.enumerate() if thread.name == "read-on"], []))
        assert list(page.last_refresh.skipped) == ["b.ipynb"]
        assert first[0].documents == 5  # four notes and the first of these files
        assert first[0].skipped == dict.fromkeys(["b.ipynb", "c.ipynb", "d.ipynb"], READ_LATER)
    finally:
        engine.close()


def test_a_table_is_not_watched(tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_text("id,title,body\na,Boats,a boat\n", encoding="utf-8")
    engine = LocalEngine(tmp_path / "data")
    with pytest.raises(InvalidInput, match="--watch is for folders"):
        SearchPage(engine, TableSource(table)).watch()
    engine.close()


def test_a_missing_package_is_named(page: SearchPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingExtra, match="search-watch"):
        page.watch()
