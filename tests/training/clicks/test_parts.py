"""A log in parts teaches what the log in one piece teaches, without anybody holding it whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load
from rankloop.core.types import Floats
from rankloop.data.parts.source import sources_in
from rankloop.engine import Here, SummingEngine, Threads
from rankloop.training.clicks.parts import AS_NAMED, _clicks_in, train_click_parts
from rankloop.training.clicks.result import ClickTraining
from rankloop.training.clicks.train import train_clicks
from rankloop.training.risks.pairwise import ClickedPairs, hinge_of_pairs
from rankloop.training.solution_path import BatchSolver, SolverSettings
from tests.logs.numeric_log import read_numeric_log
from tests.training.clicks.test_batch import clicked_pairs

EXAMINED = np.array([1.0, 0.6, 0.4, 0.3, 0.25])
HIDDEN = np.array([1.5, -1.0, 0.0])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path_factory.mktemp("cache")))


def table_of(part: int, n_lists: int = 150) -> pa.Table:
    """Lists of five of a query's eight items, in any order, clicked where they are examined and please."""
    rng = np.random.default_rng([7, part])
    columns: dict[str, list[object]] = {name: [] for name in ("impression", "query", "item", "position", "click")}
    features: list[Floats] = []
    for number in range(n_lists):
        query = int(rng.integers(0, 30))
        items = rng.permutation(8)[: len(EXAMINED)]
        rows = np.random.default_rng(query).normal(size=(8, len(HIDDEN)))[items]
        pleases = 1.0 / (1.0 + np.exp(-2.0 * rows @ HIDDEN))
        clicks = rng.random(len(items)) < EXAMINED * pleases
        columns["impression"] += [f"{part}-{number}"] * len(items)
        columns["query"] += [f"q{query}"] * len(items)
        columns["item"] += [f"item{item}" for item in items]
        columns["position"] += list(range(1, len(items) + 1))
        columns["click"] += clicks.astype(int).tolist()
        features.append(rows)
    values = np.concatenate(features)
    return pa.table({**columns, **{f"f{number}": values[:, number] for number in range(len(HIDDEN))}})


def write_log(folder: Path, n_parts: int = 3) -> Path:
    folder.mkdir()
    for part in range(n_parts):
        if part == 0:
            parquet.write_table(table_of(part), folder / "log-0.parquet")
        else:
            csv.write_csv(table_of(part), folder / f"log-{part}.csv")
    return folder


def whole_log(path: Path, n_parts: int = 3) -> Path:
    parquet.write_table(pa.concat_tables([table_of(part) for part in range(n_parts)]), path)
    return path


def solver(path: list[float], engine: SummingEngine | None = None, loss: str = "ordinal") -> BatchSolver:
    return BatchSolver(loss, False, path, SolverSettings(engine=engine or Here()))


def weights_of(trained: ClickTraining) -> Floats:
    return np.array(trained.session.learner.weights)


def test_the_risk_is_the_hinge_over_all_clicked_pairs() -> None:
    rng = np.random.default_rng(0)
    scores, offsets = rng.normal(size=30), np.array([0, 10, 12, 30])
    weights = np.where(rng.random(30) < 0.3, 1.0 + rng.random(30), 0.0)
    pairs, costs = clicked_pairs(offsets, weights)
    expected, slope = hinge_of_pairs(scores, pairs, costs)
    value, grad = ClickedPairs().of_lists(scores, weights, offsets)
    assert ClickedPairs.n_pairs(weights, offsets) == len(pairs)
    assert value / len(pairs) == pytest.approx(expected, rel=1e-12)
    assert grad / len(pairs) == pytest.approx(slope, abs=1e-12)


def test_the_model_is_the_one_of_the_whole_log(tmp_path: Path) -> None:
    """Of one regularisation, so that it does not matter which lists are held out."""
    folder, whole = write_log(tmp_path / "log"), whole_log(tmp_path / "whole.parquet")
    in_parts, in_memory = (train_clicks(log, solver=solver([1e-2]), position_bias=EXAMINED) for log in (folder, whole))
    assert in_parts.feature_names == in_memory.feature_names == ("f0", "f1", "f2")
    weights = weights_of(in_parts)
    assert weights == pytest.approx(weights_of(in_memory), abs=0.05)
    assert weights @ HIDDEN / np.linalg.norm(weights) / np.linalg.norm(HIDDEN) > 0.95


