"""A report as one HTML page: a first page that sums up where there are several findings, then each of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from rankloop.core.files import atomic_write
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.experiments.run.tasks import VERSION

UNFOLDED = 6  # charts, and tables, of a finding that are open at once
SHORT: dict[Word, str] = {
    "holds": "hold",
    "partly": "hold partly",
    "does not hold": "do not hold",
    "cannot hold": "cannot hold as printed",
}
HOW_TO_READ = (
    "Every figure and table of the papers is computed again. A claim of a paper is a predicate over the results: it "
    "holds, holds partly (on some data sets or seeds only, or not beyond chance), does not hold here, or cannot hold "
    "as it is printed, in which case the argument and a number that refutes it are shown. Beside our numbers stand the "
    "paper's, and where it prints them; most figures come without numbers, and then its words stand there. Claims that "
    "no paper makes are ours, and are counted apart."
)


def write_report(folder: Path, title: str, findings: Sequence[Finding], introduction: str = "") -> Path:
    """The path of the page; the charts are beside it, in `charts`."""
    for finding in findings:
        for chart in finding.charts + finding.inside:
            part = f"{finding.id}-" if len(findings) > 1 else ""
            atomic_write(folder / "charts" / f"{part}{chart.name}.png", chart.png)
    path = folder / "report.html"
    atomic_write(path, page(title, findings, introduction))
    return path


def page(title: str, findings: Sequence[Finding], introduction: str = "") -> str:
    """The report over one or more findings; several have a first page that sums up."""
    style = resources.files("rankloop.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    several = len(findings) > 1
    body = "".join(_finding(finding, heading=several) for finding in findings)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<h1 id="top">{escape(title)}</h1>{_paragraphs(introduction)}{front_page(findings) if several else ""}{body}'
        f"<footer>Made by rankloop {VERSION}.</footer></main></body></html>\n"
    )


def counts(claims: Iterable[Verdict]) -> dict[Word, int]:
    """How many claims have each verdict, those that none has left out."""
    found = Counter(claim.word for claim in claims)
    return {word: found[word] for word in SHORT if found[word]}


def counts_text(claims: Iterable[Verdict]) -> str:
    """The counts in words: "5 hold, 1 do not hold"."""
    return ", ".join(f"{count} {SHORT[word]}" for word, count in counts(claims).items()) or "no claims"


def told_apart(claims: Iterable[Verdict]) -> str:
    """The counts of the papers' claims, then those of our own: "5 hold; our own: 1 do not hold"."""
    papers, own = by_author(claims)
    return "; our own: ".join([counts_text(papers), *([counts_text(own)] if own else [])])


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def front_page(findings: Sequence[Finding]) -> str:
    """HTML: numbers first, then one row per finding, then what cannot hold and what was missing."""
    claims = [claim for finding in findings for claim in finding.claims]
    papers, own = by_author(claims)
    whole = sum(finding.seconds or 0.0 for finding in findings)
    said = f"{len(papers)} claims of the papers" + (f" and {len(own)} of our own" if own else "")
    head = f"{len(findings)} figures and tables, {said}, {duration(whole)} of computing."
    ours = f"<p>Our own, which no paper makes:</p>{_counts(own)}" if own else ""
    return (
        f"<p>{escape(head)}</p>{_counts(papers)}{ours}"
        f"<p>{escape(HOW_TO_READ)}</p>{_rows(findings)}{_impossible(findings)}{_missing(findings)}"
    )


def by_author(claims: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """The claims of the papers, and our own."""
    told = list(claims)
    return [claim for claim in told if not claim.own], [claim for claim in told if claim.own]


def _counts(claims: Sequence[Verdict]) -> str:
    return f'<div class="counts">{"".join(_count(*pair) for pair in counts(claims).items())}</div>'


def _count(word: Word, count: int) -> str:
    return f'<div class="{_class(word)}"><b>{count}</b> {SHORT[word]}</div>'


def _class(word: Word) -> str:
    return word.replace(" ", "-")


def _rows(findings: Sequence[Finding]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("experiment", "what it shows", "claims", "seeds", "time"))
    return (
        f'<div class="scroll"><table class="overview"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(map(_row, findings))}</tbody></table></div>"
    )


def _row(finding: Finding) -> str:
    link = f'<a href="#{escape(finding.id)}">{escape(finding.id)}</a>'
    papers, own = by_author(finding.claims)
    verdicts = _verdicts(papers) + ("; our own: " if papers and own else "our own: " if own else "") + _verdicts(own)
    cells = (link, escape(finding.title), verdicts or "–", escape(_seeds(finding)), duration(finding.seconds))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _verdicts(claims: Sequence[Verdict]) -> str:
    return ", ".join(
        f'<span class="{_class(word)}">{count}&nbsp;{SHORT[word].replace(" ", "&nbsp;")}</span>'
        for word, count in counts(claims).items()
    )


def _seeds(finding: Finding) -> str:
    """How many seeds where they are listed, else what is said of them."""
    seeds = dict(finding.facts).get("seeds", "–")
    listed = seeds.split(", ")
    return str(len(listed)) if all(part.isdigit() for part in listed) else seeds


def _impossible(findings: Sequence[Finding]) -> str:
    items = "".join(
        f'<li><a href="#{escape(finding.id)}">{escape(finding.id)}</a>: {escape(claim.text)}'
        f"<small>{escape(claim.argument)}</small></li>"
        for finding in findings
        for claim in finding.claims
        if claim.word == "cannot hold"
    )
    return f'<h3>What cannot hold as printed</h3><ul class="plain">{items}</ul>' if items else ""


def _missing(findings: Sequence[Finding]) -> str:
    items = "".join(
        f"<li>{escape(finding.id)}: {escape(lack)}</li>" for finding in findings for lack in finding.missing
    )
    return f'<h3>What was missing on this machine</h3><ul class="plain">{items}</ul>' if items else ""


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
    ours = "here" if verdict.paper else ""  # said only beside what a paper says
    reasons = [(ours, verdict.because), ("paper", verdict.paper), ("why", verdict.argument)]
    lines = (f"<small><b>{name}</b> {escape(reason)}</small>" for name, reason in reasons if reason)
    badge = f'<span class="verdict {_class(verdict.word)}">{verdict.word}</span>'
    return f"<li>{badge}<span>{escape(verdict.text)}</span>{''.join(lines)}</li>"


def _some(kind: str, parts: Sequence[str]) -> str:
    """The first few open, the others folded."""
    more = parts[UNFOLDED:]
    return "".join(parts[:UNFOLDED]) + _folded(f"{len(more)} more {kind}", "".join(more))


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
