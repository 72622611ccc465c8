"""The first page of a report over many reproductions: counts of verdicts, a row for each, what was missing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.report.html import css_class
from rankloop.experiments.report.model import Finding

VERDICT_COUNTS: dict[Word, str] = {
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


def front_page(findings: Sequence[Finding]) -> str:
    """Return the HTML: numbers first, then one row per finding, then what cannot hold and what was missing."""
    papers, ours = by_author(claim for finding in findings for claim in finding.claims)
    authors = f"{len(papers)} claims of the papers" + (f" and {len(ours)} of our own" if ours else "")
    seconds = duration(sum(finding.seconds or 0.0 for finding in findings))
    head = f"{len(findings)} figures and tables, {authors}, {seconds} of computing."
    our_counts = f"<p>Our own, which no paper makes:</p>{_counts(ours)}" if ours else ""
    return (
        f"<p>{escape(head)}</p>{_counts(papers)}{our_counts}"
        f"<p>{escape(HOW_TO_READ)}</p>{_rows(findings)}{_impossible(findings)}{_missing(findings)}"
    )


def by_author(claims: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Return the claims of the papers, and those that no paper makes."""
    verdicts = list(claims)
    return [claim for claim in verdicts if claim.paper], [claim for claim in verdicts if not claim.paper]


def counts(claims: Iterable[Verdict]) -> dict[Word, int]:
    """Count the claims of each verdict, in a fixed order; verdicts of no claim are left out."""
    counter = Counter(claim.word for claim in claims)
    return {word: counter[word] for word in VERDICT_COUNTS if counter[word]}


def claim_counts(claims: Iterable[Verdict]) -> str:
    """Return the counts of the papers' claims, then of our own: "5 hold; our own: 1 do not hold"."""
    papers, ours = by_author(claims)
    return "; our own: ".join([_in_words(papers), *([_in_words(ours)] if ours else [])])


def duration(seconds: float | None) -> str:
    """Return a time as users write it, in seconds or minutes."""
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _in_words(claims: Iterable[Verdict]) -> str:
    return ", ".join(f"{count} {VERDICT_COUNTS[word]}" for word, count in counts(claims).items()) or "no claims"


def _counts(claims: Sequence[Verdict]) -> str:
    cells = (
        f'<div class="{css_class(word)}"><b>{count}</b> {VERDICT_COUNTS[word]}</div>'
        for word, count in counts(claims).items()
    )
    return f'<div class="counts">{"".join(cells)}</div>'


def _rows(findings: Sequence[Finding]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("experiment", "what it shows", "claims", "seeds", "time"))
    return (
        f'<div class="scroll"><table class="overview"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(map(_row, findings))}</tbody></table></div>"
    )


def _row(finding: Finding) -> str:
    link = f'<a href="#{escape(finding.id)}">{escape(finding.id)}</a>'
    papers, ours = by_author(finding.claims)
    parts = [_verdicts(papers)] * bool(papers) + [f"our own: {_verdicts(ours)}"] * bool(ours)
    cells = (link, escape(finding.title), "; ".join(parts) or "–", escape(_seeds(finding)), duration(finding.seconds))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _verdicts(claims: Sequence[Verdict]) -> str:
    return ", ".join(
        f'<span class="{css_class(word)}">{count}&nbsp;{VERDICT_COUNTS[word].replace(" ", "&nbsp;")}</span>'
        for word, count in counts(claims).items()
    )


def _seeds(finding: Finding) -> str:
    """Return the number of seeds where they are listed, else the fact itself."""
    seeds = dict(finding.facts).get("seeds", "–")
    listed = seeds.split(", ")
    return str(len(listed)) if all(part.isdigit() for part in listed) else seeds


def _impossible(findings: Sequence[Finding]) -> str:
    items = "".join(
        f'<li><a href="#{escape(finding.id)}">{escape(finding.id)}</a>: {escape(claim.statement)}'
        f"<small>{escape(claim.argument)}</small></li>"
        for finding in findings
        for claim in finding.claims
        if claim.word == "cannot hold"
    )
    return f'<h3>What cannot hold as printed</h3><ul class="plain">{items}</ul>' if items else ""


def _missing(findings: Sequence[Finding]) -> str:
    items = "".join(
        f"<li>{escape(finding.id)}: {escape(notice)}</li>" for finding in findings for notice in finding.missing
    )
    return f'<h3>What was missing on this machine</h3><ul class="plain">{items}</ul>' if items else ""
