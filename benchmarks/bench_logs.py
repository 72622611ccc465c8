"""Learning from real logs, page by page, beside the order that was logged and beside peers.

python -m benchmarks logs              the rows for `make bench`
python -m benchmarks.bench_logs        the same, and Open Bandit; writes docs/results/logs.json
python docs/results/update.py          writes the tables of docs/real-logs.md from it

Every side ranks a page before it learns from it; the last 70 % of the pages count. All get the query, the items and
the logged rank, except those that are said to have ids only. Grades are the judge only: nobody learns from them.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks import open_bandit
from benchmarks.environment import installed, machine, versions
from benchmarks.measurement import Row, alone
from rankloop import Ranker, parse_measure
from rankloop.core.files import atomic_write
from rankloop.core.types import Floats, Ints
from rankloop.data import data_folder
from rankloop.logs.list_log import ClickArrays
from rankloop.logs.reader import lists_in
from rankloop.training.clicks.weights import LOGGED_ORDER_WEIGHT, estimate_examined, not_below_click_rates

RESULTS = Path("docs/results/logs.json")
FIRST_SHARE = 0.3  # of the pages, which are learned from and do not count
N_REFITS = 7  # of LightGBM, over the pages that count
MEASURE = parse_measure("nDCG@10")
BASE = {"kind": "number", "scale": "log"}
# Chosen by `benchmarks.log_settings`: the best nDCG by grades among the settings that keep the nDCG by clicks of the
# previous one, a rate of 0.1 and a prior of 1.
MEMORY_STEPS = {"memory_rate": 0.22, "memory_prior": 10.0}
LOGGED = "as logged"
N_RESAMPLES = 1000  # of queries, for the intervals


class LoggedPage(NamedTuple):
    """A page with its items in a random order, so that ties tell nobody the logged order."""

    query: str
    items: list[str]
    rank: Ints  # where each item stood, from 1
    clicked: Floats
    grades: Floats | None


class Side(Protocol):
    """A ranker that learns from logged pages."""

    def scores(self, page: LoggedPage) -> Floats: ...

    def learn(self, page: LoggedPage) -> None: ...


def shuffled(query: str, items: list[str], clicked: Any, grades: Any, rng: np.random.Generator) -> LoggedPage:
    kept = sorted(set(map(items.index, items)))  # an item that stands on a page twice counts once
    order = np.array(kept)[rng.permutation(len(kept))]
    graded = None if grades is None else np.asarray(grades, np.float64)[order]
    return LoggedPage(
        query, [items[i] for i in order], order + 1, (np.asarray(clicked, np.float64) > 0)[order] * 1.0, graded
    )


def clara2(folder: Path) -> list[LoggedPage]:
    """Half of NAVER's CLARA2 log of web search."""
    log, rng = lists_in(folder / "clicks/clara2-half.csv.gz"), np.random.default_rng(0)
    grades = np.nan_to_num(np.array(log.values["grade"], np.float64))
    pages = []
    for start, end in zip(log.offsets[:-1].tolist(), log.offsets[1:].tolist()):
        rows = log.order[start:end]
        items = [str(log.item[row]) for row in rows] if log.item is not None else []
        pages.append(shuffled(log.query[start], items, log.clicked[rows], grades[rows], rng))
    return pages


def trec_session(folder: Path) -> list[LoggedPage]:
    """The click log of TREC's session track, of which some pages have grades."""
    where, rng = folder / "clicks/trec_session2014", np.random.default_rng(0)
    graded = {tuple(parts[:3]): parts[5] for parts in _lines(where / "human_label_for_NCM_per_query_quid.txt.gz")}
    pages = []
    for part in ("train", "valid", "test"):
        for parts in _lines(where / f"{part}_per_query_quid.txt.gz"):
            grades = graded.get(tuple(parts[:3]))
            relevance = None if grades is None else np.maximum(ast.literal_eval(grades), 0)
            items = list(map(str, ast.literal_eval(parts[2])))
            pages.append(shuffled(parts[1], items, ast.literal_eval(parts[4]), relevance, rng))
    return pages


