"""Figures 2.1, 2.2, 3.4 and 3.5 of Chaudhuri (2016), "Learning to rank": queries with features, full or top-k."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Chart, Finding
from rankloop.experiments.spec.model import FLOOR, Experiment
from research.bounds.perceptrons import margin_of, max_pair_perceptron_loss, ranking_perceptron_loss, slam_weights
from research.comparison import experiment_of, finding_with, label_of, play_all, with_part
from research.papers.thesis.query_sets import SEPARABLE_SET, SPLITS_BY_NAME, QuerySet, available_sets
from research.papers.thesis.step_sizes import MEASURE, Contender, with_chosen_rates
from research.registry import Setting, reproduction
from research.verdicts import word_of

SLAM, PAIR, LIST_NET = "SLAM perceptron", "max-pair perceptron", "ListNet"
SVM, KL, SQUARED, SMOOTH = "RankSVM, top 2", "KL, top 1", "squared, top 1", "SmoothDCG, top 1"
RESIDUAL_ARM = "squared, residual divided, top 1"
BALL_RADII = (1.0, 10.0)  # of the ball onto which Algorithm 5 projects
PRINTED_RATE, PRINTED_SMOOTHING = 0.01, 0.01  # η = 0.01·t^(−2/3), for ListNet 0.01·t^(−1/2); ε of SmoothDCG
TUNED_PREFIX = "with tuned steps: "
PERCEPTRON_ARMS = (
    Contender(SLAM, {"kind": "ranking_perceptron", "measure": "nDCG@10"}),
    Contender(PAIR, {"kind": "max_pair_perceptron", "measure": "nDCG@10"}),
    Contender(LIST_NET, {"kind": "online_gradient", "surrogate": "list_net", "schedule": "root"}),
)
TOP_K_SURROGATES: tuple[tuple[str, Any, int], ...] = (
    (SVM, "rank_svm", 2),
    (KL, "kl", 1),
    (SQUARED, {"kind": "squared", "divided": "grade"}, 1),
    (RESIDUAL_ARM, {"kind": "squared", "divided": "residual"}, 1),
    (SMOOTH, "smooth_dcg", 1),
)


def as_printed(name: str) -> str:
    """Return the name of the arm with the settings that the thesis prints."""
    return f"{name}, as printed"


def _list_net(name: str, **more: Any) -> Contender:
    return Contender(name, {"kind": "online_gradient", "surrogate": "list_net", "schedule": "root"}, **more)


def _top_k(name: str, surrogate: Any, depth: int, **more: Any) -> Contender:
    return Contender(name, {"kind": "topk_gradient", "surrogate": surrogate}, {"kind": "top_k", "depth": depth}, **more)


TOP_K = (
    _list_net(LIST_NET),
    *(_top_k(*surrogate, radii=BALL_RADII) for surrogate in TOP_K_SURROGATES),
    _list_net(as_printed(LIST_NET), rates=(PRINTED_RATE,)),
    *(
        _top_k(as_printed(name), surrogate, depth, rates=(PRINTED_RATE,))
        for name, surrogate, depth in (
            *TOP_K_SURROGATES[:3],
            (SMOOTH, {"kind": "smooth_dcg", "smoothing": PRINTED_SMOOTHING}, 1),
        )
    ),
)

SIZE_OPTIONS = ("rounds", "seeds")
ACCEPTED_OPTIONS = (*SIZE_OPTIONS, "data")
STEP_SIZE_TEXT = "The step size of every learner is chosen alike, on another part of the stream, before the comparison."
THESIS = 'Chaudhuri (2016), "Learning to rank"'
SEPARABLE_TEXT = f"""{THESIS}, figure 2.1: 20 items with 20 features and five grades, which a linear function ranks \
perfectly with a margin. The summed loss of both perceptrons is bounded for ever, so their average nDCG@10 goes to 1. \
{STEP_SIZE_TEXT}"""
SEARCH_TEXT = f"{THESIS}, figure 2.2, on other data: queries that no linear function ranks perfectly. {STEP_SIZE_TEXT}"
TOP_K_TEXT = f"""{THESIS}, figures 3.4 and 3.5, on other data: Algorithm 5 sees the grade of the first item (RankSVM: \
of the first two), ListNet the grades of all. Two sets of arms. "As printed": the steps of the thesis, \
0.01·t^(−2/3) and for ListNet 0.01·t^(−1/2), its smoothing of 0.01, and no ball, as no radius is given; by these the \
claims of the thesis are judged. The others: step size and radius chosen on another part of the stream, smoothing 1; \
claims about them are ours. Both explore with 0.1·t^(−1/3) and floor probabilities at 0.3, where the thesis scales γ \
up by a constant that it does not name. "Squared" is the estimator that the thesis prints, 2·(s − R(σ₁)·e/p), in which \
only the seen grade is divided by its probability; rankloop's own default divides 2·(s − R) of the seen item, which is \
unbiased too."""

