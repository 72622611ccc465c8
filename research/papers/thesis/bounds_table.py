"""Table 4.1 with numbers: the bounds of chapter IV on data sets, and which of them mean anything there."""

import math

import numpy as np

from rankloop.core.kernels import scores_of
from rankloop.data.dataset import Dataset, concatenate
from rankloop.data.folder import data_folder, missing_notice
from rankloop.data.letor.file import read_letor
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.report.model import Finding, Table
from rankloop.training.risks.listwise import ListNetRisk
from research.bounds.generalisation_table import Row, Sample, sample_of, table
from research.papers.thesis.list_length import queries
from research.registry import Setting, reproduction

RADIUS = 1.0
SETS = {"MQ2008": "letor/mq2008", "MQ2007 (part)": "letor/mq2007_partial"}


def data_sets() -> dict[str, Dataset]:
    """The query-normalised sets that are on this machine, and a synthetic one that always is."""
    samples = {"synthetic": queries(500, 50, 0)}
    folder = data_folder()
    for name, part in SETS.items() if folder is not None else ():
        files = sorted((folder / part).glob("S*.txt*")) if folder is not None else []
        if files:
            samples[name] = concatenate([read_letor(file) for file in files])
    return samples


@reproduction("table-4.1", title="The bounds on the risk of new queries, with numbers")
def bounds_table(setting: Setting) -> Finding:
    """Compute the bounds on data sets."""
    sets = data_sets()
    rows = {}
    for position, (name, dataset) in enumerate(sets.items()):
        rows[name] = (sample_of(dataset), rows_of(dataset))
        setting.progress(position + 1, len(sets))
    return finding(rows)


def rows_of(dataset: Dataset) -> list[Row]:
    """For ListNet in the ball of radius 1; its training risk is at most that of w = 0, which needs no training."""
    scores = scores_of(dataset.features, np.zeros(dataset.n_features))
    training = ListNetRisk().of_lists(scores, dataset.relevance, dataset.offsets)[0] / dataset.n_queries
    return table(sample_of(dataset), "list_net", radius=RADIUS, training=training)


def finding(samples: dict[str, tuple[Sample, list[Row]]]) -> Finding:
    """Return the section of the report."""
    return Finding(
        text=(
            f"ListNet with weights in a ball of radius {RADIUS:g}. A bound says something when it is below the largest "
            "possible loss. The last column is how many queries that would take, everything else as it is."
        ),
        tables=tuple(_table(name, sample, rows) for name, (sample, rows) in samples.items()),
        facts=(("seeds", "0"), ("data", ", ".join(samples))),
        missing=tuple(missing_notice(name) for name in SETS if name not in samples),
    )


def _table(name: str, sample: Sample, rows: list[Row]) -> Table:
    cells = [
        (
            row.name,
            row.applies_to,
            "yes" if row.handles_nonconvex else "no",
            number(row.value),
            number(row.largest),
            "yes" if row.meaningful else "no",
            "never" if math.isinf(row.queries_needed) else f"{row.queries_needed:,.0f}",
        )
        for row in rows
    ]
    note = f"{sample.n_queries:,} queries, at most {sample.n_items:,} items, {sample.n_features} features"
    header = ("bound", "applies to", "non-convex", "value", "largest loss", "says something", "queries needed")
    return Table(name, header, cells, note)
