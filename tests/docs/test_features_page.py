"""The page on features names every kind of field, and every learner that takes rows."""

from pathlib import Path

from rankloop.core.registry import entries

PAGE = (Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf-8")


def test_every_kind_has_its_row():
    for entry in entries("field"):
        assert f"`{entry.kind}`" in PAGE or f'"kind": "{entry.kind}"' in PAGE, entry.kind


def test_every_learner_that_takes_rows_is_named():
    able = [entry.kind for entry in entries("learner") if hasattr(entry.cls, "with_table_entries")]
    assert len(able) > 10
    for kind in able:
        assert f"`{kind}" in PAGE, kind