TO_ONE = 'text of figure 2.1: the perceptrons "rapidly converge to 1"; no numbers'
PAPER_PERCEPTRONS_EQUAL = 'figure 2.1: "the two perceptron-like algorithms have imperceptible difference"'
PAPER_LISTNET_SLOWER = 'text of figure 2.1: ListNet, at O(1/√t), "is significantly slower"; no numbers'
LAST_TEN = (
    "section 2.8, nDCG@10 over the last ten iterations: MSLR 0.25 against ListNet's 0.22, Yahoo 0.75 against 0.74 "
    "(the text calls it slightly worse), Yandex overlapping"
)
PAPER_POOR_ON_YAHOO = 'figure 2.2: "performs quite poorly on Yahoo and Yandex datasets"; no numbers'
PAPER_LISTNET_HIGHEST = 'text of figures 3.4 and 3.5: ListNet "has highest average NDCG value throughout"; no numbers'
PAPER_CLOSE_TO_BEST = (
    'text of figures 3.4 and 3.5: on Yahoo, "RankSVM and KL are very close to the performance of ListNet"; no numbers'
)
LESS_NOISE = "text of figures 3.4 and 3.5: RankSVM does better than the others, from two grades with less variance"
PAPER_SMOOTH_DCG_POOR = 'text of figures 3.4 and 3.5: SmoothDCG "produces poor performance"; no numbers'
PAPER_CLOSER_TO_LISTNET = (
    'text of figures 3.4 and 3.5: "much closer to ListNet in performance" than to the random algorithm; no numbers'
)


@reproduction("thesis-2.1", takes=SIZE_OPTIONS, title="Perceptrons for ranking on separable queries")
def separable(setting: Setting) -> Finding:
    """Both perceptrons and ListNet where a perfect ranker exists, with the bounds on what they can lose."""
    claims = [
        claim("above", "The averaged nDCG@10 of the SLAM perceptron goes to 1", TO_ONE, SLAM, value=0.999),
        claim("above", "The averaged nDCG@10 of the max-pair perceptron goes to 1", TO_ONE, PAIR, value=0.999),
        claim(
            "near", "The two perceptrons differ imperceptibly", PAPER_PERCEPTRONS_EQUAL, SLAM, right=PAIR, within=0.001
        ),
        claim(
            "below",
            "ListNet is significantly slower than the SLAM perceptron",
            PAPER_LISTNET_SLOWER,
            LIST_NET,
            right=SLAM,
        ),
    ]
    plan = Plan("thesis-2.1", PERCEPTRON_ARMS, claims, horizon=5000, quick_horizon=5000, seeds=10)
    [(finding, curves)] = _compared(plan, {plan.id: SEPARABLE_SET}, setting)
    charts = (*finding.charts, bounds_chart(curves))
    return finding._replace(text=SEPARABLE_TEXT, charts=charts, facts=(*finding.facts, ("data", "simulated")))


def bounds_chart(curves: Curves) -> Chart:
    """Summed 1 − nDCG@10 of both perceptrons, and their bounds on this stream as flat lines."""
    lines = []
    for colour, arm in enumerate((SLAM, PAIR)):
        average = curves.of(curves.streams[0], arm, MEASURE, "average")
        if average is not None:
            lines.append(Line(arm, np.maximum(curves.rounds * (1.0 - average), 1e-3), colour))
    flat = np.ones((1, len(curves.rounds)))
    for colour, (name, bound) in enumerate(_bounds(curves.experiment).items(), start=2):
        lines.append(Line(name, flat * bound, colour))
    caption = "The bounds hold for ever and are far above what is lost, as worst cases are."
    labels = {"caption": caption, "y_label": "summed loss"}
    return chart("bounds", "Summed loss and its bounds", curves.rounds, lines, **labels, log_x=True, log_y=True)


