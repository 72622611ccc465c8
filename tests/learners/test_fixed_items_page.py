"""The page on fixed sets of items tells the truth: its examples run and give the numbers it names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[2] / "docs" / "learners" / "fixed-items.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run_example(text: str) -> list[object]:
    """The values of the lines with a comment, those that a reader would see printed."""
    names: dict[str, object] = {}
    lines = text.splitlines()
    exec("\n".join(line for line in lines if "  #" not in line), names)  # noqa: S102
    return [eval(line.split("  #")[0], names) for line in lines if "  #" in line]  # noqa: S307


def test_regrets_are_those_in_the_text() -> None:
    blocks, leader = (np.asarray(value) for value in run_example(EXAMPLES[0]))
    text = " ".join(PAGE.split())
    assert f"rtopk loses {blocks[0]:.2f} DCG per round in the first thousand rounds and {blocks[1]:.2f} over" in text
    assert f"sees all grades, loses {leader[0]:.2f} and {leader[1]:.2f}" in text


def test_vacuous_bounds_end_where_the_page_says() -> None:
    written = [int(number.replace(",", "")) for number in re.findall(r"# ([\d,]+) rounds", EXAMPLES[1])]
    assert run_example(EXAMPLES[1]) == written
