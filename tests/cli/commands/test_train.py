"""`rankloop train --trees lightgbm`: boosters from grades and from clicks, as a base score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import Ranker
from rankloop.cli import main
from rankloop.training.trees import TreeRanker


def run(capsys: pytest.CaptureFixture[str], *arguments: Any, command: str = "train") -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main([command, *map(str, arguments)])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def letor(path: Path, n_queries: int = 40) -> Path:
    """Good is where both features are high, or both low."""
    rng, lines = np.random.default_rng(0), []
    for query in range(n_queries):
        for a, b in rng.random((6, 2)):
            lines.append(f"{2 * int((a > 0.5) == (b > 0.5))} qid:{query} 1:{a:.3f} 2:{b:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_trees_from_grades_are_a_base_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lightgbm")
    data = letor(tmp_path / "web.txt")
    code, out, _ = run(capsys, data, "--trees", "lightgbm", "--out", tmp_path / "out", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["held_out"]["nDCG@5"] > 0.7
    trees = TreeRanker.load(tmp_path / "out" / "trees.json")
    assert trees.hash == answer["hash"]
    rows = np.array([[0.9, 0.9], [0.9, 0.1]])
    scores = trees.scores(rows, "new")
    assert scores[0] > scores[1]
    ranker = Ranker("newton_pairs", features=["a", "b", "trees"], base="trees", shown=1)
    items = {i: {"a": row[0], "b": row[1], "trees": score} for i, (row, score) in enumerate(zip(rows, scores))}
    assert {ranker.rank(items).ids[0] for _ in range(3)} <= {0, 1}
    assert ranker.weights["trees"] == 1.0


def test_trees_from_clicks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lightgbm")
    rng, lines = np.random.default_rng(0), ["list,query,position,item,click,a,b"]
    for page in range(120):
        order = rng.permutation(5)
        for position, item in enumerate(order.tolist()):
            a, b = item / 4, (page % 7 + item) % 5 / 4
            click = int(rng.random() < ((a > 0.5) == (b > 0.5)) / (position + 1))
            lines.append(f"{page},{page % 20},{position},{item},{click},{a},{b}")
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    given = tmp_path / "clicks.csv", "--trees", "lightgbm", "--out", tmp_path, "--json"
    code, out, err = run(capsys, *given, command="train-clicks")
    assert code == 0, err
    assert json.loads(out)["features"] == ["a", "b"]
    assert len(TreeRanker.load(tmp_path / "trees.json").boosters) == 5


def test_what_cannot_grow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = letor(tmp_path / "web.txt", 3)
    assert "'catboost' is not one of 'lightgbm'" in run(capsys, data, "--trees", "catboost")[2]
    assert "is a folder" in run(capsys, tmp_path, "--trees", "lightgbm")[2]
