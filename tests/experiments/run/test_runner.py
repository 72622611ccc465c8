"""Runs: the numbers are those of `play`, whoever computes them, and an interruption neither repeats nor loses one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rankloop.core.errors import Conflict, IncompatibleFeedback, InvalidInput
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.core.types import Query
from rankloop.engine import Here, LocalProcesses
from rankloop.experiments.run.runner import RUNS_FILE, Run, _open_results, _run_one, read_runs, run_experiment
from rankloop.experiments.run.tasks import Task
from rankloop.simulate.play import play
from tests.experiments.cases import small


class StopAfter:
    """An engine that is interrupted after some tasks."""

    def __init__(self, n: int) -> None:
        self.left = n

    def map(self, tasks: Sequence[Any], function: Callable[[Any], Any], done: Any = None) -> list[Any]:
        for index, task in enumerate(tasks):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            done(index, function(task))
        return []


def _numbers(runs: list[Run]) -> list[Any]:
    return [(run.key, run.checkpoints, run.values, run.reports) for run in runs]


def test_a_run_is_play_written_down() -> None:
    experiment = small(predicted=True, measures=["DCG", "AP"])
    run = _run_one(Task(experiment, "small", "leader", 5))
    learner, stream = build({"kind": "ftpl", "measure": "DCG", "horizon": 200}), build(experiment.stream, "stream")
    rounds = list(play(learner, stream, build("full", "feedback"), horizon=200, seed=5))
    for name in ("DCG", "AP"):
        measure = build(name, "measure")
        shown = np.array([measure(round.decision.ranking, round.relevance) for round in rounds])
        best = np.array([measure(learner.predict(round.state, round.query), round.relevance) for round in rounds])
        for position, t in enumerate(run.checkpoints):
            assert run.values[name]["average"][position] == pytest.approx(shown[:t].mean())
            assert run.values[name]["recent"][position] == pytest.approx(shown[max(t - 20, 0) : t].mean())
            assert run.values[name]["predicted"][position] == pytest.approx(best[:t].mean())


def test_new_queries_are_those_that_were_held_out() -> None:
    stream = {"kind": "held_out", "inner": {"kind": "web_search", "n_queries": 10, "n_items": 6, "n_features": 3}}
    arms = [{"name": "pairs", "learner": "fair_pairs", "feedback": "dcm"}]
    experiment = small(stream=stream, arms=arms, measures=["nDCG@5"], new_queries=[50, 200], regret=False)
    run = _run_one(Task(experiment, "small", "pairs", 5))
    learner, played = build("fair_pairs"), build(stream, "stream")
    rounds = list(play(learner, played, build("dcm", "feedback"), horizon=200, seed=5))
    features, relevance, offsets, _ = played.parts(generators(5)[0])[1]
    measure = build("nDCG@5", "measure")
    for t in (50, 200):
        values = [
            measure(learner.predict(rounds[t - 1].learned, Query.of(features[a:b])), relevance[a:b])
            for a, b in pairwise(offsets.tolist())
        ]
        assert run.values["nDCG@5"]["new_queries"][run.checkpoints.index(t)] == pytest.approx(np.mean(values))
    assert sum(value is not None for value in run.values["nDCG@5"]["new_queries"]) == 2


def test_new_queries_need_a_stream_that_holds_some_out() -> None:
    with pytest.raises(InvalidInput, match="held_out"):
        _run_one(Task(small(new_queries=[50]), "small", "leader", 5))
    with pytest.raises(InvalidInput, match="new_queries"):
        small(new_queries=[0])


def test_regret_is_that_of_the_prefix_and_its_factor_counts() -> None:
    experiment = small(regret_factor=0.5)
    run, plain = (_run_one(Task(e, "small", "still", 1)) for e in (experiment, small()))
    measure = build("DCG", "measure")
    stream = build(experiment.stream, "stream")
    rounds = list(play(build("random_order"), stream, build("full", "feedback"), horizon=50, seed=1))
    relevance = np.array([round.relevance for round in rounds])
    best_order = np.argsort(-relevance.sum(axis=0), kind="stable")
    best = np.mean([measure(best_order, grades) for grades in relevance])
    shown = np.mean([measure(np.arange(4), grades) for grades in relevance])
    position = run.checkpoints.index(50)
    assert plain.values["DCG"]["regret"][position] == pytest.approx(best - shown)
    assert run.values["DCG"]["regret"][position] == pytest.approx(0.5 * best - shown)


def test_the_ceiling_is_the_best_ranking_of_every_query_and_nobody_is_above_it() -> None:
    ceiling, arm = (
        _run_one(Task(small(), "small", name, 2)).values["DCG"]["average"] for name in ("best possible", "leader")
    )
    assert all(high >= low for high, low in zip(ceiling, arm))
    measure, stream = build("DCG", "measure"), build(small().stream, "stream")
    rounds = play(build("random_order"), stream, build("full", "feedback"), horizon=200, seed=2)
    assert ceiling[-1] == pytest.approx(np.mean([measure.best(round.relevance) for round in rounds]))


def test_queries_that_a_measure_skips_are_left_out() -> None:
    stream = {"kind": "flipped_relevance", "n_items": 4, "n_relevant": 0, "flip": 0.1}
    skip, zero = 'nDCG(empty="skip")', "nDCG"
    run = _run_one(Task(small(stream=stream, measures=[skip, zero]), "small", "still", 0))
    skipped, counted = run.values["nDCG(empty='skip')"]["average"][-1], run.values[zero]["average"][-1]
    assert skipped is not None
    assert counted is not None
    assert skipped > 1.5 * counted  # (1 − 0.9⁴) of the queries have a relevant item


def test_learners_report_themselves() -> None:
    arm = {"name": "a", "learner": "3pr", "feedback": "noisy_reader"}
    experiment = small(stream="web_search", measures=["nDCG@10"], arms=[arm], regret=False)
    run = _run_one(Task(experiment, "small", "a", 0))
    assert len(run.reports["score_agreement"]) == len(run.checkpoints)


def test_delivery_changes_what_the_learner_hears_and_nothing_else() -> None:
    arm = {"name": "leader", "learner": {"kind": "ftpl", "measure": "DCG", "horizon": "$horizon"}}
    runs = []
    for delivery in ({}, {"delivery": {"kind": "lost", "share": 1.0}}, {"delivery": {"kind": "late", "rounds": 0}}):
        runs.append(_run_one(Task(small(arms=[arm | delivery]), "small", "leader", 4)).values["DCG"]["average"])
    plain, deaf, punctual = runs
    assert plain == punctual
    assert plain[0] == deaf[0]
    assert plain[-1] > deaf[-1]


def test_one_process_or_many_the_same_numbers(tmp_path: Path) -> None:
    one = run_experiment(small(), tmp_path / "one", Here())
    many = run_experiment(small(), tmp_path / "many", LocalProcesses(workers=2))
    assert _numbers(one) == _numbers(many)


@pytest.mark.parametrize("finished", [0, 3, 7])
def test_an_interruption_neither_repeats_nor_loses_a_run(tmp_path: Path, finished: int) -> None:
    whole = run_experiment(small(), tmp_path / "whole", Here())
    with pytest.raises(KeyboardInterrupt):
        run_experiment(small(), tmp_path / "torn", StopAfter(finished))
    lines = tmp_path / "torn" / RUNS_FILE
    before = lines.read_bytes()
    lines.write_bytes(before + b'{"format":1,"version":"0.')  # the power went while a line was written
    seen: list[tuple[int, int]] = []
    resumed = run_experiment(small(), tmp_path / "torn", Here(), lambda done, of: seen.append((done, of)))
    assert _numbers(resumed) == _numbers(whole)
    assert lines.read_bytes().startswith(before)
    assert len(read_runs(tmp_path / "torn")) == 8
    assert seen == [(done, 8) for done in range(finished, 9)]


def test_more_seeds_go_on_and_fewer_ask_for_nothing(tmp_path: Path) -> None:
    run_experiment(small(seeds=1), tmp_path, Here())
    assert len(run_experiment(small(seeds=3), tmp_path, Here())) == 12
    assert {run.seed for run in run_experiment(small(seeds=[1]), tmp_path, StopAfter(0))} == {1}


def test_another_experiment_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path, Here())
    before = (tmp_path / RUNS_FILE).read_bytes()
    with pytest.raises(Conflict, match=r"results of another experiment 'small' \(different: horizon\).*--out"):
        run_experiment(small(horizon=300, seeds=5), tmp_path, Here())
    assert (tmp_path / RUNS_FILE).read_bytes() == before


def test_results_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(small(), tmp_path, Here())
    monkeypatch.setattr("rankloop.experiments.run.runner.PACKAGE_VERSION", "99.0")
    with pytest.raises(Conflict, match=r"this is 99\.0"):
        run_experiment(small(), tmp_path, Here())


def test_two_writers_in_one_folder_are_noticed(tmp_path: Path) -> None:
    with _open_results(tmp_path, small()), pytest.raises(Conflict, match="another process is writing"):
        run_experiment(small(), tmp_path, Here())


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path, Here())
    lines = (tmp_path / RUNS_FILE).read_bytes().split(b"\n")
    lines[2] = lines[2][:40]
    (tmp_path / RUNS_FILE).write_bytes(b"\n".join(lines))
    with pytest.raises(InvalidInput, match="line 3 is damaged"):
        run_experiment(small(), tmp_path, Here())


def test_the_parquet_file_says_the_same(tmp_path: Path) -> None:
    runs = run_experiment(small(), tmp_path, Here())
    rows = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    wanted = {"arm": "still", "seed": 1, "measure": "DCG", "quantity": "regret", "round": 200}
    found = [row["value"] for row in rows if wanted.items() <= row.items()]
    run = next(run for run in runs if run.key == ("small", "still", 1))
    assert found == [run.values["DCG"]["regret"][-1]]


def test_what_goes_wrong_in_a_run_names_the_arm() -> None:
    arms = [{"name": "clicker", "learner": "3pr", "feedback": "full"}]
    with pytest.raises(Exception, match=r"arm 'clicker', seed 0: .*learns from Clicks"):
        _run_one(Task(small(arms=arms), "small", "clicker", 0))


def test_log_spaced_rounds_grow_by_a_factor() -> None:
    run = _run_one(Task(small(checkpoints=6, window=1.0), "small", "still", 0))
    ratios = [later / earlier for earlier, later in pairwise(run.checkpoints)]
    assert max(ratios) < 3.5
    assert min(ratios) > 2.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [{"name": "odd", "learner": "ftpl"}], "stream": "separable"}, "arm 'odd': .*fixed set"),
        (
            {"arms": [{"name": "deaf", "learner": "ftpl", "feedback": "first_relevant"}]},
            "arm 'deaf': .*not from Clicks",
        ),
    ],
)
def test_arms_that_do_not_fit_are_found_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidInput, IncompatibleFeedback), match=message):
        run_experiment(small(regret=False, **changes), tmp_path / "results", Here())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"horizon": 10**12}, {"seeds": 10**10}, {"checkpoints": 10**11}])
def test_astronomic_experiments_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(change))):
        small(**change)


def test_results_of_other_code_are_kept_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(small(), tmp_path, Here())
    run_experiment(small(), tmp_path, Here())  # the same code says nothing
    monkeypatch.setattr("rankloop.experiments.run.runner.code_key", lambda imports: "another")
    with pytest.warns(RuntimeWarning, match="made by other code"):
        run_experiment(small(), tmp_path, Here())
