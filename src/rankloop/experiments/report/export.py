"""Results for other tools: one row per run, measure, quantity and checkpoint, as Parquet."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rankloop.core.files import atomic_write
from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import VERSION
from rankloop.experiments.run.worker import Run
from rankloop.experiments.spec.model import Experiment


def write_parquet(path: Path, runs: Iterable[Run]) -> None:
    """Write a long table; `measure` is empty for what learners report of themselves."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("experiment", "stream", "arm", "seed", "measure", "quantity", "round", "value")
    types = {"seed": pa.int64(), "round": pa.int64(), "value": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(_rows_of(runs)), schema=schema), buffer)
    atomic_write(path, buffer.getvalue())


def _rows_of(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        names = {"experiment": run.experiment.name, "stream": run.stream, "arm": run.arm, "seed": run.seed}
        for measure, quantities in (run.values | {"": run.reports}).items():
            for quantity, values in quantities.items():
                for round, value in zip(run.checkpoints, values):
                    yield names | {"measure": measure, "quantity": quantity, "round": round, "value": value}


def summary_json(experiment: Experiment, runs: list[Run], finding: Finding, report: Path) -> str:
    """Return as JSON where every arm ended, mean and standard error over seeds, and the verdicts."""
    curves = Curves(experiment, runs)
    ends = [
        {"stream": stream, "arm": arm, "measure": measure, "quantity": quantity}
        | estimate(values[:, -1])._asdict()
        | {"seeds": len(values)}
        for stream in curves.streams
        for arm in curves.arms
        for measure in curves.measures
        for quantity in ("average", "recent", "predicted", "regret")
        if (values := curves.of(stream, arm, measure, quantity)) is not None
    ]
    claims = [msgspec.structs.asdict(verdict) for verdict in finding.claims]
    named = {"experiment": experiment.name, "version": VERSION, "rounds": experiment.horizon, "report": str(report)}
    return msgspec.json.encode(named | {"results": ends, "claims": claims}).decode()
