"""Learners outside the package: named in an experiment, imported here and in workers, or refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.engine import Here, LocalProcesses
from rankloop.experiments.run.runner import read_runs, run_experiment
from rankloop.experiments.run.tasks import deciding_fields
from rankloop.experiments.spec.load import parse_spec, read_spec
from rankloop.experiments.spec.plugins import Module, import_on_worker, modules_of
from tests.experiments.cases import table
from tests.imported_learners import forgotten_afterwards

LEARNER = """
from neighbour import ORDER
from rankloop import register
from rankloop.learners.baseline import RandomOrder


@register("{kind}")
class Mine(RandomOrder):
    '''Random order under another name.'''

    kind_of_order: str = ORDER
"""
SPEC = """
imports = [{imports}]
stream = {{ kind = "flipped_relevance", n_items = 4, n_relevant = 2 }}
measures = ["DCG"]
horizon = 50
seeds = 2
checkpoints = 3

[[arms]]
name = "mine"
learner = "{kind}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with two learners and an experiment; what they change in this process is undone."""
    (tmp_path / "neighbour.py").write_text("ORDER = 'random'\n")
    for kind in ("outside_one", "outside_two"):
        (tmp_path / f"{kind}.py").write_text(LEARNER.format(kind=kind))
    with forgotten_afterwards(tmp_path):
        yield tmp_path


def _written(folder: Path, kind: str, *imports: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(SPEC.format(kind=kind, imports=", ".join(f'"{entry}"' for entry in imports)))
    return path


@pytest.mark.parametrize("entry", ["outside_one", "outside_one.py", "./outside_one.py"])
def test_a_module_or_a_file_beside_the_experiment(folder: Path, entry: str) -> None:
    experiment = read_spec(_written(folder, "outside_one", entry))
    assert experiment.imports == (entry,)
    assert modules_of(experiment.imports) == (Module("outside_one", str(folder)),)
    assert msgspec.json.decode(msgspec.json.encode(experiment), type=type(experiment)) == experiment


def test_workers_import_it_and_give_the_same_numbers(folder: Path) -> None:
    experiment = read_spec(_written(folder, "outside_two", "outside_two.py"))
    here = run_experiment(experiment, folder / "here", Here())
    there = run_experiment(experiment, folder / "there", LocalProcesses(workers=1))
    assert [run.values for run in here] == [run.values for run in there]
    assert len({run.code.partition("+")[2] for run in here + there}) == 1


def test_a_worker_elsewhere_finds_it_by_its_folder(folder: Path) -> None:
    with pytest.raises(NotFound, match="no module 'outside_one' on this worker"):
        import_on_worker([Module("outside_one", "")])
    import_on_worker([Module("outside_one", str(folder))])
    assert "outside_one" in sys.modules


def test_a_package_beside_the_experiment(folder: Path) -> None:
    (folder / "bundle_of_mine").mkdir()
    (folder / "bundle_of_mine" / "__init__.py").write_text("")
    (folder / "bundle_of_mine" / "third.py").write_text(LEARNER.format(kind="outside_three"))
    experiment = read_spec(_written(folder, "outside_three", "bundle_of_mine.third"))
    assert modules_of(experiment.imports) == (Module("bundle_of_mine.third", str(folder)),)


def test_changed_code_is_noticed(folder: Path) -> None:
    experiment = read_spec(_written(folder, "outside_one", "outside_one.py"))
    run_experiment(experiment, folder / "results", Here())
    with (folder / "outside_one.py").open("a") as file:
        file.write("# changed\n")
    with pytest.warns(RuntimeWarning, match="made by other code"):
        run_experiment(experiment, folder / "results", Here())
    assert all("+" in run.code for run in read_runs(folder / "results"))


def test_without_imports_the_deciding_fields_are_as_before(folder: Path) -> None:
    plain = parse_spec(table(), "small.toml")
    assert deciding_fields(plain) == deciding_fields(msgspec.structs.replace(plain, imports=()))
    assert deciding_fields(plain) != deciding_fields(msgspec.structs.replace(plain, imports=("outside_one",)))


@pytest.mark.parametrize(
    ("entry", "content", "message"),
    [
        ("nosuch_module", None, "imports: there is no module 'nosuch_module', neither on Python's path nor in"),
        ("nosuch.py", None, "imports: there is no file .*nosuch.py"),
        ("a b; c", None, "'a b; c' is neither a module name nor a .py file"),
        ("../up", None, "is neither a module name"),
        (
            "broken_one.py",
            "x = 1\ny = 1 / 0\n",
            r"broken_one cannot be imported: ZeroDivisionError.*\(broken_one.py, line 2",
        ),
        ("broken_two.py", "x = = 1\n", r"broken_two cannot be imported: SyntaxError.*\(broken_two.py, line 1\)"),
        (
            "broken_three.py",
            "import nosuch_library\n",
            r"ModuleNotFoundError: No module named 'nosuch_library' \(broken_th",
        ),
        ("broken_four.py", "import sys\nsys.exit(3)\n", r"SystemExit: 3 \(broken_four.py, line 2\)"),
        ("random.py", "", "already has a module 'random'.*rename .*random.py"),
        (
            "broken_five.py",
            LEARNER.format(kind="3pr"),
            r"learner '3pr' is already rankloop.learners.*\(broken_five.py, line \d+\)",
        ),
    ],
    ids=lambda value: str(value)[:14],
)
def test_what_cannot_be_imported_is_one_line(folder: Path, entry: str, content: str | None, message: str) -> None:
    if content is not None:
        (folder / entry).write_text(content)
    with pytest.raises((InvalidInput, NotFound), match=message):
        read_spec(_written(folder, "outside_one", entry))
