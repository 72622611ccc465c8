"""One page that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from rankloop.experiments.claims import Verdict
from rankloop.experiments.findings import Chart, Finding, Table
from rankloop.experiments.front_page import front_page
from rankloop.experiments.plan import VERSION

UNFOLDED = 6  # charts, and tables, of a finding that are open at once


def page(title: str, findings: Sequence[Finding], introduction: str = "") -> str:
    """The report over one or more findings; several have a first page that sums up."""
    style = resources.files("rankloop.experiments").joinpath("report.css").read_text(encoding="utf-8")
    several = len(findings) > 1
    body = "".join(_finding(finding, heading=several) for finding in findings)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<h1 id="top">{escape(title)}</h1>{_paragraphs(introduction)}{front_page(findings) if several else ""}{body}'
        f"<footer>Made by rankloop {VERSION}.</footer></main></body></html>\n"
    )


def _finding(finding: Finding, heading: bool) -> str:
    title = f"<h2><small>{escape(finding.id)}</small> {escape(finding.title)}</h2>" if heading else ""
    parts = [
        _paragraphs(finding.text),
        _claims(finding.claims),
        _some("figures", [_chart(chart) for chart in finding.charts]),
        _some("tables", [_table(table) for table in finding.tables]),
        _folded("What the learners report of themselves", "".join(map(_chart, finding.inside))),
        _facts(finding.facts),
        _folded("The experiment as data", f"<pre>{escape(finding.spec)}</pre>" if finding.spec else ""),
        '<p class="note"><a href="#top">To the first page</a></p>' if heading else "",
    ]
    return f'<section id="{escape(finding.id)}">{title}{"".join(parts)}</section>'


def _claims(claims: Sequence[Verdict]) -> str:
    if not claims:
        return ""
    return f'<ul class="claims">{"".join(map(_claim, claims))}</ul>'


def _claim(verdict: Verdict) -> str:
    told = [("here", verdict.because), ("paper", verdict.paper), ("why", verdict.argument)]
    lines = (f"<small><b>{name}</b> {escape(words)}</small>" for name, words in told if words)
    return f"<li>{badge(verdict.word)}<span>{escape(verdict.text)}</span>{''.join(lines)}</li>"


def badge(word: str) -> str:
    """A verdict in its colour."""
    return f'<span class="verdict {word.replace(" ", "-")}">{word}</span>'


def _some(what: str, parts: Sequence[str]) -> str:
    """The first few open, the others folded."""
    more = parts[UNFOLDED:]
    return "".join(parts[:UNFOLDED]) + _folded(f"{len(more)} more {what}", "".join(more))


def _chart(chart: Chart) -> str:
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    return f"<figure><h3>{escape(chart.title)}</h3>{chart.svg}{caption}</figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if table.rows else ""
    return f'<h3>{escape(table.title)}</h3><div class="scroll">{grid}</div>{note}'


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    cells = "".join(f"<span>{escape(name)}: {escape(value)}</span>" for name, value in facts)
    return f'<div class="facts">{cells}</div>'


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>" if content else ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())
