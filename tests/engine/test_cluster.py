"""The cluster engine on two real nodes of separate processes, one of which is killed in the middle."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's word for it; hosts of other tests need the network
with pytest.MonkeyPatch.context() as _environment:
    _environment.setenv(*LOOPBACK)
    ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "rankloop[cluster]"')

from rankloop.core.errors import InvalidInput  # noqa: E402
from rankloop.data.dataset import Dataset  # noqa: E402
from rankloop.engine import Cluster, Here, LocalProcesses  # noqa: E402
from rankloop.engine.base import over_pieces  # noqa: E402
from rankloop.evaluation.off_policy.ranking_log import AskedRanker  # noqa: E402
from rankloop.evaluation.propensity_evaluation import report_of_rows  # noqa: E402
from rankloop.experiments.run.runner import run_experiment  # noqa: E402
from rankloop.experiments.spec.load import parse_spec  # noqa: E402
from rankloop.training.risks.base import risk_of  # noqa: E402
from rankloop.training.solution_path import SolverSettings, fit_path  # noqa: E402
from tests.engine.tasks import scaled, squared, summed  # noqa: E402
from tests.registry_entries import unregister  # noqa: E402
from tests.training.clicks.test_passes import SCHEMA, logged, train_with_schema  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
OUTSIDE = """
import os, signal
from pathlib import Path
from rankloop import register
from rankloop.learners.baseline import RandomOrder

@register("outside_cluster")
class Mine(RandomOrder):
    '''A learner that no worker knows by itself, and that kills the first one which plays it.'''

    def init(self, problem):
        mark = Path(__file__).with_suffix(".died")
        if os.getpid() != DRIVER and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().init(problem)
"""
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
PARTITIONS = [np.random.default_rng(seed).normal(size=100) * 10.0**seed for seed in range(5)]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A head and one more node on the loopback interface, each with processes of its own."""
    from ray.cluster_utils import Cluster as Nodes

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        warnings.simplefilter("ignore")
        paths = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # where workers find this file
        environment.setenv(*LOOPBACK)
        options = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 2, "_system_config": SOON}
        nodes = Nodes(initialize_head=True, head_node_args=options)
        ray.init(address=nodes.address, _node_ip_address="127.0.0.1", log_to_driver=False)
        try:
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()


def test_map_in_order_and_errors_raised_here(two_nodes: Any) -> None:
    seen: list[int] = []
    assert Cluster().map(range(6), squared, lambda index, result: seen.append(index)) == [0, 1, 4, 9, 16, 25]
    assert sorted(seen) == list(range(6))
    with pytest.raises(InvalidInput, match="thirteen"):
        Cluster().map([1, 13], squared)


def test_a_killed_node_does_not_change_the_sum(two_nodes: Any) -> None:
    second = two_nodes.add_node(num_cpus=2, node_ip_address="127.0.0.1")
    two_nodes.wait_for_nodes()
    with Here().sum_over(PARTITIONS, scaled) as total:
        expected = [total(factor) for factor in (1.0, 2.0, 3.0)]
    with Cluster(workers=4).sum_over(PARTITIONS, scaled) as total:  # three shares: too many for the head alone
        assert np.array_equal(total(1.0), expected[0])
        two_nodes.remove_node(second, allow_graceful=False)
        two_nodes.add_node(num_cpus=2, node_ip_address="127.0.0.1")  # a spare one takes over
        assert np.array_equal(total(2.0), expected[1])
        assert np.array_equal(total(3.0), expected[2])


def test_training_gives_the_same_weights_here_in_processes_and_on_the_cluster(
    two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankloop.training.solution_path.ROWS_PER_PART", 100)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 5))
    grades = np.clip(np.round(features @ rng.normal(size=5) + rng.normal(size=600)), 0, 2)
    data = Dataset.of(features, grades, np.arange(0, 601, 10))
    found = [
        [
            fit.weights
            for fit in fit_path(data, risk_of("ordinal"), [1e-1, 1e-3], settings=SolverSettings(engine=engine))
        ]
        for engine in (Here(), LocalProcesses(workers=2), Cluster(workers=2))
    ]
    for other in found[1:]:
        assert np.array_equal(np.array(found[0]), np.array(other))


def test_a_log_is_judged_alike_here_and_on_a_cluster_that_loses_a_worker(two_nodes: Any, tmp_path: Path) -> None:
    lists = [one._replace(log_propensity=float(np.log(1 / 24))) for one in logged(600)]
    session = train_with_schema(lists[:50], SCHEMA, passes=1).session
    here, there = (
        report_of_rows(AskedRanker(session, SCHEMA).rows(lists, engine), "mine") for engine in (Here(), Cluster())
    )
    assert there == here
    mark = tmp_path / "died"
    found = list(over_pieces(Cluster(), range(11), summed, str(mark), size=4))
    assert mark.exists()
    assert found == [(0, 6), (4, 22), (8, 27)]


def test_an_experiment_gives_the_same_numbers_here_and_on_a_cluster_that_loses_a_worker(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside_cluster.py").write_text(OUTSIDE.replace("DRIVER", str(os.getpid())))
    text = """
    imports = ["outside_cluster.py"]
    stream = "flipped_relevance"
    measures = ["nDCG@5"]
    horizon = 200
    seeds = 3
    [[arms]]
    name = "rtopk"
    learner = { kind = "rtopk", horizon = 200 }
    feedback = "top_k(depth=2)"
    [[arms]]
    name = "mine"
    learner = "outside_cluster"
    """
    monkeypatch.setattr("sys.path", sys.path[:])
    experiment = parse_spec(text, "a test", "on-the-cluster", tmp_path)
    here, there = (run_experiment(experiment, tmp_path / type(e).__name__, e) for e in (Here(), Cluster()))
    assert (tmp_path / "outside_cluster.died").exists()
    assert [(run.key, run.values, run.reports) for run in there] == [(run.key, run.values, run.reports) for run in here]
    unregister("outside_cluster", "learner")
