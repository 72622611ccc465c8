"""Keep what reproductions found: `python -m docs.results.summary results/reproduce`; also the hook that shows it.

The command writes summary.json beside this file, from everything that is finished in a results folder. As a hook of
MkDocs, the file puts the table in the place of `<!-- reproductions -->`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rankloop.core.files import atomic_write
from research.front_page import claim_counts, duration
from research.record import Record, finished_records, summary_json

KEPT = Path(__file__).parent / "summary.json"
MARK = "<!-- reproductions -->"
NOTHING = "*No results are kept here yet: `python -m research reproduce` makes them.*"


class Summary(msgspec.Struct):
    """What summary.json holds."""

    seconds: float
    experiments: list[Record]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with every page."""
    return markdown.replace(MARK, shown(KEPT)) if MARK in markdown else markdown


def shown(path: Path) -> str:
    """One row per experiment, then every claim that cannot hold as printed, as Markdown."""
    if not path.exists():
        return NOTHING
    records = msgspec.json.decode(path.read_bytes(), type=Summary).experiments
    return "\n".join([*_table(records), "", *_impossible(records)])


def _table(records: Sequence[Record]) -> list[str]:
    head = ["| experiment | what it shows | claims | data | time |", "|---|---|---|---|---|"]
    newest = max(record.version for record in records)
    rows = [
        f"| `{record.id}` | {_cell(record.title)} | {claim_counts(record.claims)} | {_cell(record.data) or '–'} "
        f"| {duration(record.seconds)}{' (quick)' if record.quick else ''}{_asked(record)}{_older(record, newest)} |"
        for record in records
    ]
    all_claims = claim_counts(verdict for record in records for verdict in record.claims)
    versions = ", ".join(sorted({record.version for record in records}))
    seconds = duration(sum(record.seconds for record in records))
    return [*head, *rows, "", f"Together: {all_claims}; {seconds} of computing, rankloop {versions}."]


def _impossible(records: Sequence[Record]) -> Iterable[str]:
    for record in records:
        for verdict in record.claims:
            if verdict.word == "cannot hold":
                said = f"**{verdict.statement}** ({verdict.paper}). {verdict.argument} Here: {verdict.because}."
                yield f"- {said} (`{record.id}`)".replace("][", "]&#91;")  # a list's entry is no link


def _asked(record: Record) -> str:
    """What was asked for otherwise than the experiment has it."""
    return f" ({_cell(record.options)})" if record.options else ""


def _older(record: Record, newest: str) -> str:
    """Which version it is of, where others are of a newer one."""
    return f" (kept from {record.version})" if record.version != newest else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder that `python -m research reproduce` wrote")
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--keep-others", action="store_true", help="keep the records of reproductions not run again")
    options = parser.parse_args(arguments)
    records = finished_records(options.results)
    if options.keep_others:
        kept = msgspec.json.decode(options.out.read_bytes(), type=Summary).experiments
        renewed = {record.id for record in records}
        records = sorted([*records, *(each for each in kept if each.id not in renewed)], key=lambda each: each.id)
    atomic_write(options.out, summary_json(records))
    print(f"{len(records)} experiments are kept in {options.out}")


if __name__ == "__main__":
    main(sys.argv[1:])
