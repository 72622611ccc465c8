"""The first page of a report on many findings: how many claims hold, what each finding says, what was missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import get_args

from rankloop.experiments.claims import Verdict, Word
from rankloop.experiments.findings import Finding

WORDS: tuple[Word, ...] = get_args(Word)
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
    "paper's, and where it prints them; most figures come without numbers, and then its words stand there."
)


def counts(claims: Iterable[Verdict]) -> dict[Word, int]:
    """How many claims have each verdict, those that none has left out."""
    found = Counter(claim.word for claim in claims)
    return {word: found[word] for word in WORDS if found[word]}


def told(claims: Iterable[Verdict]) -> str:
    """The counts as words: "5 hold, 1 do not hold"."""
    return ", ".join(f"{count} {SHORT[word]}" for word, count in counts(claims).items()) or "no claims"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def front_page(findings: Sequence[Finding]) -> str:
    """HTML: numbers first, then one row per finding, then what cannot hold and what was missing."""
    claims = [claim for finding in findings for claim in finding.claims]
    whole = sum(finding.seconds or 0.0 for finding in findings)
    head = f"{len(findings)} figures and tables, {len(claims)} claims, {duration(whole)} of computing."
    return (
        f'<p>{escape(head)}</p><div class="counts">{"".join(_count(*pair) for pair in counts(claims).items())}</div>'
        f"<p>{escape(HOW_TO_READ)}</p>{_rows(findings)}{_impossible(findings)}{_missing(findings)}"
    )


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
    verdicts = ", ".join(
        f'<span class="{_class(word)}">{count}&nbsp;{SHORT[word].replace(" ", "&nbsp;")}</span>'
        for word, count in counts(finding.claims).items()
    )
    cells = (link, escape(finding.title), verdicts or "–", escape(_seeds(finding)), duration(finding.seconds))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _seeds(finding: Finding) -> str:
    """How many seeds where they are listed, else what is said of them."""
    said = dict(finding.facts).get("seeds", "–")
    listed = said.split(", ")
    return str(len(listed)) if all(part.isdigit() for part in listed) else said


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
