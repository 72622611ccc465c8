"""The page on measures tells the truth about what is registered, and its example runs."""

import dataclasses
import re
from pathlib import Path

import pytest
from tests.measures.cases import CLASSES

from rankloop.core.registry import entry_of

PAGE = (Path(__file__).parents[2] / "docs" / "measures.md").read_text(encoding="utf-8")


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


def test_the_example_runs_and_says_what_comes_out() -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}
    *_, mean, name = [line for line in example[1].splitlines() if line]
    exec(example[1], names)  # noqa: S102
    assert str(eval(mean, names)).startswith("0.8154")  # noqa: S307
    assert eval(name, names) == "nDCG(gain='linear')@10"  # noqa: S307
    judged = eval("measure(np.array([2, 0, 1]), np.array([0.0, 1.0, 2.0]))", names)  # noqa: S307
    assert judged == pytest.approx(0.9639, abs=1e-4)
