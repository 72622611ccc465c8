"""What an experiment or a reproduction found out, ready to be read: charts, tables, claims with their verdicts."""

from collections.abc import Sequence
from typing import NamedTuple

from rankloop.experiments.analysis.verdicts import Verdict


class Chart(NamedTuple):
    """A picture: for the page as SVG that follows its colours, for everything else as PNG."""

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
    """One part of a report; `facts` are the small print (version, seeds …), `spec` the table to run it again."""

    id: str = ""
    title: str = ""
    text: str = ""
    claims: tuple[Verdict, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    inside: tuple[Chart, ...] = ()  # what learners report of themselves, for those who ask
    facts: tuple[tuple[str, str], ...] = ()
    spec: str = ""
    missing: tuple[str, ...] = ()  # data that this machine lacks, and what was done without it
    seconds: float | None = None  # how long it took, all sittings together
