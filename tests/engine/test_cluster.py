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

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "rankloop[cluster]"')

from rankloop.batch.risks.base import risk_of  # noqa: E402
from rankloop.batch.solution_path import Settings, fit_path  # noqa: E402
from rankloop.core.errors import InvalidInput  # noqa: E402
from rankloop.core.registry import unregister  # noqa: E402
from rankloop.data.dataset import Dataset  # noqa: E402
from rankloop.engine import Cluster, Here, LocalProcesses  # noqa: E402
from rankloop.experiments.run.runner import run_experiment  # noqa: E402
from rankloop.experiments.spec.load import read_spec_text  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
OUTSIDE = """
from rankloop import register
from rankloop.learners.random_order import RandomOrder

@register("outside_cluster")
class Mine(RandomOrder):
    '''A learner that no worker knows by itself.'''
"""
PARTITIONS = [np.random.default_rng(seed).normal(size=100) * 10.0**seed for seed in range(5)]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A head and one more node on the loopback interface, each with processes of its own."""
    from ray.cluster_utils import Cluster as Nodes

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        warnings.simplefilter("ignore")
        environment.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # where workers find this file
        options = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 2}
        nodes = Nodes(initialize_head=True, head_node_args=options)
        ray.init(address=nodes.address, _node_ip_address="127.0.0.1", log_to_driver=False)
        try:
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()


def _scaled(partition: Any, argument: float) -> Any:
    return partition * argument


def _square(task: int) -> int:
    if task == 13:
        raise InvalidInput("thirteen is not allowed")
    return task * task


def test_map_in_order_and_errors_raised_here(two_nodes: Any) -> None:
    seen: list[int] = []
    assert Cluster().map(range(6), _square, lambda index, result: seen.append(index)) == [0, 1, 4, 9, 16, 25]
    assert sorted(seen) == list(range(6))
    with pytest.raises(InvalidInput, match="thirteen"):
        Cluster().map([1, 13], _square)


def test_a_killed_node_does_not_change_the_sum(two_nodes: Any) -> None:
    second = two_nodes.add_node(num_cpus=2, node_ip_address="127.0.0.1")
    two_nodes.wait_for_nodes()
    with Here().sum_over(PARTITIONS, _scaled) as total:
        expected = [total(factor) for factor in (1.0, 2.0, 3.0)]
    with Cluster(workers=4).sum_over(PARTITIONS, _scaled) as total:  # three shares: too many for the head alone
        assert np.array_equal(total(1.0), expected[0])
        two_nodes.remove_node(second, allow_graceful=False)
        two_nodes.add_node(num_cpus=2, node_ip_address="127.0.0.1")  # a spare one takes over
        assert np.array_equal(total(2.0), expected[1])
        assert np.array_equal(total(3.0), expected[2])


def test_training_gives_the_same_weights_here_in_processes_and_on_the_cluster(
    two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankloop.batch.objective.ROWS_PER_PART", 100)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 5))
    grades = np.clip(np.round(features @ rng.normal(size=5) + rng.normal(size=600)), 0, 2)
    data = Dataset.of(features, grades, np.arange(0, 601, 10))
    found = [
        [fit.weights for fit in fit_path(data, risk_of("ordinal"), [1e-1, 1e-3], settings=Settings(engine=engine))]
        for engine in (Here(), LocalProcesses(workers=2), Cluster(workers=2))
    ]
    for other in found[1:]:
        assert np.array_equal(np.array(found[0]), np.array(other))


def test_an_experiment_gives_the_same_numbers_here_and_on_the_cluster(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside_cluster.py").write_text(OUTSIDE)
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
    experiment = read_spec_text(text, "a test", "on-the-cluster", tmp_path)
    here, there = (run_experiment(experiment, tmp_path / type(e).__name__, e) for e in (Here(), Cluster()))
    assert [(run.key, run.values, run.reports) for run in there] == [(run.key, run.values, run.reports) for run in here]
    unregister("outside_cluster", "learner")
