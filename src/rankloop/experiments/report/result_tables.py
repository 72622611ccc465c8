"""Final values of an experiment as tables for a paper: CSV for programs, LaTeX for the text."""

import csv
import io
import math
from itertools import product

from rankloop.experiments.analysis.curves import Curves, SeedMean, estimate
from rankloop.experiments.analysis.verdicts import paired
from rankloop.experiments.spec.model import CEILING

QUANTITIES = ("average", "recent", "predicted", "new_queries", "regret")
LATEX_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def final_values(curves: Curves) -> list[dict[str, str | float | int]]:
    """Return one row per stream, arm, measure and quantity, with mean and standard error at the last checkpoint."""
    return [
        {"stream": stream, "arm": arm, "measure": measure, "quantity": quantity}
        | estimate(values[:, -1])._asdict()
        | {"seeds": len(values)}
        for stream in curves.streams
        for arm in curves.arms
        for measure in curves.measures
        for quantity in QUANTITIES
        if (values := curves.of(stream, arm, measure, quantity)) is not None
    ]


def csv_table(curves: Curves) -> str:
    """Return the final values as CSV; the error is empty where there is one seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["stream", "arm", "measure", "quantity", "mean", "standard_error", "seeds"])
    for row in final_values(curves):
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in row.values()])
    return text.getvalue()


def latex_table(curves: Curves) -> str:
    """Return a LaTeX table of the averages over all rounds: a row per arm, a column per stream and measure.

    The table needs the package booktabs. The best arm of a column is bold, and so is every arm whose paired difference
    from it may be 0 (95 %); the ceiling does not compete.
    """
    rows = [[name.translate(LATEX_ESCAPES)] for name in ("arm", *curves.arms)]
    for stream, measure in product(curves.streams, curves.measures):
        title = measure if len(curves.streams) == 1 else f"{stream}, {measure}"
        values = {arm: curves.at(arm, measure, "average", stream) for arm in curves.from_best(stream, measure)}
        best = next((arm for arm in values if arm != CEILING), CEILING)
        gaps = {arm: paired(values[arm], values[best]) for arm in curves.arms if arm != CEILING}
        bold = {best, *(arm for arm, gap in gaps.items() if gap.low <= 0.0 <= gap.high)}
        cells = [_latex_cell(estimate(values[arm]), bold=arm in bold) for arm in curves.arms]
        for row, cell in zip(rows, [title.translate(LATEX_ESCAPES), *cells]):
            row.append(cell)
    header, *lines = (" & ".join(row) + r" \\" for row in rows)
    seeds = f"{len(curves.seeds)} seed{'s' if len(curves.seeds) != 1 else ''}"
    return "\n".join(
        [
            f"% Mean over {curves.experiment.horizon} rounds and {seeds}, ± standard error.",
            "% Bold: the best arm, and every arm whose paired difference from it may be 0 (95 %).",
            f"\\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
            "\\toprule",
            header,
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}\n",
        ]
    )


def _latex_cell(value: SeedMean, bold: bool) -> str:
    if math.isnan(value.mean):
        return "--"
    mean, _, error = str(value).replace("−", "-").partition(" ± ")
    shown = f"\\mathbf{{{mean}}}" if bold else mean
    return f"${shown} \\pm {error}$" if error else f"${shown}$"
