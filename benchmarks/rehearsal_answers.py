"""`python -m benchmarks.rehearsal_answers`: how often the intervals of `rehearse` hold what the learner truly gains.

Each log has 3,000 pages of a shop whose users are known. The truth is the same learner on the same pages, played
against the true users and attractions, beside today's order. No promise may be above the best possible order.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from benchmarks.log_worlds import Kind, Page, PositionUsers, by_clicks, good, heavy_attraction, play_pages
from rankloop.experiments.rehearsal.answer import N_LATE_POINTS, RehearsalArm, arms_of, rehearse, rehearse_arm
from rankloop.experiments.rehearsal.attraction import Attraction, RehearsalLog
from rankloop.logs.reader import lists_in

LEARNER = "click_regression"
KINDS = {
    "position-based shop": Kind(order=good(1.5), n_queries=40),
    "examination by device": Kind(
        users=PositionUsers(mobile_power=1.8), order=good(1.5), n_queries=40, mobile_share=0.5, same_devices=True
    ),
    "good order": Kind(order=good(0.4), n_queries=60),
    "heavy-tailed items": Kind(order=good(0.8), n_queries=60, attraction=heavy_attraction),
    "daily re-ranking by clicks": Kind(order=by_clicks(30, noise=0.4), n_queries=40),
}


def true_curve(kind: Kind) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the mean examination over devices, which have nothing to do with queries here."""
    users = kind.users
    assert isinstance(users, PositionUsers)
    by_device = [users.rates(np.ones(kind.n_items), Page(0, 0.0, device)) for device in (0, 1)]
    return (1.0 - kind.mobile_share) * by_device[0] + kind.mobile_share * by_device[1]


def answer(name: str, seed: int, pages: int) -> dict[str, Any]:
    """Rehearse on the log of one world, and play the same learner in the world itself."""
    kind, rows = KINDS[name], []
    played = play_pages(kind, np.random.default_rng([seed, 77]))
    for number, (page, order, hits, _) in enumerate(played):
        for position, (item, hit) in enumerate(zip(order.tolist(), hits.tolist())):
            row = {"session": number, "query": f"q{page.query}", "position": position + 1}
            rows.append(row | {"product": f"{page.query}:{item}", "clicked": int(hit)})
    log = lists_in(pyarrow.Table.from_pylist(rows))
    said = rehearse(log, pages=pages, seeds=6, seed=seed, learners=[LEARNER])
    shown = RehearsalLog.of(log)
    arms = arms_of(shown, Attraction.of(shown, said.users, seed), pages, 1, seed, [LEARNER])
    attraction = np.concatenate([rates[order] for _, order, _, rates in played])
    chosen = np.sort(np.random.default_rng(seed).permutation(shown.pages.n_pages)[: len(arms[0].offsets) - 1])
    of_row = np.concatenate([np.arange(*shown.pages.offsets[page : page + 2]) for page in chosen.tolist()])
    users = {"kind": "fitted_users", "model": "pbm", "by_grade": False, "shown": kind.n_items}
    users |= {"examination": [[float(rate)] for rate in true_curve(kind)]}

    def late(arm: RehearsalArm) -> tuple[float, float]:
        outcome = rehearse_arm(arm._replace(users=[users], attraction=attraction[of_row][None]))
        means = [values[0, -N_LATE_POINTS:, 0].mean() for values in (outcome.shown, outcome.best)]
        return 1000.0 * float(means[0]), 1000.0 * float(means[1])

    (today, best), (gained, _) = late(arms[0]), late(arms[1])
    gain = said.arms[0].late["clicks"]
    return {
        "kind": name,
        "seed": seed,
        "word": said.word,
        "model": said.users.fitted.name,
        "truth": gained - today,
        "best": best - today,
        "mean": gain.mean,
        "low": gain.low,
        "high": gain.high,
    }


def main() -> None:
    """Play the kinds and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--kind", action="append")
    parser.add_argument("--out", type=Path)
    options, rows = parser.parse_args(), []
    for name in options.kind or KINDS:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        rows += (of_kind := [answer(name, seed, options.pages) for seed in seeds])
        decided = [row for row in of_kind if row["word"] != "cannot tell"]
        holds = sum(row["low"] <= row["truth"] <= row["high"] for row in decided)
        above = sum(row["mean"] > row["best"] for row in decided)
        wrong = sum(row["word"] == "take" and row["truth"] < 0.0 for row in decided)
        said, truth, best = (np.mean([row[key] for row in of_kind]) for key in ("mean", "truth", "best"))
        counts = f"answered {len(decided)} of {len(of_kind)}, hold {holds}, above best {above}, wrong {wrong}"
        print(f"{name:<30} {counts}; mean {said:+.0f}, truth {truth:+.0f}, best {best:+.0f}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=0))


if __name__ == "__main__":
    main()
