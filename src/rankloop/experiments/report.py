"""Writing what was found: the page, and each chart as a picture of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rankloop.core.files import atomic_write
from rankloop.experiments.findings import Finding
from rankloop.experiments.html import page


def write_report(folder: Path, title: str, findings: Sequence[Finding], introduction: str = "") -> Path:
    """The path of the page; the charts are beside it, in `charts`."""
    for finding in findings:
        for chart in finding.charts + finding.inside:
            part = f"{finding.id}-" if len(findings) > 1 else ""
            atomic_write(folder / "charts" / f"{part}{chart.name}.png", chart.png)
    path = folder / "report.html"
    atomic_write(path, page(title, findings, introduction))
    return path
