"""The table of docs/measures.md is what is registered."""

import dataclasses
import re

from rankloop.core.registry import entry_of
from tests.docs.pages import ROOT
from tests.measures.cases import CLASSES

PAGE = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")


def test_the_table_lists_every_measure_with_its_options() -> None:
    rows = [[cell.strip() for cell in line.split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
    written = {
        row[1].strip("`"): (row[2] == "yes", set(re.findall(r"\w+", row[3])), "lower is better" in row[4])
        for row in rows
        if len(row) == 7
    }
    registered = {}
    for cls in CLASSES:
        options = {field.name for field in dataclasses.fields(cls)}
        registered[entry_of(cls).kind] = ("cutoff" in options, options - {"cutoff", "empty"}, not cls.higher_is_better)
    assert written == registered
