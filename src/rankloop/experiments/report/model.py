"""The parts of a report: charts, tables, claims with their verdicts."""

from collections.abc import Sequence
from typing import NamedTuple

from rankloop.experiments.analysis.verdicts import Verdict


class Chart(NamedTuple):
    """Picture as SVG, which follows the colours of the page, and as PNG."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


class Table(NamedTuple):
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


class Finding(NamedTuple):
    """Section of a report; `facts` are version, seeds and the like, `spec` is the table to run it again."""

    id: str = ""
    title: str = ""
    text: str = ""
    claims: tuple[Verdict, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    inside: tuple[Chart, ...] = ()  # charts of values that learners report
    facts: tuple[tuple[str, str], ...] = ()
    spec: str = ""
    missing: tuple[str, ...] = ()  # missing data, and how the run went on without it
    seconds: float | None = None  # over all interrupted runs
