"""The summed loss of the perceptrons beside what the theorems allow, on separable queries."""

from __future__ import annotations

import numpy as np

from rankloop.bounds.perceptrons import margin_of, max_pair_perceptron_loss, ranking_perceptron_loss, slam_weights
from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart
from rankloop.experiments.spec.model import Experiment


def bounds_chart(curves: Curves, slam: str, pair: str) -> Chart:
    """Summed 1 − nDCG@10 of both perceptrons, and their bounds on this stream as flat lines."""
    stream = curves.streams[0]
    lines = []
    for colour, arm in enumerate((slam, pair)):
        average = curves.of(stream, arm, "nDCG@10", "average")
        if average is not None:
            lines.append(Line(arm, np.maximum(curves.rounds * (1.0 - average), 1e-3), colour))
    flat = np.ones((1, len(curves.rounds)))
    for position, (name, bound) in enumerate(_bounds(curves.experiment).items()):
        lines.append(Line(name, flat * bound, 2 + position))
    caption = "The bounds hold for ever and are far above what is lost, as worst cases are."
    return chart(
        "bounds",
        "Summed loss and its bounds",
        curves.rounds,
        lines,
        caption=caption,
        y_label="summed loss",
        log_x=True,
        log_y=True,
    )


def _bounds(experiment: Experiment) -> dict[str, float]:
    """Corollaries 7 and 11 for the queries of the first seed."""
    dataset, direction = build(experiment.stream, "stream")._world(generators(0)[0])
    longest = float(np.sqrt((dataset.features**2).sum(axis=1).max()))
    margin = margin_of(dataset, direction)
    weights = slam_weights(dataset.query(0)[1], "nDCG@10")
    return {
        "theorem 8": ranking_perceptron_loss(1.0 / margin, longest, weights, tight=False),
        "theorem 8, tight": ranking_perceptron_loss(1.0 / margin, longest, weights),
        "theorem 10": max_pair_perceptron_loss(1.0 / margin, longest),
    }
