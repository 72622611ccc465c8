"""The tree can be walked by guessing: small folders, files named by nouns, and tests beside what they test."""

from pathlib import Path

import rankloop

SOURCE = Path(rankloop.__file__).parent
TESTS = Path(__file__).parent
RESEARCH = TESTS.parent / "research"  # beside the package, not in the wheel
MAX_MODULES = 14
# One file per algorithm: the registry finds them all, and a newcomer finds one by its name.
ALGORITHMS = {
    "cli/commands",
    "interleaving",
    "learners",
    "learners/wrappers",
    "measures",
    "simulate/streams",
    "simulate/users",
    "surrogates",
    "training/risks",
}
NOUNS = {
    "based": "position_based is the field's name of a click model",
    "interleaving": "the field's noun for mixing two rankings in one list",
    "learning": "what a service does with feedback, as the field calls it",
    "monitoring": "the trade's noun for health, readiness and metrics",
    "reading": "how a user goes through a list",
    "ranking": "what the package makes",
    "shared": "learners/_shared: what is no algorithm of its own",
    "tampering": "inputs that somebody has altered",
    "training": "the field's noun for fitting a ranker to data",
}
OF_THE_HOUSE = (
    "test_docstrings.py",
    "test_hosts.py",
    "test_names.py",
    "test_public_names.py",
    "test_request_walk.py",
    "test_structure.py",
    "test_tree.py",
)
# Tests that hold for the whole rather than for a module, by what they hold true.
SUITES = (
    "benchmarks",
    "contracts",
    "docs",
    "golden",
    "peers",
    "search/page",
    "service/page",
    "service/promises",
)


def names_in(folder: Path, pattern: str = "*.py") -> list[str]:
    return sorted(path.stem for path in folder.glob(pattern) if not path.stem.startswith("__"))


def folders_of(root: Path) -> list[Path]:
    """All folders with Python in them, the root first."""
    return sorted({path.parent for path in root.rglob("*.py")})


def in_suite(folder: str) -> bool:
    return any(folder == suite or folder.startswith(f"{suite}/") for suite in SUITES)


def relative(folder: Path, root: Path) -> str:
    return folder.relative_to(root).as_posix()


def test_a_folder_can_be_seen_at_a_glance() -> None:
    many = {
        relative(folder, root.parent if root is RESEARCH else root): len(names_in(folder))
        for root in (SOURCE, RESEARCH)
        for folder in folders_of(root)
    }
    assert {name: n for name, n in many.items() if n > MAX_MODULES and name not in ALGORITHMS} == {}


def test_names_are_nouns() -> None:
    """A name that ends in -ing or -ed says what is done, not what is there."""
    names = {path.with_suffix("") for path in (*SOURCE.rglob("*.py"), *folders_of(SOURCE))}
    verbs = [path for path in names if path.name.endswith(("ing", "ed")) and path.name.split("_")[-1] not in NOUNS]
    assert sorted(relative(path, SOURCE) for path in verbs) == []


def test_tests_stand_beside_what_they_test() -> None:
    """The name of a test file begins with that of a module in its folder of the package, or names a folder."""
    tests = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.name not in OF_THE_HOUSE]
    lost = [test for test in tests if not in_suite(test.parent.as_posix()) and not has_module(test)]
    assert sorted(map(str, lost)) == []


def has_module(test: Path) -> bool:
    name = test.stem.removeprefix("test_")
    outside = test.parts[0] == RESEARCH.name
    folder = (RESEARCH.parent if outside else SOURCE) / test.parent
    is_of_module = any(name == module or name.startswith(f"{module}_") for module in names_in(folder))
    return is_of_module or (folder / name).is_dir() or (folder.is_dir() and folder.name == name)


def test_suites_exist() -> None:
    assert [suite for suite in SUITES if not names_in(TESTS / suite, "test_*.py")] == []
