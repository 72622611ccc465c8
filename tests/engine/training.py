"""Trains on parts at the head of a cluster, and stops at a certain step until it is told that something happened.

python training.py PARTS OUT [STEP]: waits at that step of the bundle method, after `OUT/reached` is there, for
`OUT/happened`.
"""

import functools
import os
import sys
import time
from pathlib import Path

import numpy as np
import ray

from rankloop.core.errors import RankloopError
from rankloop.core.saved_session import save
from rankloop.engine import Cluster, SummingEngine, kept
from rankloop.training.bundle import Step
from rankloop.training.folds import _stored_folds
from rankloop.training.rank_bundle import session_of
from rankloop.training.solution_path import BatchSolver, SolverSettings
from rankloop.training.train import cross_validate

FOLDS, DEFAULT_PATH = 3, (1e-2, 1e-3)


def train(address: str, engine: SummingEngine, out: Path, stop: int = 0) -> None:
    """Save the model, and the weights and measures of each fold beside it."""
    seen: list[Step] = []

    def callback(step: Step) -> None:
        seen.append(step)
        if len(seen) == stop:
            (out / "reached").touch()
            while not (out / "happened").exists():
                time.sleep(0.02)

    with kept(engine) as where:
        folds = _stored_folds(address, FOLDS, where)
        solver = BatchSolver(regularisation=DEFAULT_PATH, settings=SolverSettings(engine=where, callback=callback))
        result = cross_validate(folds, solver)
    numbers = [np.array([*fold.fit.weights, *fold.curve, *fold.test.values()]) for fold in result.folds]
    np.save(out / "numbers.npy", np.concatenate([*numbers, result.model.weights]))
    save(session_of(result.model.weights), out / "model.rankloop")


def wait_for_workers(count: int) -> None:
    Cluster().map([], train)  # joins the cluster
    while sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in ray.nodes()) < count:
        time.sleep(0.1)


if __name__ == "__main__":
    # Ray looks for its node among all processes, and the hosts of the test share theirs.
    ray.init = functools.partial(ray.init, _node_ip_address=os.environ["HOST_ADDRESS"])
    out = Path(sys.argv[2])
    wait_for_workers(2)
    try:
        train(sys.argv[1], Cluster(), out, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    except RankloopError as error:
        sys.exit(f"{type(error).__name__}: {error}")
