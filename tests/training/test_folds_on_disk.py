"""Training on parts that stay on the disks gives the weights of memory, to the last bit, and clear errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.saved_session import load
from rankloop.data import Dataset, read_letor
from rankloop.data.parts.catalogue import HASH_END, PartOptions
from rankloop.engine import Here, LocalProcesses, SummingEngine, Threads, kept
from rankloop.training.folds import _stored_folds, catalogue_of, listing_of, read_folds
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import BatchSolver, SolverSettings, _borders_of, fit, mean_measures
from rankloop.training.train import cross_validate
from tests.data.parts.cases import lines_of, write_parts
from tests.data.parts.test_catalogue import sorted_in_memory


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(
        "rankloop.training.solution_path.ROWS_PER_PART", 70
    )  # so that partitions cross the parts' borders


@pytest.mark.parametrize(
    ("engine", "loss"),
    [
        (Here(), "ordinal"),
        (Here(), "nDCG@10"),
        (Threads(workers=2), "nDCG@10"),
        pytest.param(LocalProcesses(workers=2), "ordinal", marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_weights_are_those_of_memory_to_the_last_bit(tmp_path: Path, engine: SummingEngine, loss: str) -> None:
    folder, tight = write_parts(tmp_path), loss != "ordinal"
    with kept(engine) as where:
        catalogue = catalogue_of(listing_of(str(folder)).sources, PartOptions(), where)
        stored, whole = catalogue.within([(0, HASH_END)]), sorted_in_memory(folder, (0, HASH_END))
        assert len(_borders_of(stored)) == 7
        assert _borders_of(stored) == _borders_of(whole)
        found = fit(stored, risk_of(loss), 1e-2, tight=tight, settings=SolverSettings(engine=where))
    expected = fit(whole, risk_of(loss), 1e-2, tight=tight, settings=SolverSettings(engine=Here()))
    assert np.array_equal(found.weights, expected.weights)
    assert found.solution.history == expected.solution.history


def test_a_part_is_never_much_larger_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset.of(np.zeros((1000, 4)), np.zeros(1000), np.arange(0, 1001, 10))
    monkeypatch.setattr("rankloop.training.solution_path.MAX_PARTS", 2)
    assert len(_borders_of(data)) == 3
    monkeypatch.setattr("rankloop.training.solution_path.PART_BYTES", 4000)
    rows = np.diff(data.offsets[_borders_of(data)])
    assert rows.max() * 4 * 8 <= 4000 + 10 * 4 * 8
    assert rows.sum() == 1000


def test_folds_go_by_the_query_and_not_by_the_part(tmp_path: Path) -> None:
    """The same queries in four parts and in one: the same folds."""
    several = _stored_folds(str(write_parts(tmp_path / "several")), 4, Here())
    lines = [line for part in range(4) for line in lines_of(part)]
    (tmp_path / "one.txt").write_text("\n".join(lines))
    one = _stored_folds(str(tmp_path / "one.txt"), 4, Here())
    for ours, theirs in zip(several, one, strict=True):
        for role in ("train", "validation", "test"):
            pair = [_rows(getattr(fold, role).load()) for fold in (ours, theirs)]
            assert pair[0] == pair[1]
        sizes = ours.train.n_queries, ours.validation.n_queries, ours.test.n_queries
        assert sum(sizes) == 48
        assert min(sizes) > 0
    tests = [_rows(fold.test.load()) for fold in several]
    assert len(set().union(*tests)) == sum(map(len, tests)) == 480


def _rows(data: Dataset) -> set[bytes]:
    return {row.tobytes() for row in data.features}


def test_published_folds_give_the_numbers_of_memory(tmp_path: Path) -> None:
    folder = write_parts(tmp_path, n_parts=5)
    names = [f"part-{number}" for number in range(5)]
    table = {
        f"Fold{n + 1}": {"train": [names[(n + i) % 5] for i in range(3)], "vali": names[n - 2], "test": names[n - 1]}
        for n in range(5)
    }
    (folder / "folds.json").write_text(json.dumps(table))
    memory, disk = read_folds(folder)[:2], _stored_folds(str(folder), 5, Here())[:2]
    found, expected = (cross_validate(folds, BatchSolver(regularisation=[1e-1, 1e-3])) for folds in (disk, memory))
    assert found.best == expected.best
    assert np.array_equal(found.model.weights, expected.model.weights)
    for ours, theirs in zip(found.folds, expected.folds, strict=True):
        assert np.array_equal(ours.fit.weights, theirs.fit.weights)
        assert ours.curve == pytest.approx(theirs.curve, abs=1e-12)
        assert ours.test == pytest.approx(theirs.test, abs=1e-12)


def test_folders_of_folds_are_found(tmp_path: Path) -> None:
    for number in (1, 2):
        for part, role in enumerate(("train", "vali", "test")):
            (tmp_path / f"Fold{number}").mkdir(exist_ok=True)
            (tmp_path / f"Fold{number}" / f"{role}.txt").write_text("\n".join(lines_of(part + 10 * number)))
    memory, disk = read_folds(tmp_path), _stored_folds(str(tmp_path), 5, Here())
    assert [fold.name for fold in disk] == ["Fold1", "Fold2"]
    for ours, theirs in zip(disk, memory, strict=True):
        assert np.array_equal(ours.train.load().features, theirs.train.features)
        assert np.array_equal(ours.test.load().features, theirs.test.features)
    (tmp_path / "Fold2" / "vali.txt").unlink()
    with pytest.raises(NotFound, match=r"the part vali\.txt .* missing in .*Fold2"):
        _stored_folds(str(tmp_path), 5, Here())


def test_parts_that_count_features_from_zero_and_from_one_fit_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:a 0:1 1:2\n0 qid:a 1:3\n")
    (tmp_path / "b.txt").write_text("1 qid:b 1:4\n0 qid:b 1:5\n")
    sources = listing_of(str(tmp_path)).sources
    data = catalogue_of(sources, PartOptions(), Here()).load()
    assert data.features.tolist() == [[1, 2], [0, 3], [0, 4], [0, 5]]


def test_measures_of_skipped_queries_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:a 1:1\n0 qid:a 1:3\n0 qid:b 1:1\n0 qid:b 1:2\n0 qid:c 1:0\n1 qid:c 1:1\n")
    sources = listing_of(str(tmp_path)).sources
    stored = catalogue_of(sources, PartOptions(), Here()).within([(0, HASH_END)])
    asked = [(np.array([1.0]), "AP"), (np.array([-1.0]), "AP")]
    memory = mean_measures(asked, read_letor(tmp_path / "a.txt"), Here())
    assert mean_measures(asked, stored, Here()) == pytest.approx(memory, abs=1e-15)


def test_too_few_queries_for_the_folds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:a 1:1\n0 qid:a 1:3\n")
    with pytest.raises(InvalidInput, match="1 queries are too few for 3 folds"):
        _stored_folds(str(tmp_path), 3, Here())


def _train(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments, "--folds", "3", "--regularisation", "0.01"])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), " ".join((printed.out + printed.err).split())


def test_the_command_trains_on_a_folder_and_on_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, weights = write_parts(tmp_path / "data"), []
    for number, place in enumerate((str(folder), f"file://{folder}")):
        code, printed = _train(capsys, place, "--out", str(tmp_path / str(number)))
        assert code == 0, printed
        weights.append(load(tmp_path / str(number) / "model.rankloop").learner.weights)  # type: ignore[attr-defined]
    assert weights[0] == weights[1]
    code, printed = _train(capsys, str(folder / "part-0.txt"), "--stream", "--out", str(tmp_path / "one"))
    assert code == 0, printed


@pytest.mark.parametrize("damage", ["missing", "truncated", "twice", "changed"])
def test_bad_ground_is_named_and_leaves_no_model(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_parts(tmp_path / "data")
    last = folder / "part-3.txt.gz"
    if damage == "missing":
        (folder / "folds.json").write_text('{"Fold1": {"train": ["part-0"], "vali": "part-1", "test": "part-9"}}')
    elif damage == "truncated":
        last.write_bytes(last.read_bytes()[:-100])
    elif damage == "twice":
        (folder / "part-4.txt").write_text("\n".join(lines_of(2)))
    else:
        _touch_after(monkeypatch, last, passes=3)
    code, printed = _train(capsys, str(folder), "--stream", "--out", str(tmp_path / "out"))
    said = {
        "missing": "there is no part-9.txt",
        "truncated": "part-3.txt.gz is cut short or damaged",
        "twice": "part-2.txt and part-4.txt",
        "changed": "part-3.txt.gz' changed during training",
    }[damage]
    assert code != 0
    assert said in printed
    assert not (tmp_path / "out").exists()


def _touch_after(monkeypatch: pytest.MonkeyPatch, path: Path, passes: int) -> None:
    """Somebody writes to a part while the bundle method is at work."""
    from rankloop.training import solution_path

    ask, seen = solution_path.Objective.__call__, []

    def touched(self: solution_path.Objective, weights: np.ndarray) -> object:  # type: ignore[type-arg]
        seen.append(weights)
        if len(seen) == passes:
            os.utime(path)
        return ask(self, weights)

    monkeypatch.setattr(solution_path.Objective, "__call__", touched)