def _bounds(experiment: Experiment) -> dict[str, float]:
    """Corollaries 7 and 11 for the queries of the first seed."""
    dataset, direction = build(experiment.stream, "stream").dataset_and_weights(generators(0)[0])
    longest = float(np.sqrt((dataset.features**2).sum(axis=1).max()))
    margin = margin_of(dataset, direction)
    weights = slam_weights(dataset.query(0)[1], MEASURE)
    return {
        "theorem 8": ranking_perceptron_loss(1.0 / margin, longest, weights, tight=False),
        "theorem 8, tight": ranking_perceptron_loss(1.0 / margin, longest, weights),
        "theorem 10": max_pair_perceptron_loss(1.0 / margin, longest),
    }


@reproduction("thesis-2.2", takes=ACCEPTED_OPTIONS, title="Perceptrons for ranking on search queries")
def search_queries(setting: Setting) -> Finding:
    """Both perceptrons and ListNet where no ranker is perfect."""
    competitive = "The SLAM perceptron is competitive with ListNet (at most 0.03 less)"
    poor = "The max-pair perceptron performs quite poorly (0.02 less than SLAM)"
    claims = [
        claim("above", competitive, LAST_TEN, SLAM, right=LIST_NET, by=-0.03),
        claim("below", poor, PAPER_POOR_ON_YAHOO, PAIR, right=SLAM, by=0.02),
    ]
    plan = Plan("thesis-2.2", PERCEPTRON_ARMS, claims, horizon=10_000, quick_horizon=1000, seeds=20)
    return on_all(plan, tuple(SPLITS_BY_NAME), SEARCH_TEXT, setting)


@reproduction("thesis-3.4", takes=ACCEPTED_OPTIONS, title="Learning from the grades of the first items: web search")
def web_search(setting: Setting) -> Finding:
    """Algorithm 5 with four surrogates beside ListNet with all grades; the claims are those of the Yahoo data."""
    better = "text of figure 3.4 (Yahoo): KL does much better than squared; no numbers"
    much = comparison("above", "KL does much better than squared", better, KL, right=SQUARED, by=0.02)
    claims = [*_top_k_claims(), *much]
    plan = Plan("thesis-3.4", TOP_K, claims, horizon=200_000, quick_horizon=3000, seeds=20)
    return on_all(plan, ("Yahoo", "MSLR sample", "ClueWeb09"), TOP_K_TEXT, setting)


@reproduction(
    "thesis-3.5", takes=ACCEPTED_OPTIONS, title="Learning from the grades of the first items: graded query sets"
)
def graded_queries(setting: Setting) -> Finding:
    """Compare learners on graded query sets; the claims are those of the Yandex data."""
    equal = "text of figure 3.5 (Yandex): KL does equally as well as squared; no numbers"
    claims = [
        *_top_k_claims(),
        *comparison("near", "KL and squared do equally well", equal, KL, right=SQUARED, within=0.02),
    ]
    plan = Plan("thesis-3.5", TOP_K, claims, horizon=100_000, quick_horizon=3000, seeds=20)
    return on_all(plan, ("Yandex", "MQ2008", "MQ2007"), TOP_K_TEXT, setting)


class Plan(NamedTuple):
    """Arms, claims and length of an experiment."""

    id: str
    contenders: tuple[Contender, ...]
    claims: list[dict[str, Any]]
    horizon: int
    quick_horizon: int
    seeds: int


def _top_k_claims() -> list[dict[str, Any]]:
    pairs = [
        *(
            comparison("above", f"ListNet with all grades is above {arm}", PAPER_LISTNET_HIGHEST, LIST_NET, right=arm)
            for arm in (SVM, KL, SQUARED)
        ),
        *(
            comparison("near", f"{arm} is close to ListNet", PAPER_CLOSE_TO_BEST, arm, right=LIST_NET, within=0.03)
            for arm in (SVM, KL)
        ),
        *(comparison("above", f"RankSVM does better than {arm}", LESS_NOISE, SVM, right=arm) for arm in (KL, SQUARED)),
        comparison("below", "SmoothDCG performs poorly: below squared", PAPER_SMOOTH_DCG_POOR, SMOOTH, right=SQUARED),
    ]
    residual = "Dividing the residual does better than dividing the grade"
    return [each for pair in pairs for each in pair] + [
        claim("above", f"{TUNED_PREFIX}{residual}", "", RESIDUAL_ARM, right=SQUARED)
    ]


