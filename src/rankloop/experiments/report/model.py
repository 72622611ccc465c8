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

    def joined(self, name: str, part: "Finding") -> "Finding":
        """With the claims, charts and tables of a part, each under its name; the last part's facts are the whole's."""
        return self._replace(
            claims=self.claims + tuple(claim._replace(text=f"{name}: {claim.text}") for claim in part.claims),
            charts=self.charts + tuple(chart._replace(title=f"{name}: {chart.title}") for chart in part.charts),
            tables=self.tables + tuple(table._replace(title=f"{name}: {table.title}") for table in part.tables),
            inside=self.inside + tuple(chart._replace(title=f"{name}: {chart.title}") for chart in part.inside),
            facts=part.facts,
        )
