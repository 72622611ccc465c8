"""One notion, one word: no identifier of the package is made of a word that the glossary has replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rankloop

SOURCE = Path(rankloop.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
OF_OTHERS = {"gather"}  # asyncio's


def table(heading: str) -> list[list[str]]:
    """The rows of the table that begins with these columns."""
    lines = DESIGN.read_text(encoding="utf-8").split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cell_words(cell: str) -> list[str]:
    return [word.strip().strip("`") for word in cell.split(",") if word.strip()]


def identifiers(source: str) -> Iterator[tuple[str, int]]:
    """Every name that the source uses or gives, with its line."""
    for node in ast.walk(ast.parse(source)):
        names = {
            "Name": ("id",),
            "Attribute": ("attr",),
            "arg": ("arg",),
            "keyword": ("arg",),
            "FunctionDef": ("name",),
            "AsyncFunctionDef": ("name",),
            "ClassDef": ("name",),
            "alias": ("name", "asname"),
        }.get(type(node).__name__, ())
        for name in names:
            found = getattr(node, name)
            if isinstance(found, str):
                yield found.rpartition(".")[2], getattr(node, "lineno", 0)


def replaced_words() -> dict[str, str]:
    """The words that are no longer used, each with the one that is."""
    return {word: row[0] for row in table("| word | meaning | not |") for word in cell_words(row[2])}


def kept_names() -> set[tuple[str, str]]:
    return {(row[1], name) for row in table("| name | where | what it is |") for name in cell_words(row[0])}


def misnamed(source: str, file: str) -> list[str]:
    replaced, kept, wrong = replaced_words(), kept_names(), []
    for name, line in identifiers(source):
        pieces = {piece.lower() for piece in WORD.findall(name)} | {f"{piece}_" for piece in WORD.findall(name)[:1]}
        bad = sorted(pieces.intersection(replaced) - OF_OTHERS)
        if bad and (file, name) not in kept:
            wrong.append(f"{file}:{line}: {name}: say {replaced[bad[0]]}, not {bad[0]}")
    return wrong


def test_every_identifier_is_in_the_words_of_the_glossary() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        wrong += misnamed(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix())
    assert wrong == []


def test_a_replaced_word_would_be_found() -> None:
    source = "MOST_ITEMS = 3\ndef worth_of_places(x): return x.looks\nclass Taught: pass\nimport stable\n"
    found = {line.split(": ")[1] for line in misnamed(source, "x.py")}
    assert found == {"MOST_ITEMS", "worth_of_places", "looks", "Taught", "stable"}


def test_names_that_stay_are_still_there() -> None:
    for file, name in kept_names():
        source = (SOURCE / file).read_text(encoding="utf-8")
        assert name in {found for found, _ in identifiers(source)}, (
            f"{name} is no longer in {file}: take it off the list"
        )


def test_the_tree_of_the_design_page_is_the_tree() -> None:
    block = DESIGN.read_text(encoding="utf-8").split("## The house")[1].split("```")[1]
    told: set[str] = set()
    path: list[str] = []
    for line in block.strip("\n").splitlines():
        name, depth = line.split()[0], (len(line) - len(line.lstrip())) // 2
        path = [*path[:depth], name.rstrip("/")]
        told.add("/".join(path))
    folders = {folder.parent.relative_to(SOURCE).as_posix() for folder in SOURCE.rglob("__init__.py")} - {"."}
    modules = {module.name for module in SOURCE.glob("*.py") if not module.name.startswith("__")}
    assert told == folders | modules
