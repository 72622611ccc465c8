"""Bring the pages up to date with results: `python docs/results/update.py FOUND.json …`.

FOUND.json is what `python -m research reproduce ID … --json` printed. Each finding is kept here as ID.json, and the
tables between `<!-- result: NAME -->` and `<!-- end of result -->` are written again from all that is kept. The claims
on coactive learning are those of summary.json, which `python -m docs.results.summary` writes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = (
    HERE.parent / "learners" / "clicks.md",
    HERE / "online-rankers.md",
    HERE / "coactive.md",
    HERE / "service-load.md",
    HERE / "logs.md",
)
RESULT = re.compile(r"(<!-- result: (\S+) -->\n)(.*?)(<!-- end of result -->)", re.DOTALL)
WORLDS = ("web search, simulated", "MQ2007", "20 Newsgroups", "Reuters")
FIGURES = ("coactive-4", "coactive-5", "coactive-6", "coactive-7", "coactive-table-1")
STUDY = ("coactive-1", "coactive-2", "coactive-3", "coactive-toy")
SUMMARY = "summary"
OURS, GOAL = "newton pairs", ["goal"]
Finding = dict[str, Any]


def kept(id: str) -> Finding:
    finding: Finding = json.loads((HERE / f"{id}.json").read_text(encoding="utf-8"))
    return finding


def keep(findings: Iterable[Finding]) -> None:
    for finding in findings:
        text = json.dumps(finding, ensure_ascii=False, indent=1)
        (HERE / f"{finding['id']}.json").write_text(text + "\n", encoding="utf-8")


def summary_claims(id: str) -> list[Finding]:
    """Return the claims that summary.json keeps of a reproduction."""
    return next(record["claims"] for record in kept(SUMMARY)["experiments"] if record["id"] == id)


def filled(page: str) -> str:
    """The page with its tables written again; one whose results are not kept stays as it is."""
    return RESULT.sub(_section, page)


def _section(found: re.Match[str]) -> str:
    start, name, before, end = found.groups()
    part, needed = PARTS[name]
    available = all((HERE / f"{id}.json").exists() for id in needed)
    return f"{start}\n{part()}\n\n{end}" if available else f"{start}{before}{end}"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pooled() -> str:
    """How far newton pairs is above each other learner, over all streams and people."""
    result = kept("online-rankers")["tables"][0]
    rows = ([row[0], *map(shorter, row[1:])] for row in result["rows"])
    return table([f"{OURS} less", *result["header"][1:]], rows)


def goals() -> str:
    """What was to be reached, and whether it was."""
    claims = (claim for claim in kept("online-rankers")["claims"] if claim["subject"] == GOAL)
    rows = ([claim["text"], claim["word"], numbers(claim)] for claim in claims)
    return table(["goal", "here", "numbers"], rows)


def comparisons() -> str:
    """Newton pairs against the best others, data set by data set."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for claim in kept("online-rankers")["claims"]:
        if claim["subject"] != GOAL:
            world, people = claim["subject"]
            cells.setdefault((world, people), {})[claim["text"]] = f"{claim['word']}, {numbers(claim)}"
    texts = list(next(iter(cells.values())))
    rows = ([*cell, *(row[text] for text in texts)] for cell, row in cells.items())
    return table(["data set", "users", *(text.removeprefix(f"{OURS} is ") for text in texts)], rows)


def qualities(quantity: str) -> str:
    """One quantity of every learner, data set and kind of people; the best in bold."""
    header: list[str] = []
    rows = []
    for result in kept("online-rankers")["tables"][1:]:
        world, _, words = result["title"].rpartition(": ")[0].rpartition(", ")
        if words != quantity:
            continue
        header = [row[0] for row in result["rows"]]
        for position, people in enumerate(result["header"][1:], start=1):
            cells = [short(row[position]) for row in result["rows"]]
            best = max(cell for cell in cells if cell != "–")
            rows.append([world, people, *(f"**{cell}**" if cell == best else cell for cell in cells)])
    return table(["data set", "users", *header], rows)


def claims() -> str:
    """What the paper claims of its figures, a column for each data set."""
    verdicts: dict[str, dict[str, str]] = {}
    papers: dict[str, list[str]] = {}
    for id in FIGURES:
        for claim in summary_claims(id):
            (world,), words = claim["subject"], claim["text"]
            text = f"{words[0].upper()}{words[1:]} (`{id}`)"
            verdicts.setdefault(text, {})[world] = f"{claim['word']}, {numbers(claim)}"
            papers.setdefault(text, []).append(claim.get("paper", ""))
    rows = (
        [text, "; ".join(dict.fromkeys(filter(None, papers[text]))), *(row.get(world, "") for world in WORLDS)]
        for text, row in verdicts.items()
    )
    return table(["claim", "the paper", *WORLDS], rows)