def _lines(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


LOGS: dict[str, Callable[[Path], list[LoggedPage]]] = {"CLARA2, half": clara2, "TREC Session 2014": trec_session}


class AsLogged:
    """The order of the engine."""

    def scores(self, page: LoggedPage) -> Floats:
        return -page.rank.astype(np.float64)

    def learn(self, page: LoggedPage) -> None: ...


class Counts:
    """Clicks and impressions of pairs and of items so far."""

    def __init__(self) -> None:
        self.clicks: dict[Any, float] = {}
        self.shown: dict[Any, int] = {}

    def learn(self, page: LoggedPage) -> None:
        for item, clicked in zip(page.items, page.clicked.tolist()):
            for key in ((page.query, item), item):
                self.clicks[key] = self.clicks.get(key, 0.0) + clicked
                self.shown[key] = self.shown.get(key, 0) + 1

    def rate(self, key: Any, prior: float = 0.05, weight: float = 5.0) -> float:
        return (self.clicks.get(key, 0.0) + prior * weight) / (self.shown.get(key, 0) + weight)


class RunningPopularity(Counts):
    """By the click rate of the pair so far, then of the item."""

    def scores(self, page: LoggedPage) -> Floats:
        return np.array([self.rate((page.query, item), self.rate(item)) for item in page.items])


class Ours:
    """`click_regression` by `Ranker.learn(order=...)`.

    With ids only it has the examination that the first pages suggest. With the logged order as its base it learns
    offsets, and the query is a field of the items, too: equal on a page, so it moves no item, but it takes up that some
    queries get few clicks.
    """

    def __init__(
        self,
        first: Sequence[LoggedPage],
        *,
        base: bool,
        positions: bool = True,
        memory_steps: Mapping[str, float] = MEMORY_STEPS,
    ) -> None:
        inner: dict[str, Any] = {"kind": "click_regression"}
        examination = examination_of(first) if positions and not base else ()
        if examination:
            inner |= {"examination": examination, "order_weight": LOGGED_ORDER_WEIGHT}
        learner = {"kind": "hashed", "inner": inner} | (dict(memory_steps) if base else {})
        features: dict[str, Any] = {"item": "id"} | ({"logged_score": BASE, "page_query": "category"} if base else {})
        context, crosses = {"query": "category"}, ["query*item"]
        score = "logged_score" if base else None
        self.ranker = Ranker(learner, features=features, context=context, crosses=crosses, base=score, shown=10)
        self.base, self.positions = base, positions

    def scores(self, page: LoggedPage) -> Floats:
        order = self.ranker.predict(self._rows(page), {"query": page.query}, at=0.0)
        place = {item: -float(position) for position, item in enumerate(order)}
        return np.array([place[item] for item in page.items])

    def learn(self, page: LoggedPage) -> None:
        order = [page.items[i] for i in np.argsort(page.rank)] if self.positions else page.items
        clicks = [item for item, clicked in zip(page.items, page.clicked) if clicked]
        self.ranker.learn(self._rows(page), order=order, context={"query": page.query}, at=0.0, clicks=clicks)

    def _rows(self, page: LoggedPage) -> dict[str, dict[str, Any]]:
        if not self.base:
            return {item: {} for item in page.items}
        ranks = zip(page.items, page.rank.tolist())
        return {item: {"logged_score": -float(rank), "page_query": page.query} for item, rank in ranks}


def examination_of(pages: Sequence[LoggedPage]) -> tuple[float, ...]:
    """Return the shared estimate of examination from some pages; none where no item moved."""
    offsets = np.concatenate([[0], np.cumsum([len(page.items) for page in pages])])
    position = np.concatenate([page.rank - 1 for page in pages])
    queries = [page.query for page in pages for _ in page.items]
    items = [item for page in pages for item in page.items]
    clicked = np.concatenate([page.clicked for page in pages])
    log = ClickArrays.of(offsets, position, clicked, queries, items)
    examined = estimate_examined(log)
    return () if examined is None else tuple(not_below_click_rates(examined, log).tolist())


class VowpalWabbit:
    """Logistic regression on item, pair and logged rank."""

    def __init__(self, arguments: str = "--ftrl --ftrl_alpha 0.1 --ftrl_beta 1") -> None:
        import vowpalwabbit

        self.workspace = vowpalwabbit.Workspace(f"--loss_function logistic -b 20 --quiet {arguments}")

    def _lines(self, page: LoggedPage) -> list[str]:
        rows = zip(page.items, np.log1p(page.rank).tolist())
        return [f"|i i{item} |p q{page.query}_{item} |r rank:{rank:.4f}" for item, rank in rows]

    def scores(self, page: LoggedPage) -> Floats:
        return np.array([self.workspace.predict(line) for line in self._lines(page)])

    def learn(self, page: LoggedPage) -> None:
        for line, clicked in zip(self._lines(page), page.clicked):
            self.workspace.learn(f"{1 if clicked else -1} {line}")


class River:
    """FTRL on item, pair and logged rank."""

    def __init__(self) -> None:
        from river import linear_model, optim

        self.model = linear_model.LogisticRegression(optimizer=optim.FTRLProximal(alpha=0.1, beta=1.0, l1=0.0, l2=1.0))

    def _rows(self, page: LoggedPage) -> list[dict[str, float]]:
        rows = zip(page.items, np.log1p(page.rank).tolist())
        return [{f"i {item}": 1.0, f"p {page.query} {item}": 1.0, "rank": rank} for item, rank in rows]

    def scores(self, page: LoggedPage) -> Floats:
        return np.array([self.model.predict_proba_one(row).get(True, 0.0) for row in self._rows(page)])

    def learn(self, page: LoggedPage) -> None:
        for row, clicked in zip(self._rows(page), page.clicked):
            self.model.learn_one(row, bool(clicked))


class LightGBM(Counts):
    """lambdarank on the logged rank and running counts, fitted again after every tenth of the log."""

    def __init__(self, refit_every: int) -> None:
        super().__init__()
        self.refit_every, self.rows, self.labels, self.sizes = refit_every, list[Floats](), list[Floats](), list[int]()
        self.model: Any = None

    def _features(self, page: LoggedPage) -> Floats:
        pairs = [(page.query, item) for item in page.items]
        rates = [(self.rate(pair, self.rate(item)), self.rate(item)) for pair, item in zip(pairs, page.items)]
        counts = [(self.clicks.get(pair, 0.0), self.shown.get(pair, 0)) for pair in pairs]
        return np.column_stack([page.rank, rates, counts])

    def scores(self, page: LoggedPage) -> Floats:
        if self.model is None:
            return -page.rank.astype(np.float64)
        scores: Floats = self.model.predict(self._features(page))
        return scores

    def learn(self, page: LoggedPage) -> None:
        self.rows.append(self._features(page))
        self.labels.append(page.clicked)
        self.sizes.append(len(page.items))
        super().learn(page)
        if len(self.sizes) % self.refit_every == 0:
            self._fit()

    def _fit(self) -> None:
        import lightgbm

        data = lightgbm.Dataset(np.concatenate(self.rows), np.concatenate(self.labels), group=self.sizes)
        options = {"objective": "lambdarank", "num_leaves": 15, "learning_rate": 0.05, "verbose": -1, "num_threads": 1}
        self.model = lightgbm.train(options, data, num_boost_round=100)


def sides(pages: Sequence[LoggedPage]) -> dict[str, Callable[[], Side]]:
    """Return those that can play here."""
    first = pages[: int(FIRST_SHARE * len(pages))]
    refit_every = max(1, int((1 - FIRST_SHARE) * len(pages) / N_REFITS))
    names: dict[str, Callable[[], Side]] = {
        LOGGED: AsLogged,
        "running popularity, ids only": RunningPopularity,
        "rankloop, ids only, without positions": lambda: Ours(first, base=False, positions=False),
        "rankloop, ids only": lambda: Ours(first, base=False),
        "rankloop": lambda: Ours(first, base=True),
        "VowpalWabbit": VowpalWabbit,
        "river": River,
        "LightGBM": lambda: LightGBM(refit_every),
    }
    peers = ("VowpalWabbit", "river", "LightGBM")
    return {name: make for name, make in names.items() if name not in peers or installed(name)}


class Judged(NamedTuple):
    """nDCG of each page that counts, nan where it has no click or no grade, and CPU seconds per page."""

    clicks: Floats
    grades: Floats
    seconds: float


def played(side: Side, pages: Sequence[LoggedPage]) -> Judged:
    """Rank each page, then learn from it."""
    clicks, grades, start = list[float](), list[float](), process_time()
    for number, page in enumerate(pages):
        if number >= FIRST_SHARE * len(pages):
            order = np.argsort(-side.scores(page), kind="stable")
            clicks.append(float(MEASURE(order, page.clicked)) if page.clicked.any() else np.nan)
            is_graded = page.grades is not None and page.grades.any()
            grades.append(float(MEASURE(order, page.grades)) if is_graded else np.nan)
        side.learn(page)
    return Judged(np.array(clicks), np.array(grades), (process_time() - start) / len(pages))


def difference_interval(difference: Floats, queries: Sequence[str]) -> list[float]:
    """Return the 95 % interval of a mean difference between two sides, by resampling queries."""
    counts = ~np.isnan(difference)
    names, number = np.unique(np.array(queries)[counts], return_inverse=True)
    sums, sizes = np.bincount(number, difference[counts]), np.bincount(number)
    draws = np.random.default_rng(0).integers(len(names), size=(N_RESAMPLES, len(names)))
    interval: list[float] = np.quantile(sums[draws].sum(1) / sizes[draws].sum(1), [0.025, 0.975]).tolist()
    return interval


Summary = dict[str, Any]


def results() -> dict[str, dict[str, Summary]]:
    """Return what each side reached on each log that is on this machine."""
    folder, summaries = data_folder(), dict[str, dict[str, Summary]]()
    for log, read in LOGS.items():
        try:
            pages = read(folder) if folder is not None else []
        except OSError:
            pages = []
        if pages:
            judged = {side: played(make(), pages) for side, make in sides(pages).items()}
            queries = [page.query for page in pages[-len(judged[LOGGED].clicks) :]]
            summaries[log] = {side: _summary(result, judged[LOGGED], queries) for side, result in judged.items()}
    return summaries


def _summary(judged: Judged, logged: Judged, queries: Sequence[str]) -> Summary:
    """Return means, and the interval of the difference from the logged order."""
    summary: Summary = {"seconds": judged.seconds}
    for name in ("clicks", "grades"):
        values, base = getattr(judged, name), getattr(logged, name)
        summary[name] = float(np.nanmean(values))
        summary[f"{name}_above_logged"] = [] if judged is logged else difference_interval(values - base, queries)
    return summary


def run() -> list[Row]:
    return [
        alone(
            f"{log}, {side}",
            estimate["seconds"],
            note=f"nDCG@10 by clicks {estimate['clicks']:.4f}, by grades {estimate['grades']:.4f}",
        )
        for log, by_side in results().items()
        for side, estimate in by_side.items()
    ]


def main() -> None:
    """Measure and keep the results."""
    folder = data_folder()
    choices = {} if folder is None else open_bandit.results(folder)
    kept = {"machine": machine(), "versions": versions(), "logs": results(), "open bandit": choices}
    atomic_write(RESULTS, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
