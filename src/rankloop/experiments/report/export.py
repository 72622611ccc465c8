"""Results for other tools: one row per run, measure, quantity and checkpoint, as Parquet."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rankloop.core.files import atomic_write
from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import VERSION
from rankloop.experiments.run.worker import Run
from rankloop.experiments.spec.model import Experiment

COLUMNS = ("experiment", "stream", "arm", "seed", "measure", "quantity", "round", "value")


def write_parquet(path: Path, runs: Iterable[Run]) -> None:
    """A long table; `measure` is empty for what learners report of themselves."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = list(zip(*rows_of(runs))) or [()] * len(COLUMNS)
    text, whole = pa.string(), pa.int64()
    types = (text, text, text, whole, text, text, whole, pa.float64())
    table = pa.table([pa.array(column, type=kind) for column, kind in zip(columns, types)], names=list(COLUMNS))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    atomic_write(path, buffer.getvalue())


def rows_of(runs: Iterable[Run]) -> Iterator[tuple[str, str, str, int, str, str, int, float | None]]:
    for run in runs:
        named = (run.experiment.name, run.stream, run.arm, run.seed)
        series = [(measure, name, values) for measure, kinds in run.values.items() for name, values in kinds.items()]
        for measure, quantity, values in series + [("", path, values) for path, values in run.reports.items()]:
            for round, value in zip(run.checkpoints, values):
                yield *named, measure, quantity, round, value


def summary_json(experiment: Experiment, runs: list[Run], finding: Finding, report: Path) -> str:
    """Where every arm ended, mean and standard error over seeds, and the verdicts."""
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
