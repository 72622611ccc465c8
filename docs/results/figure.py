"""Draw the comparison of online rankers: `python docs/results/figure.py results/reproduce/online-rankers`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rankloop.core.types import Ints
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.report.charts import Line
from rankloop.experiments.report.model import Chart
from rankloop.experiments.run.runner import read_runs
from research.charts import small_multiples
from research.papers.coactive.click_streams import LETOR_STREAMS, MEASURE, SIMULATED_STREAM
from research.papers.coactive.online_rankers import CONDITIONS, PDGD
from research.papers.coactive.ranker_goals import EITHER, FAIR, OURS, PAIRRANK, TUNED

FIRST = 10  # single rounds say nothing
FIGURE = Path(__file__).parents[1] / "images" / "online-rankers"
ARMS = (OURS, FAIR, EITHER, "3PR", PDGD, TUNED, PAIRRANK)


def drawn(folder: Path) -> Chart:
    """A row for each data set, a column for each kind of people."""
    cells = {}
    for stream in (*LETOR_STREAMS, SIMULATED_STREAM):
        for position, people in enumerate(CONDITIONS):
            part = folder / f"online-rankers-{stream.label}-{position}"
            if part.exists():
                cells[stream.name, people] = cell(part)
    return small_multiples("online-rankers", "Online rankers from clicks", cells, y_label="nDCG@5")


def cell(folder: Path) -> tuple[Ints, list[Line]]:
    runs = read_runs(folder)
    seeds = [run.seed for run in runs]
    complete = {seed for seed in seeds if seeds.count(seed) == max(map(seeds.count, seeds))}
    runs = [run for run in runs if run.seed in complete]
    curves = Curves(runs[0].experiment, runs)
    later = curves.rounds >= FIRST
    return curves.rounds[later], [line._replace(rows=line.rows[:, later]) for line in lines(curves)]


def lines(curves: Curves) -> Iterator[Line]:
    for colour, arm in enumerate(ARMS):
        rows = curves.of(curves.streams[0], arm, MEASURE, "recent") if arm in curves.arms else None
        if rows is not None:
            yield Line(arm, rows, colour)


def for_any_page(svg: str) -> str:
    """A picture of its own has no page to take its colours and its font from."""
    svg = svg.replace("currentColor", "#1f2328").replace("inherit", "sans-serif")
    return svg.replace("<svg ", '<svg style="background:#fff" ', 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    chart = drawn(parser.parse_args().runs)
    FIGURE.with_suffix(".svg").write_text(for_any_page(chart.svg), encoding="utf-8")
    FIGURE.with_suffix(".png").write_bytes(chart.png)


if __name__ == "__main__":
    main()
