"""The names that users call are frozen: what is gone or renamed breaks them, and goes through a deprecation first."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
FROZEN = ROOT / "tests" / "public_names.txt"


def test_the_names_that_users_call_are_those_that_are_listed() -> None:
    spec = importlib.util.spec_from_file_location("public_names", ROOT / "tools" / "public_names.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    frozen, found = FROZEN.read_text(encoding="utf-8").splitlines(), tool.names()
    gone, new = [line for line in frozen if line not in found], [line for line in found if line not in frozen]
    assert gone == [], "these were public: keep them and deprecate them first (CONTRIBUTING.md)"
    assert new == [], "new names are promises too: python tools/public_names.py > tests/public_names.txt"
