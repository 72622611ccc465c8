"""The examples of docs/learners/queries.md run, and print what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "learners" / "queries.md"
SHORT = re.compile(r"^(print\(.*\)) +# ([\d.]+|\([\d, ]+\))$", re.MULTILINE)


@pytest.mark.slow
def test_every_example_prints_what_it_says(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        capsys.readouterr()
        exec(block, names)  # noqa: S102
        printed = capsys.readouterr().out.splitlines()
        promised = [value for _, value in SHORT.findall(block)]
        assert printed[: len(promised)] == promised