def study() -> str:
    """The claims that are about one simulated world alone."""
    rows = (
        [f"{claim['text']} (`{id}`)", claim.get("paper", ""), claim["word"], claim["because"]]
        for id in STUDY
        for claim in summary_claims(id)
    )
    return table(["claim", "the paper", "here", "numbers"], rows)


def load() -> str:
    """What a call costs, and what was promised."""
    result = kept("load")
    calls = [row for row in result["rows"] if "cpu" in row]
    rows = [
        [row["server"], row["calls"], f"{row['rate']:,.0f}", ms(row["p50"]), ms(row["p99"]), us(row["cpu"])]
        for row in calls
    ]
    facts = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    sentence = f"{facts}; the load of the machine was {result['busy']:.1f} at most."
    costs = table(["server", "calls", "per second", "p50", "p99", "processor time"], rows)
    goals = ([goal["quantity"], goal["limit"], goal["here"], goal["verdict"]] for goal in result["goals"])
    return "\n\n".join((sentence, costs, table(["what", "goal", "here", ""], goals)))


def logs() -> str:
    """nDCG of every side on every log, and how far it is from the logged order."""
    rows = (
        [f"{log}: {side}", *(_beside_logged(row, judge) for judge in ("clicks", "grades"))]
        for log, by_side in kept("logs")["logs"].items()
        for side, row in by_side.items()
    )
    return table(["log: method", "by clicks", "by grades"], rows)


def _beside_logged(found: dict[str, Any], judge: str) -> str:
    interval = found[f"{judge}_above_logged"]
    return f"{found[judge]:.3f}" + (f" ({interval[0]:+.3f}…{interval[1]:+.3f})".replace("-", "−") if interval else "")


def open_bandit() -> str:
    """The click rate of the items that each side would choose, and the AUC of its scores."""
    rows = (
        [
            side,
            f"{row['matched']:,}",
            f"{row['clicks']}",
            f"{row['rate']:.2%} ({row['rate_low']:.2%}…{row['rate_high']:.2%})",
            f"{row['auc']:.2f} ({row['auc_low']:.2f}…{row['auc_high']:.2f})",
        ]
        for side, row in kept("logs")["open bandit"].items()
    )
    return table(["method", "choices that match", "clicks", "click rate, 95 %", "AUC, 95 %"], rows)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def soak() -> str:
    """What was tried for long, and how it ended."""
    rows = ([row["kind"], row["outcome"], f"{row['minutes']:.1f}"] for row in kept("soak")["rows"])
    return table(["what was tried", "outcome", "minutes"], rows)


def numbers(claim: dict[str, Any]) -> str:
    """Return the difference of a claim, `+0.050 (0.044 to 0.056)`; the words of its verdict where it has none."""
    difference = claim.get("difference")
    if difference is None:
        return str(claim["because"])
    return "{mean:+.3f} ({low:.3f} to {high:.3f})".format_map(difference).replace("-", "−")


def shorter(estimate: str) -> str:
    """`+.013 ± .002` from `+0.0131 ± 0.0018`."""
    mean, _, error = estimate.partition(" ± ")
    return f"{float(mean.replace('−', '-')):+.3f} ± {float(error):.3f}".replace("0.", ".").replace("-", "−")


def short(estimate: str) -> str:
    """`.530` from `0.5297 ± 0.0011`."""
    mean = estimate.split(" ")[0]
    return f"{float(mean):.3f}".removeprefix("0") if mean != "–" else mean


PARTS = {
    "online-rankers-pooled": (pooled, ("online-rankers",)),
    "online-rankers-goals": (goals, ("online-rankers",)),
    "online-rankers-comparisons": (comparisons, ("online-rankers",)),
    "online-rankers-qualities": (partial(qualities, "shown in the last tenth"), ("online-rankers",)),
    "online-rankers-new-queries": (partial(qualities, "new queries at the end"), ("online-rankers",)),
    "online-rankers-after-change": (partial(qualities, "shown in the tenth after the change"), ("online-rankers",)),
    "coactive-claims": (claims, (SUMMARY,)),
    "coactive-study": (study, (SUMMARY,)),
    "load": (load, ("load",)),
    "soak": (soak, ("soak",)),
    "logs": (logs, ("logs",)),
    "open-bandit": (open_bandit, ("logs",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", nargs="*", type=Path)
    for path in parser.parse_args().found:
        keep(json.loads(path.read_text(encoding="utf-8"))["findings"])
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
