"""Folds, the choice of the regularisation, and the command that does it all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from typer.testing import CliRunner

from rankloop.cli.app import app
from rankloop.cli.main import import_commands
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.saved_session import load_with_notes, save
from rankloop.data.folder import absence_notice, data_folder
from rankloop.data.letor.file import read_letor
from rankloop.engine import Here
from rankloop.evaluation.ranking.score import load_with_schema
from rankloop.training.folds import cut_folds, everything, read_folds
from rankloop.training.rank_bundle import NORMALISED_NOTE
from rankloop.training.solution_path import BatchSolver, mean_measures
from rankloop.training.train import cross_validate


def letor(path: Path, queries: range, seed: int = 0) -> None:
    rng = default_rng(seed)
    lines = []
    for query in queries:
        for _ in range(6):
            a, b = rng.normal(size=2)
            grade = min(max(round(a - b + 0.5 * rng.normal()), 0), 2)
            lines.append(f"{grade} qid:{query} 1:{a:.4f} 2:{b:.4f}")
    path.write_text("\n".join(lines) + "\n")


def test_one_file_is_cut_so_that_every_query_is_tested_once(tmp_path: Path):
    letor(tmp_path / "web.txt", range(20))
    folds = read_folds(tmp_path / "web.txt", 4)
    assert sorted(name for fold in folds for name in fold.test.query_ids) == sorted(map(str, range(20)))
    for fold in folds:
        names = [set(part.query_ids) for part in (fold.train, fold.validation, fold.test)]
        assert sum(map(len, names)) == len(set.union(*names)) == 20
    assert everything(folds).n_queries == 20
    again = read_folds(tmp_path / "web.txt", 4)
    assert [fold.test.query_ids for fold in again] == [fold.test.query_ids for fold in folds]


def test_folds_as_letor_ships_them(tmp_path: Path):
    for number in range(1, 4):
        (tmp_path / f"Fold{number}").mkdir()
        for position, part in enumerate(("train", "vali", "test")):
            letor(tmp_path / f"Fold{number}" / f"{part}.txt", range(4 * position, 4 * position + 4), number)
    folds = read_folds(tmp_path, 5)
    assert [fold.name for fold in folds] == ["Fold1", "Fold2", "Fold3"]
    assert folds[0].validation.query_ids == ("4", "5", "6", "7")


def test_folds_from_a_list_of_parts(tmp_path: Path):
    for part in range(1, 4):
        letor(tmp_path / f"S{part}.txt", range(10 * part, 10 * part + 4), part)
    listed = {"Fold1": {"train": ["S1"], "vali": "S2", "test": "S3"}}
    (tmp_path / "folds.json").write_text(json.dumps(listed))
    (fold,) = read_folds(tmp_path, 5)
    assert fold.test.query_ids == ("30", "31", "32", "33")
    (tmp_path / "folds.json").write_text("{}x")
    with pytest.raises(InvalidInput, match="should hold"):
        read_folds(tmp_path, 5)


def test_what_is_no_data_set_is_said(tmp_path: Path):
    with pytest.raises(NotFound, match="neither a LETOR file nor a folder"):
        read_folds(tmp_path)
    letor(tmp_path / "few.txt", range(3))
    with pytest.raises(InvalidInput, match="3 queries are too few for 5 folds"):
        read_folds(tmp_path / "few.txt")
    with pytest.raises(InvalidInput, match="at least 3 folds"):
        read_folds(tmp_path / "few.txt", 2)


def test_the_regularisation_is_chosen_on_validation_queries_alone(tmp_path: Path):
    letor(tmp_path / "web.txt", range(30))
    folds = read_folds(tmp_path / "web.txt", 3)
    seen: list[tuple[int, int]] = []
    path = (1e-3, 1e3)
    result = cross_validate(folds, BatchSolver(regularisation=path), progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (7, 7)
    assert result.path == (1e3, 1e-3)
    for fold, chosen in zip(folds, result.folds):
        assert chosen.regularisation == result.path[int(np.argmax(chosen.curve))]
        assert [chosen.curve.max()] == mean_measures([(chosen.fit.weights, "nDCG@10")], fold.validation, Here())
        assert [chosen.test["nDCG@10"]] == mean_measures([(chosen.fit.weights, "nDCG@10")], fold.test, Here())
    with pytest.raises(InvalidInput, match="above 0"):
        cross_validate(folds, BatchSolver(regularisation=[0.0]))


@pytest.mark.parametrize("measure", ["AUCLoss", "SumLoss"])
def test_of_a_loss_the_least_is_chosen(tmp_path: Path, measure: str):
    letor(tmp_path / "web.txt", range(30))
    dataset = read_letor(tmp_path / "web.txt")
    # A strong regularisation hardly uses a feature of a small scale.
    folds = cut_folds(dataset._replace(features=dataset.features * [1.0, 0.05]), 3)
    result = cross_validate(folds, BatchSolver(regularisation=(1e6, 1e-3)), measure=measure)
    for fold in result.folds:
        assert fold.regularisation == result.path[int(np.argmin(fold.curve))]
    curves = np.mean([fold.curve for fold in result.folds], axis=0)
    assert curves[0] != curves[1]
    assert result.best == result.path[int(np.argmin(curves))]
    result.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def run(*arguments: str, command: str = "train"):
    import_commands()
    return CliRunner().invoke(app, [command, *arguments], catch_exceptions=True)


def test_a_model_remembers_that_its_features_were_scaled(tmp_path: Path):
    """The first feature is large where the second decides, so that raw features are ranked otherwise."""
    rng, lines = default_rng(0), []
    for query in range(30):
        offset = 100.0 * rng.random()
        for _ in range(6):
            a, b = rng.random(2)
            lines.append(f"{int(3 * b)} qid:{query} 1:{offset + 50 * a:.4f} 2:{b:.4f}")
    data, out = tmp_path / "web.txt", tmp_path / "out"
    data.write_text("\n".join(lines) + "\n")
    trained = run(str(data), "--folds", "3", "--regularisation", "0.001", "--normalise", "--out", str(out))
    assert trained.exit_code == 0, trained.output
    model = str(out / "model.rankloop")
    assert "was trained with --normalise" in run(model, str(data), command="evaluate").stderr
    session, notes = load_with_notes(model)
    assert notes[NORMALISED_NOTE] is True
    with pytest.raises(InvalidInput, match="scaled from 0 to 1 inside each query"):
        load_with_schema(Path(model))
    save(session, tmp_path / "plain.rankloop")
    assert load_with_schema(tmp_path / "plain.rankloop")[0].learner == session.learner


def test_the_command_prints_a_table_and_saves_a_model(tmp_path: Path):
    letor(tmp_path / "web.txt", range(30))
    out = tmp_path / "out"
    options = ("--folds", "3", "--regularisation", "0.1,0.001", "--out", str(out))
    result = run(str(tmp_path / "web.txt"), *options)
    assert result.exit_code == 0, result.output
    for word in ("Fold1", "Fold3", "mean", "nDCG@1 ", "nDCG@3", "nDCG@5", "nDCG@10", "MAP"):
        assert word in result.output
    assert (out / "validation.png").read_bytes().startswith(b"\x89PNG")
    session, notes = load_with_notes(out / "model.rankloop")
    assert session.problem.n_features == 2
    assert notes["loss"] == "ordinal"
    told = json.loads(run(str(tmp_path / "web.txt"), *options, "--json", "--loss", "nDCG@3", "--tight").stdout)
    assert len(told["folds"]) == 3
    assert told["mean"]["nDCG@10"] > 0.7


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--loss", "ordinl"), "did you mean"),
        (("--regularisation", "much"), "write them separated by commas"),
        (("--tight",), "tight applies to losses"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: tuple[str, ...], complaint: str):
    letor(tmp_path / "web.txt", range(9))
    result = run(str(tmp_path / "web.txt"), "--folds", "3", *options)
    assert complaint in str(result.exception)


def test_a_regularisation_too_small_for_numbers_ends_with_a_warning(tmp_path: Path):
    letor(tmp_path / "web.txt", range(9))
    small = ("--loss", "least_squares", "--regularisation", "1e-15", "--out", str(tmp_path / "out"))
    result = run(str(tmp_path / "web.txt"), "--folds", "3", *small)
    assert result.exit_code == 0, result.exception
    assert "note: stopped" in result.output
    assert "raise the regularisation" in result.output


@pytest.mark.slow
def test_mq2008_is_learned(tmp_path: Path):
    folder = data_folder()
    if folder is None or not (folder / "letor" / "mq2008").is_dir():
        pytest.skip(absence_notice("MQ2008"))
    told = json.loads(run(str(folder / "letor" / "mq2008"), "--out", str(tmp_path), "--json").stdout)
    assert len(told["folds"]) == 5
    assert 0.48 < told["mean"]["nDCG@10"] < 0.52
    assert 0.45 < told["mean"]["AP"] < 0.50
