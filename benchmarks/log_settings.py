"""`python -m benchmarks.log_settings RATE:PRIOR …`: how the steps of memory in `bench_logs` are chosen on CLARA2.

Settings are played on the first 30 % of the log in several orders of its pages, and on all its pages with drawn clicks.
Of the last 70 % only the grades are used, which the drawn clicks depend on. Printed is nDCG@10 less that as logged.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.bench_logs import FIRST_SHARE, MEMORY_STEPS, AsLogged, LoggedPage, Ours, clara2, played
from benchmarks.log_worlds import CLARA_CURVE
from rankloop.data import data_folder

CURVE = np.array((1.0, *CLARA_CURVE))
SPREAD = 0.7  # standard deviation of the logarithm of the attraction of pairs of one grade
# Of the chance that a page is looked at, by query: its mean and spread are those of the clicks on the first pages.
LOOKED, NOT_LOOKED = 1.16, 2.27


def expected_clicks(page: LoggedPage) -> float:
    """Return what pairs of these grades get on average, if the page is looked at."""
    attraction = (0.03 + 0.05 * grades_of(page)) * np.exp(SPREAD**2 / 2.0)
    return float((CURVE[np.minimum(page.rank, len(CURVE)) - 1] * attraction).sum())


def grades_of(page: LoggedPage) -> Any:
    """Return the grades, 0 where there are none."""
    return np.zeros(len(page.items)) if page.grades is None else page.grades


def chances_of(first: Sequence[LoggedPage]) -> dict[str, float]:
    """Return by query the expected chance that its pages are looked at, from its clicks (Gamma-Poisson)."""
    clicks, expected = dict[str, float](), dict[str, float]()
    for page in first:
        clicks[page.query] = clicks.get(page.query, LOOKED) + float(page.clicked.sum())
        expected[page.query] = expected.get(page.query, LOOKED + NOT_LOOKED) + expected_clicks(page)
    return {query: min(1.0, clicks[query] / expected[query]) for query in expected}


def drawn(pages: Sequence[LoggedPage], chances: dict[str, float], seed: int) -> list[LoggedPage]:
    """Return the pages with clicks by position, by the attraction of pairs, and by the chance of their query."""
    rng, attraction, chances = np.random.default_rng([seed, 8]), dict[tuple[str, str], float](), dict(chances)
    result = []
    for page in pages:
        for item, grade in zip(page.items, grades_of(page).tolist()):
            if (page.query, item) not in attraction:
                rate = (0.03 + 0.05 * grade) * np.exp(SPREAD * rng.standard_normal())
                attraction[page.query, item] = float(np.clip(rate, 0.005, 0.9))
        if page.query not in chances:
            chances[page.query] = rng.beta(LOOKED, NOT_LOOKED)
        rates = CURVE[np.minimum(page.rank, len(CURVE)) - 1] * [attraction[page.query, item] for item in page.items]
        clicked = (rng.random(len(rates)) < rates) & (rng.random() < chances[page.query])
        result.append(page._replace(clicked=clicked.astype(np.float64)))
    return result


def above_logged(logs: Sequence[Sequence[LoggedPage]], steps: dict[str, float]) -> list[float]:
    """Return nDCG by clicks and by grades, less that of the logged order, as means over logs."""
    differences = []
    for pages in logs:
        ours, logged = played(Ours([], base=True, memory_steps=steps), pages), played(AsLogged(), pages)
        differences.append([np.nanmean(ours.clicks - logged.clicks), np.nanmean(ours.grades - logged.grades)])
    means: list[float] = np.mean(differences, axis=0).tolist()
    return means


def main() -> None:
    """Play the settings and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="memory_rate:memory_prior", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    options, folder = parser.parse_args(), data_folder()
    if folder is None:
        raise SystemExit("The data sets are not on this machine: set RANKLOOP_DATA to their folder.")
    pages = clara2(folder)
    first = pages[: int(FIRST_SHARE * len(pages))]
    chances = chances_of(first)
    orders = [np.random.default_rng(seed).permutation(len(first)) for seed in range(options.seeds)]
    shuffled = [[first[page] for page in order] for order in orders]
    simulated = [drawn(pages, chances, seed) for seed in range(options.seeds)]
    for setting in options.settings or [":".join(f"{value:g}" for value in MEMORY_STEPS.values())]:
        rate, prior = map(float, setting.split(":"))
        steps = {"memory_rate": rate, "memory_prior": prior}
        results = [above_logged(logs, steps) for logs in (shuffled, simulated)]
        words = [f"{name} by clicks {r[0]:+.4f}, by grades {r[1]:+.4f}" for name, r in zip(("first", "drawn"), results)]
        print(f"{setting}: {'; '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