def test_threads_and_one_process_agree_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankloop.training.solution_path.ROWS_PER_PART", 200)
    folder = str(write_log(tmp_path / "log"))
    here, threads = (train_click_parts(folder, solver([1e-1, 1e-2], engine)) for engine in (Here(), Threads(workers=2)))
    assert np.array_equal(weights_of(here), weights_of(threads))
    assert here.gains == threads.gains
    assert np.array_equal(here.examined, threads.examined)


def test_the_position_bias_is_estimated_as_from_the_whole(tmp_path: Path) -> None:
    found = train_click_parts(str(write_log(tmp_path / "log")), solver([1e-2]))
    whole = read_numeric_log(whole_log(tmp_path / "whole.parquet")).examined()
    assert found.examined == pytest.approx(whole, abs=1e-6)
    assert found.examined == pytest.approx(EXAMINED, abs=0.2)


def test_of_a_large_log_all_impressions_of_some_pairs_are_used(tmp_path: Path) -> None:
    sources = sources_in(str(write_log(tmp_path / "log")))
    everything = [_clicks_in((source, AS_NAMED, 10**9)) for source in sources]
    some = [_clicks_in((source, AS_NAMED, 300)) for source in sources]
    for all_of, few in zip(everything, some, strict=True):
        assert 100 < len(few.pairs) < 600 < len(all_of.pairs)
        chosen = all_of.pairs < few.end
        assert np.array_equal(few.pairs, all_of.pairs[chosen])
        assert np.array_equal(few.positions, all_of.positions[chosen])


def test_the_lists_of_a_query_are_held_out_together(tmp_path: Path) -> None:
    from rankloop.data.parts.catalogue import END_OF_NAME, hash_of

    assert hash_of("q1") == hash_of(f"q1{END_OF_NAME}log-0.csv:7") == hash_of(f"q1{END_OF_NAME}log-1.csv:0")
    assert hash_of("q1") != hash_of("q2")


def test_what_is_no_log_in_parts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_log(tmp_path / "log")
    with pytest.raises(InvalidInput, match="trained with the loss ordinal"):
        train_click_parts(str(folder), solver([1e-2], loss="nDCG@10"))
    (folder / "log-2.csv").write_text((folder / "log-2.csv").read_text().replace('"f1"', '"g1"'))
    with pytest.raises(InvalidInput, match=r"log-2\.csv has no column 'f1'"):
        train_click_parts(str(folder), solver([1e-2]))
    (tmp_path / "letor").mkdir()
    (tmp_path / "letor" / "part.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(InvalidInput, match=r"part\.txt is another file"):
        train_click_parts(str(tmp_path / "letor"), solver([1e-2]))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--solver", "both"], "Invalid value for '--solver'"),
        (["--solver", "online"], "--solver online works with a log in one file"),
        (["--schema", "shop.toml"], "--schema works with a log in one file"),
        (["--guess-schema", "shop.toml"], "--guess-schema works with a log in one file"),
        (["--loss", "nDCG@10"], "a log in parts is trained with the loss ordinal"),
    ],
)
def test_what_only_one_file_can_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], message: str
) -> None:
    folder = write_log(tmp_path / "log")
    with pytest.raises(SystemExit) as ended:
        main(["train-clicks", str(folder), "--out", str(tmp_path / "out"), *option])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str) -> None:
    folder = write_log(tmp_path / "log")
    given = ["--regularisation", "0.01", "--solver", "batch", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["train-clicks", f"{scheme}{folder}", *given])
    assert not ended.value.code, capsys.readouterr().err
    assert "features: f0, f1, f2" in capsys.readouterr().out
    assert load(tmp_path / "out" / "model.rankloop").problem.n_features == 3