def comparison(check: str, text: str, paper: str, left: str, right: str, **more: Any) -> list[dict[str, Any]]:
    """Return a claim of the thesis with its own settings, and our claim that it holds with tuned steps.

    Args:
      check: The kind of claim.
      text: The claim.
      paper: The words of the thesis.
      left: The arm.
      right: The arm that it is compared with.
      **more: Further fields of the claim.
    """
    return [
        claim(check, text, paper, as_printed(left), right=as_printed(right), **more),
        claim(check, f"{TUNED_PREFIX}{text}", "", left, right=right, **more),
    ]


def on_all(plan: Plan, names: tuple[str, ...], text: str, setting: Setting) -> Finding:
    """One comparison per data set, each with step sizes of its own, under one title."""
    available, notice = available_sets(names, setting.options.data)
    combined = finding_with(text, notice)
    parts = _compared(plan, {f"{plan.id}-{label_of(query_set.name)}": query_set for query_set in available}, setting)
    for query_set, (part, curves) in zip(available, parts):
        closer = tuple(
            _closer(curves, arm, printed)
            for arm in (SVM, KL, SQUARED)
            for printed in (True, False)
            if (as_printed(arm) if printed else arm) in curves.arms
        )
        combined = with_part(combined, query_set.name, part._replace(claims=part.claims + closer, inside=()))
    sizes = "; ".join(
        f"{query_set.name}: {curves.experiment.horizon:,}" for query_set, (_, curves) in zip(available, parts)
    )
    facts = dict(combined.facts) | {"rounds": sizes, "data": ", ".join(query_set.name for query_set in available)}
    return combined._replace(facts=tuple(facts.items()))


def _compared(plan: Plan, named: dict[str, QuerySet], setting: Setting) -> list[tuple[Finding, Curves]]:
    """On each set, first the step sizes, then the comparison; all sets together, so that no core waits for one."""
    seeds = setting.options.seeds or (2 if setting.quick else plan.seeds)
    horizons = [_horizon(plan, query_set, setting) for query_set in named.values()]
    tuning = {name: (query_set.tuning, rounds) for (name, query_set), rounds in zip(named.items(), horizons)}
    chosen = with_chosen_rates(plan.contenders, tuning, setting)
    experiments = [
        experiment_of(name, query_set.stream, msgspec.to_builtins(arms), MEASURE, rounds, seeds, claims=plan.claims)
        for (name, query_set), rounds, (arms, _) in zip(named.items(), horizons, chosen)
    ]
    findings = [(finding_of(curves), curves) for curves in play_all(experiments, setting)]
    return [
        (finding._replace(tables=(*finding.tables, steps)), curves)
        for (finding, curves), (_, steps) in zip(findings, chosen)
    ]


def _horizon(plan: Plan, query_set: QuerySet, setting: Setting) -> int:
    """As many rounds as the thesis has, or as are enough, or as somebody asks for."""
    rounds = plan.quick_horizon if setting.quick else plan.horizon
    return setting.options.rounds or min(rounds, query_set.enough or rounds)


def _closer(curves: Curves, arm: str, printed: bool) -> Verdict:
    """Decide if a convex surrogate gains more than half of what all grades gain over random rankings."""
    learner, full_feedback = (as_printed(arm), as_printed(LIST_NET)) if printed else (arm, LIST_NET)
    ours, full, floor = (curves.at(name, MEASURE, "average") for name in (learner, full_feedback, FLOOR))
    shares = (ours - floor) / (full - floor)
    inside = int((shares > 0.5).sum())
    because = (
        f"{100 * shares.mean():.0f} % of ListNet's gain over random, above half in {inside} of {len(shares)} seeds"
    )
    text = f"{arm} is much closer to ListNet than to random"
    word = word_of(inside, len(shares))
    return (
        Verdict(text, word, because, PAPER_CLOSER_TO_LISTNET)
        if printed
        else Verdict(TUNED_PREFIX + text, word, because)
    )


def claim(check: str, text: str, paper: str, left: str, **more: Any) -> dict[str, Any]:
    """Return a claim about nDCG@10.

    Args:
      check: The kind of claim.
      text: The claim.
      paper: The numbers of the paper.
      left: The arm.
      **more: Further fields of the claim.
    """
    return {"check": check, "text": text, "paper": paper, "left": left, "measure": MEASURE} | more
