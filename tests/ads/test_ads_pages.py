"""The examples of the pages on ads and on evaluation run, and print what the pages say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    (page, number, text)
    for page in ("learners/ads.md", "evaluation.md")
    for number, text in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
    if "log.parquet" not in text
]


@pytest.mark.parametrize(("page", "number", "text"), EXAMPLES, ids=[f"{page}-{number}" for page, number, _ in EXAMPLES])
def test_examples_print_what_they_say(page, number, text):
    said = [line.rsplit("# ", 1)[1].strip() for line in text.splitlines() if line.startswith("print")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(text, {})  # noqa: S102
    assert printed.getvalue().splitlines() == said
