"""The examples in docstrings run and print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import rankloop

SOURCE = Path(rankloop.__file__).parent
FILES_WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", FILES_WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_examples_print_what_they_say(path: Path) -> None:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    failures, attempts = doctest.testmod(module)
    assert attempts > 0
    assert failures == 0
