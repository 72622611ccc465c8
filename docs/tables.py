"""Tables of pages that are made from kept results: `<!-- peers -->` and `<!-- machine -->` in a page become them."""

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
    "popularity": "by click rate",
    "random": "any order",
    "oracle": "the best order",
}
EQUAL = 2.0  # qualities that differ by less than so many standard errors are called equal


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The hook of mkdocs: pages without these marks stay as they are."""
    if "<!-- peers -->" not in markdown:
        return markdown
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    shops = json.loads(SHOP.read_text(encoding="utf-8"))
    markdown = markdown.replace("<!-- peers -->", peers(kept)).replace("<!-- machine -->", machine(kept))
    return markdown.replace("<!-- shop -->", shop(shops))


def shop(kept: dict[str, Any]) -> str:
    """Clicks per page of every side, by shop, the best first."""
    head = ["| shop | side | all visits | first 1,000 | last 5,000 |", "|---|---|---|---|---|"]
    lines = []
    for name, sides in kept["shops"].items():
        means = {side: _mean(seeds) for side, seeds in sides.items()}
        for side, found in sorted(means.items(), key=lambda one: -one[1]["all"]):
            numbers = " | ".join(f"{found[part]:.3f}" for part in ("all", "first", "last"))
            lines.append(f"| {name} | {SIDES.get(side, side)} | {numbers} |")
    return "\n".join([*head, *lines])


def _mean(seeds: dict[str, Any]) -> dict[str, float]:
    return {part: sum(found[part] for found in seeds.values()) / len(seeds) for part in ("all", "first", "last")}


def peers(kept: dict[str, Any]) -> str:
    """One line per comparison, by peer; the better side is in bold."""
    compared = (row for row in kept["rows"].values() if row.get("peer") and "spread" in row)
    rows = sorted(compared, key=lambda row: row["peer"].lower())
    lines = [f"| {row['peer']} | {what(row)} | {speed(row)} | {quality(row)} | {row['note']} |" for row in rows]
    head = ["| peer | what | speed | quality: ours / theirs | how |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines])


def what(row: dict[str, Any]) -> str:
    name: str = row["name"]
    return name.removesuffix(f", beside {row['peer']}")


def speed(row: dict[str, Any]) -> str:
    """How many times faster rankloop is; bold where it is, beyond the spread."""
    text = f"{row['ratio']:.2f}× ± {row['spread']:.2f}"
    return f"**{text}**" if row["ratio"] - row["spread"] > 1.0 else text


def quality(row: dict[str, Any]) -> str:
    found = row.get("quality")
    if not isinstance(found, dict):
        return found or ""
    ours, theirs = f"{found['ours']:.3f}", f"{found['theirs']:.3f}"
    margin = EQUAL * found["spread"]
    if found["ours"] - found["theirs"] > margin:
        ours = f"**{ours}**"
    elif found["theirs"] - found["ours"] > margin:
        theirs = f"**{theirs}**"
    return f"{ours} / {theirs} ± {found['spread']:.3f} {found['measure']}"


def machine(kept: dict[str, Any]) -> str:
    facts = [f"{name} {value}" for name, value in (kept["machine"] | kept["versions"]).items()]
    return ", ".join(facts) + "."
