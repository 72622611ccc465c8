"""Tables that are made from kept results, for `<!-- peers -->`, `<!-- shop -->` and `<!-- machine -->` in a page."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "bench.json"
SHOP = RESULTS.with_name("shop.json")
SIDES = {
    "fields and crosses": "**rankloop, `click_regression` on fields**",
    "7 columns by hand": "rankloop, `fair_pairs` on 7 columns by hand",
    "logistic": "VowpalWabbit, logistic with the position, FTRL",
    "ccb_explore_adf": "VowpalWabbit, `ccb_explore_adf`",
    "cb_explore_adf": "VowpalWabbit, `cb_explore_adf`",
    "FTRL": "river, FTRL with the position",
    "lambdarank every night": "LightGBM, lambdarank with `position`, refitted every night",
    "popularity": "sorted by click rate",
    "random": "random order",
    "oracle": "the best possible order",
}
MIN_STANDARD_ERRORS = 2.0  # qualities that differ by less are equal


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the marks of a page; MkDocs calls this with every page."""
    if "<!-- peers -->" not in markdown:
        return markdown
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    shops = json.loads(SHOP.read_text(encoding="utf-8"))
    markdown = markdown.replace("<!-- peers -->", peers(kept)).replace("<!-- machine -->", machine(kept))
    return markdown.replace("<!-- shop -->", shop(shops))


def shop(kept: dict[str, Any]) -> str:
    """Return the clicks per page of every side, by shop, the best first."""
    head = ["| shop | side | all visits | first 1,000 | last 5,000 |", "|---|---|---|---|---|"]
    lines = []
    for name, sides in kept["shops"].items():
        means = {side: _mean(seeds) for side, seeds in sides.items()}
        for side, clicks in sorted(means.items(), key=lambda entry: -entry[1]["all"]):
            numbers = " | ".join(f"{clicks[part]:.3f}" for part in ("all", "first", "last"))
            lines.append(f"| {name} | {SIDES.get(side, side)} | {numbers} |")
    return "\n".join([*head, *lines])


def _mean(seeds: dict[str, Any]) -> dict[str, float]:
    return {part: sum(clicks[part] for clicks in seeds.values()) / len(seeds) for part in ("all", "first", "last")}


def peers(kept: dict[str, Any]) -> str:
    """Return one line per comparison, by library; the better side is bold."""
    compared = (row for row in kept["rows"].values() if row.get("peer") and "spread" in row)
    rows = sorted(compared, key=lambda row: row["peer"].lower())
    lines = [f"| {row['peer']} | {task_of(row)} | {speed(row)} | {quality(row)} | {row['note']} |" for row in rows]
    head = ["| library | task | speed | quality: ours / theirs | how |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines])


def task_of(row: dict[str, Any]) -> str:
    """Return the task of a comparison, without the name of the library."""
    name: str = row["name"]
    return name.removesuffix(f", beside {row['peer']}")


def speed(row: dict[str, Any]) -> str:
    """Return how many times faster rankloop is; bold where it is faster beyond the spread."""
    text = f"{row['ratio']:.2f}× ± {row['spread']:.2f}"
    return f"**{text}**" if row["ratio"] - row["spread"] > 1.0 else text


def quality(row: dict[str, Any]) -> str:
    """Return both qualities; the better one is bold where the difference is more than noise."""
    scores = row.get("quality")
    if not isinstance(scores, dict):
        return scores or ""
    ours, theirs = f"{scores['ours']:.3f}", f"{scores['theirs']:.3f}"
    margin = MIN_STANDARD_ERRORS * scores["spread"]
    if scores["ours"] - scores["theirs"] > margin:
        ours = f"**{ours}**"
    elif scores["theirs"] - scores["ours"] > margin:
        theirs = f"**{theirs}**"
    return f"{ours} / {theirs} ± {scores['spread']:.3f} {scores['measure']}"


def machine(kept: dict[str, Any]) -> str:
    """Return the machine and the versions of a run."""
    facts = [f"{name} {value}" for name, value in (kept["machine"] | kept["versions"]).items()]
    return ", ".join(facts) + "."
