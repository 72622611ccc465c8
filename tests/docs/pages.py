"""The pages of the documentation as programs: their blocks, what they print, and what their comments promise."""

from __future__ import annotations

import ast
import atexit
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
LETOR = "".join(f"{grade} qid:{query} 1:0.{grade}5 2:{query}\n" for query in (1, 2) for grade in (0, 2, 1))
BEGIN, END = "\x1e", "\x1f"

_BLOCK = r"(<!-- not run: .*? -->\n+)?^```{}\n(.*?)^```"
_NUMBER = r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?…?(?!\w)"
_VALUE = re.compile(rf"True\b|False\b|None\b|{_NUMBER}")
_DECIMAL = re.compile(r"(?<![\w.])[-−]?\d+\.\d*…?(?!\w)")
_NUMBERS = re.compile(rf"(?:(?:True|False|None|{_NUMBER})[ ,]*)+")
_LITERAL = re.compile(r"[(\[{][^…]*[)\]}]|\"[^\"]*\"|'[^']*'")


class Outcome(NamedTuple):
    """A statement with a comment: what the comment says, and what was printed each time that it was reached."""

    line: int
    comment: str
    printed: tuple[str, ...]

    @property
    def text(self) -> str:
        return ", ".join(self.printed)


def blocks_of(page: Path, language: str = "python") -> list[str]:
    """The code blocks of a page, without those that it excuses."""
    return blocks_in(page.read_text(encoding="utf-8"), language)


def blocks_in(text: str, language: str = "python") -> list[str]:
    found = re.findall(_BLOCK.format(language), text, re.DOTALL | re.MULTILINE)
    return [code for excuse, code in found if not excuse]


def run(script: Path, folder: Path) -> str:
    """Run a script in a folder, in a process of its own; what it prints."""
    python, (printed, said) = _warm_python(), (folder / "stdout", folder / "stderr")
    assert python.stdin is not None
    assert python.stdout is not None
    print(json.dumps([str(script), str(folder), str(printed), str(said)]), file=python.stdin, flush=True)
    assert python.stdout.readline() == "0\n", said.read_text(encoding="utf-8")[-2000:]
    return printed.read_text(encoding="utf-8")


@cache
def _warm_python() -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("warm_python.py"))]
    python = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(python.communicate)
    return python


def run_page(page: Path, folder: Path) -> list[Outcome]:
    """Run all Python blocks of a page in order, as one program, in a folder with the files that pages speak of."""
    (folder / "Fold1").mkdir()
    (folder / "Fold1" / "train.txt").write_text(LETOR)
    shutil.copytree(ROOT / "examples", folder / "examples")
    return run_code("\n".join(blocks_of(page)), folder)


def run_code(code: str, folder: Path) -> list[Outcome]:
    """Run a program; its statements that have a comment and print, or stand for their value, with their outcomes."""
    said = _comments(code)
    (folder / "page.py").write_text(_marked(code, said), encoding="utf-8")
    output = run(folder / "page.py", folder)
    found: dict[int, list[str]] = {line: [] for line in said}
    for line, printed in re.findall(rf"{BEGIN}(\d+)\n(.*?){END}\n", output, re.DOTALL):
        found[int(line)].append(printed.strip())
    return [Outcome(line, said[line][1], tuple(printed)) for line, printed in found.items()]


def broken_promise(outcome: Outcome) -> str | None:
    """What a comment promises and was not printed: all of it where it is only values, else its values.

    A comment promises the value that it begins with, and decimal numbers wherever they stand; other words are prose.
    `0.96…` is any number that begins so. An expression without a value, such as a call that only does something, can
    keep no promise and makes none.
    """
    comment, text = outcome.comment, outcome.text
    if comment == text or outcome.printed == ("",):
        return None
    if re.fullmatch(rf"[A-Za-z ]+ {re.escape(comment)}", text):  # behind a few words
        return None
    printed = _VALUE.findall(text)
    if _LITERAL.fullmatch(comment):
        return comment
    if _NUMBERS.fullmatch(comment):
        promised = _VALUE.findall(comment)
        return None if len(promised) == len(printed) and all(map(_same, promised, printed)) else comment
    begins = _VALUE.match(comment)
    promised = [begins[0]] if begins else []
    promised += _DECIMAL.findall(comment, begins.end() if begins else 0)
    return next((value for value in promised if not any(_same(value, each) for each in printed)), None)


def _same(promised: str, printed: str) -> bool:
    if promised.endswith("…"):
        return _plain(printed).startswith(promised[:-1])
    return _plain(promised) == _plain(printed)


def _plain(value: str) -> str:
    return value.replace(",", "").replace("−", "-")


def _comments(code: str) -> dict[int, tuple[ast.Expr, str]]:
    """By their last line: `print` with a comment, anywhere, and other expressions with one at the top level."""
    tree, lines = ast.parse(code), code.splitlines()
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and (node in tree.body or _prints(node)):
            assert node.end_lineno is not None
            behind = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
            if comment := re.fullmatch(r"  # (.*)", behind):
                found[node.end_lineno] = (node, comment[1].strip())
    return dict(sorted(found.items()))


def _prints(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"


def _marked(code: str, said: dict[int, tuple[ast.Expr, str]]) -> str:
    """The program with marks around what commented statements print; expressions show their value, as at a prompt."""
    lines = code.splitlines()
    for end, (node, _) in said.items():
        start, margin = node.lineno - 1, " " * node.col_offset
        statement = ast.unparse(node) if _prints(node) else f"__import__('sys').displayhook({ast.unparse(node)})"
        marked = (f"print('{BEGIN}{end}')", statement, f"print('{END}')")
        lines[start:end] = ["\n".join(margin + line for line in marked), *[""] * (end - start - 1)]
    return "\n".join(lines) + "\n"
