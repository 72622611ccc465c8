"""Figures 2.1, 2.2, 3.4 and 3.5 of Chaudhuri (2016), "Learning to rank": queries with features, full or top-k."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.papers.registry import Setting, reproduction
from rankloop.experiments.papers.thesis.perceptron_bounds import bounds_chart
from rankloop.experiments.papers.thesis.query_sets import SEPARABLE, SPLITS, World, worlds
from rankloop.experiments.papers.thesis.step_sizes import Contender, experiment_of, with_chosen_rates
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.runner import run_experiments
from rankloop.experiments.spec.model import FLOOR

SLAM, PAIR, LIST_NET = "SLAM perceptron", "max-pair perceptron", "ListNet"
SVM, KL, SQUARED, SMOOTH = "RankSVM, top 2", "KL, top 1", "squared, top 1", "SmoothDCG, top 1"
PERCEPTRONS = (
    Contender(SLAM, {"kind": "ranking_perceptron", "measure": "nDCG@10"}),
    Contender(PAIR, {"kind": "max_pair_perceptron", "measure": "nDCG@10"}),
    Contender(LIST_NET, {"kind": "online_gradient", "surrogate": "list_net", "schedule": "root"}),
)
TOP_K = (
    Contender(LIST_NET, {"kind": "online_gradient", "surrogate": "list_net", "schedule": "root"}),
    *(
        Contender(name, {"kind": "topk_gradient", "surrogate": kind}, {"kind": "top_k", "depth": depth})
        for name, kind, depth in (
            (SVM, "rank_svm", 2),
            (KL, "kl", 1),
            (SQUARED, "squared", 1),
            (SMOOTH, "smooth_dcg", 1),
        )
    ),
)


TITLES = {
    "thesis-2.1": "Perceptrons for ranking on separable queries",
    "thesis-2.2": "Perceptrons for ranking on search queries",
    "thesis-3.4": "Learning from the grades of the first items: web search",
    "thesis-3.5": "Learning from the grades of the first items: graded query sets",
}
CHOSEN = "The step size of every learner is chosen alike, on another part of the stream, before the comparison."
THESIS = 'Chaudhuri (2016), "Learning to rank"'
SEPARABLE_TEXT = f"""{THESIS}, figure 2.1: 20 items with 20 features and five grades, which a linear function ranks \
perfectly with a margin. The summed loss of both perceptrons is bounded for ever, so their average nDCG@10 goes to 1. \
{CHOSEN}"""
SEARCH_TEXT = f"{THESIS}, figure 2.2, on other data: queries that no linear function ranks perfectly. {CHOSEN}"
TOP_K_TEXT = f"""{THESIS}, figures 3.4 and 3.5, on other data: Algorithm 5 sees the grade of the first item (RankSVM: \
of the first two), ListNet the grades of all. Exploration and steps follow the schedule of the thesis, probabilities \
are floored at 0.3. {CHOSEN}"""

TO_ONE = 'text of figure 2.1: the perceptrons "rapidly converge to 1"; no numbers'
IMPERCEPTIBLE = 'figure 2.1: "the two perceptron-like algorithms have imperceptible difference"'
SLOWER = 'text of figure 2.1: ListNet, at O(1/√t), "is significantly slower"; no numbers'
LAST_TEN = (
    "section 2.8, nDCG@10 over the last ten iterations: MSLR 0.25 against ListNet's 0.22, Yahoo 0.75 against 0.74 "
    "(the text calls it slightly worse), Yandex overlapping"
)
POORLY = 'figure 2.2: "performs quite poorly on Yahoo and Yandex datasets"; no numbers'
HIGHEST = 'text of figures 3.4 and 3.5: ListNet "has highest average NDCG value throughout"; no numbers'
CLOSE = (
    'text of figures 3.4 and 3.5: on Yahoo, "RankSVM and KL are very close to the performance of ListNet"; no numbers'
)
LESS_NOISE = "text of figures 3.4 and 3.5: RankSVM does better than the others, from two grades with less variance"
STUCK = 'text of figures 3.4 and 3.5: SmoothDCG "produces poor performance"; no numbers'
CLOSER = 'text of figures 3.4 and 3.5: "much closer to ListNet in performance" than to the random algorithm; no numbers'


@reproduction("thesis-2.1", title=TITLES["thesis-2.1"])
def separable(setting: Setting) -> Finding:
    """Both perceptrons and ListNet where a perfect ranker exists, with the bounds on what they can lose."""
    claims = [
        _claim("above", "The averaged nDCG@10 of the SLAM perceptron goes to 1", TO_ONE, SLAM, value=0.999),
        _claim("above", "The averaged nDCG@10 of the max-pair perceptron goes to 1", TO_ONE, PAIR, value=0.999),
        _claim("near", "The two perceptrons differ imperceptibly", IMPERCEPTIBLE, SLAM, right=PAIR, within=0.001),
        _claim("below", "ListNet is significantly slower than the SLAM perceptron", SLOWER, LIST_NET, right=SLAM),
    ]
    plan = Plan("thesis-2.1", PERCEPTRONS, claims, horizon=5000, quick_horizon=5000, seeds=10)
    [(finding, curves)] = _compared(plan, {plan.id: SEPARABLE}, setting)
    charts = (*finding.charts, bounds_chart(curves, SLAM, PAIR))
    facts = (*finding.facts, ("data", "simulated"))
    return finding._replace(id=plan.id, title=TITLES[plan.id], text=SEPARABLE_TEXT, charts=charts, facts=facts)


@reproduction("thesis-2.2", title=TITLES["thesis-2.2"])
def search_queries(setting: Setting) -> Finding:
    """Both perceptrons and ListNet where no ranker is perfect."""
    competitive = "The SLAM perceptron is competitive with ListNet (at most 0.03 less)"
    poor = "The max-pair perceptron performs quite poorly (0.02 less than SLAM)"
    claims = [
        _claim("above", competitive, LAST_TEN, SLAM, right=LIST_NET, by=-0.03),
        _claim("below", poor, POORLY, PAIR, right=SLAM, by=0.02),
    ]
    plan = Plan("thesis-2.2", PERCEPTRONS, claims, horizon=10_000, quick_horizon=1000, seeds=5)
    return _on_all(plan, tuple(SPLITS), SEARCH_TEXT, setting)


@reproduction("thesis-3.4", title=TITLES["thesis-3.4"])
def web_search(setting: Setting) -> Finding:
    """Algorithm 5 with four surrogates beside ListNet with all grades; the claims are those of the Yahoo data."""
    better = "text of figure 3.4 (Yahoo): KL does much better than squared; no numbers"
    claims = [*_top_k_claims(), _claim("above", "KL does much better than squared", better, KL, right=SQUARED, by=0.02)]
    plan = Plan("thesis-3.4", TOP_K, claims, horizon=100_000, quick_horizon=3000, seeds=3)
    return _on_all(plan, ("Yahoo", "MSLR sample", "ClueWeb09"), TOP_K_TEXT, setting)


@reproduction("thesis-3.5", title=TITLES["thesis-3.5"])
def graded_queries(setting: Setting) -> Finding:
    """The same; the claims are those of the Yandex data."""
    equal = "text of figure 3.5 (Yandex): KL does equally as well as squared; no numbers"
    claims = [*_top_k_claims(), _claim("near", "KL and squared do equally well", equal, KL, right=SQUARED, within=0.02)]
    plan = Plan("thesis-3.5", TOP_K, claims, horizon=100_000, quick_horizon=3000, seeds=5)
    return _on_all(plan, ("Yandex", "MQ2008", "MQ2007"), TOP_K_TEXT, setting)


class Plan(NamedTuple):
    """What is compared, what is claimed of it, and how long it runs."""

    id: str
    contenders: tuple[Contender, ...]
    claims: list[dict[str, Any]]
    horizon: int
    quick_horizon: int
    seeds: int


def _top_k_claims() -> list[dict[str, Any]]:
    return [
        *(
            _claim("above", f"ListNet with all grades is above {arm}", HIGHEST, LIST_NET, right=arm)
            for arm in (SVM, KL, SQUARED)
        ),
        *(_claim("near", f"{arm} is close to ListNet", CLOSE, arm, right=LIST_NET, within=0.03) for arm in (SVM, KL)),
        *(_claim("above", f"RankSVM does better than {arm}", LESS_NOISE, SVM, right=arm) for arm in (KL, SQUARED)),
        _claim("below", "SmoothDCG performs poorly: below squared", STUCK, SMOOTH, right=SQUARED),
    ]


def _on_all(plan: Plan, names: tuple[str, ...], text: str, setting: Setting) -> Finding:
    """One comparison per data set, each with step sizes of its own, under one title."""
    found, notice = worlds(names)
    missing = (notice.strip(),) if notice else ()
    whole = Finding(id=plan.id, title=TITLES[plan.id], text=f"{notice}{text}", missing=missing)
    parts = _compared(plan, {f"{plan.id}-{world.label}": world for world in found}, setting)
    for world, (part, curves) in zip(found, parts):
        verdicts = part.claims + _closer_to_full(curves)
        whole = whole._replace(
            claims=whole.claims + tuple(v._replace(text=f"{world.name}: {v.text}") for v in verdicts),
            charts=whole.charts + tuple(c._replace(title=f"{world.name}: {c.title}") for c in part.charts),
            tables=whole.tables + tuple(t._replace(title=f"{world.name}: {t.title}") for t in part.tables),
            facts=(*part.facts, ("data", ", ".join(world.name for world in found))),
        )
    return whole


def _compared(plan: Plan, named: dict[str, World], setting: Setting) -> list[tuple[Finding, Curves]]:
    """In each world, first the step sizes, then the comparison; all worlds together, so that no core waits for one."""
    horizon, seeds = (plan.quick_horizon, 2) if setting.quick else (plan.horizon, plan.seeds)
    tuning = {name: world.tuning for name, world in named.items()}
    chosen = with_chosen_rates(plan.contenders, tuning, max(1000, horizon // 10), setting)
    experiments = [
        experiment_of(name, world.stream, msgspec.to_builtins(arms), horizon, seeds, claims=plan.claims, ceiling=False)
        for (name, world), (arms, _) in zip(named.items(), chosen)
    ]
    folders = [(experiment, setting.folder / experiment.name) for experiment in experiments]
    found = []
    for experiment, runs, (_, steps) in zip(
        experiments, run_experiments(folders, setting.engine, setting.progress), chosen
    ):
        finding = finding_of(experiment, runs)
        found.append((finding._replace(tables=(*finding.tables, steps)), Curves(experiment, runs)))
    return found


def _closer_to_full(curves: Curves) -> tuple[Verdict, ...]:
    """Whether each convex surrogate gains more than half of what all grades gain over random rankings."""
    return tuple(_closer(curves, arm) for arm in (SVM, KL, SQUARED) if arm in curves.arms)


def _closer(curves: Curves, arm: str) -> Verdict:
    reached = [curves.of(curves.streams[0], who, "nDCG@10", "average") for who in (arm, LIST_NET, FLOOR)]
    ours, full, floor = (rows[:, -1] for rows in reached if rows is not None)
    shares = (ours - floor) / (full - floor)
    inside = int((shares > 0.5).sum())
    word: Word = "holds" if inside == len(shares) else "partly" if inside else "does not hold"
    because = (
        f"{100 * shares.mean():.0f} % of ListNet's gain over random, above half in {inside} of {len(shares)} seeds"
    )
    return Verdict(f"{arm} is much closer to ListNet than to random", word, because, CLOSER)


def _claim(check: str, text: str, paper: str, left: str, **more: Any) -> dict[str, Any]:
    return {"check": check, "text": text, "paper": paper, "left": left, "measure": "nDCG@10"} | more
