"""Reports as one HTML page that loads nothing from elsewhere."""

from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from rankloop.core.files import atomic_write
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.run.tasks import PACKAGE_VERSION

MAX_UNFOLDED = 6  # charts, or tables, of a finding


def write_report(folder: Path, title: str, findings: Sequence[Finding], front: str = "") -> Path:
    """Write the page, and its charts beside it.

    Args:
      folder: The folder of `report.html` and the folder `charts`.
      title: The title of the page.
      findings: The sections; several get a heading each.
      front: HTML before the findings.
    """
    for finding in findings:
        for chart in finding.charts + finding.inside:
            part = f"{finding.id}-" if len(findings) > 1 else ""
            atomic_write(folder / "charts" / f"{part}{chart.name}.png", chart.png)
    path = folder / "report.html"
    atomic_write(path, _page(title, findings, front))
    return path


def _page(title: str, findings: Sequence[Finding], front: str) -> str:
    style = resources.files("rankloop.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    body = "".join(_finding(finding, heading=len(findings) > 1) for finding in findings)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<h1 id="top">{escape(title)}</h1>{front}{body}'
        f"<footer>Made by rankloop {PACKAGE_VERSION}.</footer></main></body></html>\n"
    )


def css_class(word: Word) -> str:
    """Return the CSS class of a verdict."""
    return word.replace(" ", "-")


def _finding(finding: Finding, heading: bool) -> str:
    title = f"<h2><small>{escape(finding.id)}</small> {escape(finding.title)}</h2>" if heading else ""
    claims = "".join(map(_claim, finding.claims))
    facts = "".join(f"<span>{escape(name)}: {escape(value)}</span>" for name, value in finding.facts)
    parts = [
        *(f"<p>{escape(part.strip())}</p>" for part in finding.text.split("\n\n") if part.strip()),
        f'<ul class="claims">{claims}</ul>' if claims else "",
        _some("figures", [_chart(chart) for chart in finding.charts]),
        _some("tables", [_table(table) for table in finding.tables]),
        _folded("Values reported by the learners", "".join(map(_chart, finding.inside))),
        f'<div class="facts">{facts}</div>' if facts else "",
        _folded("The experiment as JSON", f"<pre>{escape(finding.spec)}</pre>" if finding.spec else ""),
        '<p class="note"><a href="#top">Back to the top</a></p>' if heading else "",
    ]
    return f'<section id="{escape(finding.id)}">{title}{"".join(parts)}</section>'


def _claim(verdict: Verdict) -> str:
    ours = "here" if verdict.paper else ""  # a label is needed only beside the numbers of a paper
    reasons = [(ours, verdict.because), ("paper", verdict.paper), ("why", verdict.argument)]
    lines = (f"<small><b>{name}</b> {escape(reason)}</small>" for name, reason in reasons if reason)
    badge = f'<span class="verdict {css_class(verdict.word)}">{verdict.word}</span>'
    return f"<li>{badge}<span>{escape(verdict.statement)}</span>{''.join(lines)}</li>"


def _some(kind: str, parts: Sequence[str]) -> str:
    """Return the first few parts, and the others in a folded section."""
    more = parts[MAX_UNFOLDED:]
    return "".join(parts[:MAX_UNFOLDED]) + _folded(f"{len(more)} more {kind}", "".join(more))


def _chart(chart: Chart) -> str:
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    return f"<figure><h3>{escape(chart.title)}</h3>{chart.svg}{caption}</figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if table.rows else ""
    return f'<h3>{escape(table.title)}</h3><div class="scroll">{grid}</div>{note}'


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>" if content else ""
