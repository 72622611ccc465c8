"""`python -m benchmarks.log_answers`: how often `evaluate` and `rehearse` answer from a log, and are right.

Fifteen kinds of logs with known truth (`benchmarks.log_worlds.KINDS`), five target orders each, twenty seeds: a random
order, the logged order reversed, popularity (click rates of the first half), a trained order (click rates of the first
half, corrected for examination and shrunk), and the best possible order. The first half of a log trains, the second is
judged. The truth is the expected number of clicks on the pages of the second half. `--set second` to `fifth`
play other kinds.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.log_worlds import FIFTH_KINDS, FOURTH_KINDS, KINDS, SECOND_KINDS, THIRD_KINDS, World, build_world
from rankloop.click_models.examination import estimate_examination
from rankloop.evaluation.list_evaluation import LogJudge
from rankloop.evaluation.list_pages import PageTable

SETS = {"first": KINDS, "second": SECOND_KINDS, "third": THIRD_KINDS, "fourth": FOURTH_KINDS, "fifth": FIFTH_KINDS}
ALL_KINDS = {name: kind for kinds in SETS.values() for name, kind in kinds.items()}
TARGETS = ("random", "reversed", "popularity", "trained", "best")
RESULTS = Path(__file__).parents[1] / "docs" / "results"
Floats = np.ndarray[Any, np.dtype[np.float64]]


def target_scores(world: World, seed: int) -> dict[str, Floats]:
    """Return by target the scores of the rows of the second half."""
    rng, log, first = np.random.default_rng([seed, 5]), world.second, world.first
    names = {pair: number for number, pair in enumerate(zip(first.query_ids, first.items))}
    number = np.array([names.get(pair, -1) for pair in zip(log.query_ids, log.items)])
    clicks, shown = np.bincount(first.pair, first.clicked), np.bincount(first.pair).astype(float)
    curve = np.minimum(estimate_examination(first).curve, 1.0)
    examined = np.bincount(first.pair, curve[first.position])
    mean, depth = clicks.sum() / examined.sum(), np.log1p(log.position) * 1e-3

    def by_pair(values: Floats, missing: float) -> Floats:
        scores: Floats = np.append(values, missing)[number][log.pair]
        return scores

    best = np.concatenate([rates[order] for rates, order in zip(world.attraction, world.items)])
    return {
        "random": rng.random(len(log.pair)),
        "reversed": log.position.astype(float),
        "popularity": by_pair(clicks / shown, 0.0) - depth * 1e-3,
        "trained": by_pair((clicks + 2.0 * mean) / (examined + 2.0), mean) - depth * 1e-3,
        "best": best,
    }


def orders_by(world: World, scores: Floats) -> list[Any]:
    """Return the items of each page by falling scores."""
    log = world.second
    return [
        items[np.argsort(-scores[start:end], kind="stable")]
        for items, start, end in zip(world.items, log.offsets[:-1].tolist(), log.offsets[1:].tolist())
    ]


def answers(name: str, seed: int) -> list[dict[str, Any]]:
    """Judge all targets in one world."""
    world = build_world(ALL_KINDS[name], seed)
    table = PageTable.of_clicks(world.second)
    begun = time.process_time()
    judge = LogJudge(table)
    logged = world.truth(world.items)
    rows = []
    for target, scores in target_scores(world, seed).items():
        estimate = judge.judge(table.slots_by(scores), target)
        gain, truth = estimate.ranker.gain["clicks"], world.truth(orders_by(world, scores)) - logged
        rows.append(
            {
                "kind": name,
                "seed": seed,
                "target": target,
                "truth": truth,
                "logged": logged,
                "gain": gain.value,
                "lower": gain.lower,
                "upper": gain.upper,
                "verdict": estimate.verdict,
                "reasons": list(estimate.reasons),
                "evidence": judge.examination.evidence,
                "reacts": judge.examination.reacts,
                "epochs": judge.examination.n_epochs,
                "memory": judge.reading.has_memory,
                "trust": float(judge.reading.trusts) + 0.5 * (len(judge.judges) > 1),
                "curve": np.round(judge.examination.curve, 3).tolist(),
                "seconds": time.process_time() - begun,
            }
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one line per kind."""
    lines = []
    for name in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == name]
        answered = [row for row in of_kind if row["verdict"] != "cannot tell"]
        holds = [row["lower"] <= row["truth"] <= row["upper"] for row in answered]
        decided = [row for row in answered if row["verdict"] in ("better", "worse")]
        wrong = [row for row in decided if (row["truth"] > 0) != (row["verdict"] == "better")]
        wrong = [row for row in wrong if abs(row["truth"]) > 1e-9]  # in a pure cascade every order brings the same
        width = [(row["upper"] - row["lower"]) / row["logged"] for row in answered]
        errors = [(row["gain"] - row["truth"]) / row["logged"] for row in answered]
        lines.append(
            {
                "kind": name,
                "questions": len(of_kind),
                "answered": len(answered) / len(of_kind),
                "holds": float(np.mean(holds)) if holds else None,
                "wrong_side": len(wrong) / max(len(answered), 1),
                "decided": len(decided) / len(of_kind),
                "width": float(np.median(width)) if width else None,
                "bias": float(np.mean(errors)) if errors else None,
            }
        )
    return lines


def kept(row: dict[str, Any]) -> list[Any]:
    """Return of an answer what is kept: kind, seed, target, truth, gain, lower, upper, verdict."""
    numbers = [round(1000 * row[name], 1) for name in ("truth", "gain", "lower", "upper")]
    return [row["kind"], row["seed"], row["target"], *numbers, row["verdict"]]


def printed(lines: list[dict[str, Any]]) -> str:
    """Return the summary as a table."""
    head = f"{'kind':<40}{'answered':>9}{'holds':>8}{'wrong':>8}{'decided':>9}{'width':>8}{'bias':>8}"
    rows = [
        f"{line['kind']:<40}{line['answered']:>9.0%}{line['holds'] or 0.0:>8.1%}{line['wrong_side']:>8.1%}"
        f"{line['decided']:>9.0%}{line['width'] or 0.0:>8.2f}{line['bias'] or 0.0:>+8.3f}"
        for line in lines
    ]
    return "\n".join([head, *rows])


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw by kind how many intervals hold the truth, and how many questions get a verdict."""
    from matplotlib.figure import Figure

    lines = summary(rows)
    figure = Figure(figsize=(8.0, 0.34 * len(lines) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, line in enumerate(lines):
        if line["holds"] is not None:
            axes.plot([line["holds"]], [row], marker="o", color="#2f7ed8")
        axes.plot([line["decided"]], [row], marker="|", markersize=10, color="#8a8f98")
        axes.plot([line["wrong_side"]], [row], marker="x", color="#c0392b")
    axes.axvline(0.93, color="#8a8f98", linestyle="dashed", linewidth=1.0)
    axes.set_yticks(range(len(lines)), [line["kind"] for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(
        "dot: intervals that hold the truth (goal .93)\nbar: verdict better or worse; cross: on the wrong side"
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120, facecolor="white")


def main() -> None:
    """Play the kinds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=list(SETS), default="first")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kind", action="append")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.kind or SETS[options.set]:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            rows += answers(name, seed)
        print(printed(summary([row for row in rows if row["kind"] == name])).splitlines()[-1], flush=True)
        if options.out:
            answers_kept = [kept(row) for row in rows]
            options.out.write_text(json.dumps({"summary": summary(rows), "answers": answers_kept}, indent=0))
            draw(rows, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
