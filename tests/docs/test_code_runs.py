"""Every Python block of the README and the docs runs, page by page, and so does every example."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"(<!-- not run: .*? -->\n+)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LETOR = "".join(f"{grade} qid:{query} 1:0.{grade}5 2:{query}\n" for query in (1, 2) for grade in (0, 2, 1))

pytestmark = pytest.mark.slow


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def blocks_of(page: Path) -> list[str]:
    return [code for excuse, code in BLOCK.findall(page.read_text(encoding="utf-8")) if not excuse]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.stem)
def test_a_page(page, tmp_path):
    (tmp_path / "Fold1").mkdir()
    (tmp_path / "Fold1" / "train.txt").write_text(LETOR)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "page.py").write_text("\n".join(blocks_of(page)), encoding="utf-8")
    run(["page.py"], tmp_path)


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.stem)
def test_an_example(example, tmp_path):
    assert run([str(example)], tmp_path)


def test_blocks_are_found_and_excuses_need_a_reason():
    page = "```python\nprint(1)\n```\n<!-- not run: needs the network -->\n```python\nprint(2)\n```\n"
    assert [(bool(excuse), code) for excuse, code in BLOCK.findall(page)] == [
        (False, "print(1)\n"),
        (True, "print(2)\n"),
    ]
