"""Small search boxes over a few notes, and what can be seen of them from outside."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankloop.search import SearchBox
from rankloop.service.application.rebuild import ReplayResult, replay_records
from rankloop.service.domain import trainer
from rankloop.service.records import Record
from rankloop.service.stores.open import log_at

NOTES = {
    "boats.md": "# Boats\n\nSail a boat, moor a boat, paint a boat.",
    "harbours.md": "# Harbours\n\nA boat lies in a harbour, beside a boat.",
    "knots.md": "# Knots\n\nA bowline holds a boat.",
    "bread.md": "# Bread\n\nFlour, water, salt and a day of patience.",
}
ENGINE_ORDER = ["boats.md", "harbours.md", "knots.md"]  # for "boat"


def write_notes(folder: Path, notes: Mapping[str, str] = NOTES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in notes.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def box_over(folder: Path, **options: Any) -> SearchBox:
    """A box over the notes of a folder, which are written if there are none."""
    source = folder / "notes"
    if not source.exists():
        write_notes(source)
    return SearchBox(source, data=folder / "data", **options)


def prefer(box: SearchBox, id: str, text: str = "boat", times: int = 3, **search: Any) -> None:
    """Search and click the same result some times."""
    for _ in range(times):
        box.learn(box.search(text, **search), clicks=[id])


def digest(box: SearchBox) -> str:
    """Of what the box serves from now."""
    return str(trainer.digest(box._service.node.directory.rankers["search"].serving.state))


def records(data: Path) -> list[Record]:
    with log_at(str(data)) as log:
        return list(log.read("ranker/search"))


def replay(data: Path) -> ReplayResult:
    return replay_records(records(data))[0]


def content_of(data: Path) -> bytes:
    """Every byte in a folder, what SQLite has yet to move out of its journal too."""
    return b"".join(file.read_bytes() for file in sorted(data.rglob("*")) if file.is_file())


def rows_in(data: Path) -> int:
    """How many events there are, asked of SQLite itself."""
    with sqlite3.connect(data / "rankloop.db") as log:
        return int(log.execute("SELECT count(*) FROM rankloop_events").fetchone()[0])
