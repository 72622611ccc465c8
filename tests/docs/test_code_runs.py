"""Every Python block of the README and the docs runs, page by page, and prints what it says; so does every example."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"(<!-- not run: .*? -->\n+)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROMISE = re.compile(r"^ *print\(.*\)  # (True|False|None|\d[\d.]*)(?=$|[ ,:;])", re.MULTILINE)
LETOR = "".join(f"{grade} qid:{query} 1:0.{grade}5 2:{query}\n" for query in (1, 2) for grade in (0, 2, 1))

pytestmark = pytest.mark.slow


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def blocks_of(page: Path) -> list[str]:
    return [code for excuse, code in BLOCK.findall(page.read_text(encoding="utf-8")) if not excuse]


def broken_promise(code: str, printed: str) -> str | None:
    """The first value that a comment after `print` promises and that was not printed, in their order."""
    lines = iter(printed.splitlines())
    for value in PROMISE.findall(code):
        if not any(value in re.split(r"[\s,()\[\]%]+", line) for line in lines):
            return value
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.stem)
def test_a_page(page, tmp_path):
    (tmp_path / "Fold1").mkdir()
    (tmp_path / "Fold1" / "train.txt").write_text(LETOR)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    code = "\n".join(blocks_of(page))
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    assert broken_promise(code, run(["page.py"], tmp_path)) is None


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.stem)
def test_an_example(example, tmp_path):
    assert run([str(example)], tmp_path)


def test_blocks_are_found_and_excuses_need_a_reason():
    page = "```python\nprint(1)\n```\n<!-- not run: needs the network -->\n```python\nprint(2)\n```\n"
    assert [(bool(excuse), code) for excuse, code in BLOCK.findall(page)] == [
        (False, "print(1)\n"),
        (True, "print(2)\n"),
    ]


def test_a_promise_is_kept_or_found():
    code = "print(a)  # 0.49\nprint(b, c)  # True: as it should\nprint(d)  # prose is no promise\n"
    assert broken_promise(code, "today 0.49\nTrue 3\n") is None
    assert broken_promise(code, "today 0.48\nTrue 3\n") == "0.49"
    assert broken_promise(code, "0.49\n") == "True"
